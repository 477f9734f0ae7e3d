//! Pictures in messages: where they stand, and their bytes or address as the record has them.

use serde_json::Value;

/// The text that stands for an image in the text of a message.
pub(crate) const PICTURE: &str = "[image]";

/// The kinds of pictures that the interfaces of models accept.
const MEDIA: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A name of JPEG that the interfaces refuse, and the one that they accept.
const JPG: (&str, &str) = ("image/jpg", "image/jpeg");

/// A picture in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The offset of its `[image]` in the text, in bytes.
    pub at: usize,
    /// The content.
    pub content: PictureContent,
}

/// The content of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PictureContent {
    /// Its bytes as base64, and their media type. Both are what the record says, unchecked.
    Inline {
        /// Such as `image/png`.
        media: String,
        /// The bytes.
        base64: String,
    },
    /// The address of the image.
    Address(String),
}

impl Picture {
    /// Returns true if the interfaces of models accept it: bytes of a kind that all of them read, or an
    /// address that they can fetch.
    pub(crate) fn is_accepted(&self) -> bool {
        match &self.content {
            PictureContent::Inline { media, base64 } => {
                MEDIA.contains(&&**media) && !base64.is_empty()
            }
            PictureContent::Address(address) => {
                ["https://", "http://"].iter().any(|scheme| address.starts_with(scheme))
            }
        }
    }

    /// The picture of a content block at `at`: of the Anthropic interface (`source`), of the OpenAI
    /// interfaces (`image_url`, as text or with `url` below it), with `data` and `mimeType` beside
    /// the type, as pi writes it, or with `url`, as opencode does. Nothing when the block has neither bytes nor address.
    pub(crate) fn of(block: &Value, at: usize) -> Option<Self> {
        let text = |path| block.pointer(path).and_then(Value::as_str);
        let data = text("/source/data").or_else(|| text("/data"));
        let media = ["/source/media_type", "/mimeType", "/media_type"].into_iter().find_map(text);
        let media = media.map(|media| if media == JPG.0 { JPG.1 } else { media });
        let address =
            ["/image_url/url", "/image_url", "/source/url", "/url"].into_iter().find_map(text);
        let content = match (data, address) {
            (Some(data), _) => PictureContent::Inline {
                media: media.unwrap_or("image/png").to_owned(),
                base64: data.to_owned(),
            },
            (None, Some(address)) => match inline(address) {
                Some(content) => content,
                None => PictureContent::Address(address.to_owned()),
            },
            (None, None) => return None,
        };
        Some(Self { at, content })
    }
}

/// Returns the image in a `data:` address with base64.
fn inline(address: &str) -> Option<PictureContent> {
    let (media, base64) = address.strip_prefix("data:")?.split_once(";base64,")?;
    let media = if media == JPG.0 { JPG.1 } else { media };
    Some(PictureContent::Inline { media: media.to_owned(), base64: base64.to_owned() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pictures_of_every_interface_are_found() {
        let png = PictureContent::Inline { media: "image/png".into(), base64: "AAAA".into() };
        for block in [
            json!({"source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}),
            json!({"image_url": {"url": "data:image/png;base64,AAAA"}}),
            json!({"image_url": "data:image/png;base64,AAAA"}),
            json!({"data": "AAAA", "mimeType": "image/png"}),
        ] {
            assert_eq!(Picture::of(&block, 3), Some(Picture { at: 3, content: png.clone() }));
        }
        let remote = json!({"source": {"type": "url", "url": "https://e.org/a.png"}});
        let address = PictureContent::Address("https://e.org/a.png".into());
        assert_eq!(Picture::of(&remote, 0).map(|found| found.content), Some(address));
        assert_eq!(Picture::of(&json!({"source": {}}), 0), None);
    }

    #[test]
    fn the_interfaces_accept_four_kinds_and_addresses_that_they_can_fetch() {
        let accepts = |block: Value| Picture::of(&block, 0).unwrap().is_accepted();
        for media in ["image/png", "image/jpg", "image/jpeg", "image/webp"] {
            assert!(accepts(json!({"data": "AAAA", "mimeType": media})), "{media}");
        }
        assert!(accepts(json!({"url": "https://e.org/a.png"})));
        for block in [
            json!({"data": "AAAA", "mimeType": "image/svg+xml"}),
            json!({"data": "", "mimeType": "image/png"}),
            json!({"url": "file:///p/a.png"}),
        ] {
            assert!(!accepts(block.clone()), "{block}");
        }
    }
}
