//! Pictures in messages: their positions, and their recorded bytes or URL.

use serde_json::Value;

/// The placeholder of an image in the text of a message.
pub(crate) const PICTURE: &str = "[image]";

/// Media types of pictures that all model APIs accept.
const MEDIA: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A media type of JPEG that the APIs reject, and the one that they accept.
const JPG: (&str, &str) = ("image/jpg", "image/jpeg");

/// How the base64 of the types that all APIs accept begins. The APIs compare the bytes with the
/// media type, and clients record a wrong one for files with a wrong name.
const SIGNATURES: [(&str, &str); 4] = [
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
];

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
    /// The bytes as base64, as recorded, and their media type.
    Inline {
        /// The media type, such as `image/png`: that of the bytes if they show it, else as recorded.
        media: String,
        /// The bytes.
        base64: String,
    },
    /// The URL of the image.
    Address(String),
}

impl Picture {
    /// Returns true if model APIs accept the picture: bytes of a type that all of them read, or a
    /// URL that they can fetch.
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

    /// Returns the picture of a content block at `at`: of the Anthropic API (`source`), of the
    /// OpenAI APIs (`image_url`, as text or with a nested `url`), with `data` and `mimeType` next
    /// to the type, as pi writes it, or with `url`, like opencode. `None` if the block has neither
    /// bytes nor a URL.
    pub(crate) fn of(block: &Value, at: usize) -> Option<Self> {
        let text = |path| block.pointer(path).and_then(Value::as_str);
        let data = text("/source/data").or_else(|| text("/data"));
        let media = ["/source/media_type", "/mimeType", "/media_type"].into_iter().find_map(text);
        let address =
            ["/image_url/url", "/image_url", "/source/url", "/url"].into_iter().find_map(text);
        let content = match (data, address) {
            (Some(data), _) => inline_of(media.unwrap_or("image/png"), data),
            (None, Some(address)) => match inline(address) {
                Some(content) => content,
                None => PictureContent::Address(address.to_owned()),
            },
            (None, None) => return None,
        };
        Some(Self { at, content })
    }
}

/// Returns the image in a `data:` URL with base64.
fn inline(address: &str) -> Option<PictureContent> {
    let (media, base64) = address.strip_prefix("data:")?.split_once(";base64,")?;
    Some(inline_of(media, base64))
}

fn inline_of(media: &str, base64: &str) -> PictureContent {
    let shown = SIGNATURES.iter().find(|(start, _)| base64.starts_with(start));
    let media = shown.map_or(if media == JPG.0 { JPG.1 } else { media }, |(_, media)| media);
    PictureContent::Inline { media: media.to_owned(), base64: base64.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pictures_of_every_api_are_found() {
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
    fn bytes_show_their_media_type_regardless_of_the_recorded_one() {
        for block in [
            json!({"source": {"media_type": "image/png", "data": "/9j/4AAQ"}}),
            json!({"source": {"media_type": "image/bmp", "data": "/9j/4AAQ"}}),
            json!({"image_url": "data:image/png;base64,/9j/4AAQ"}),
        ] {
            let content = Picture::of(&block, 0).unwrap().content;
            let jpeg =
                PictureContent::Inline { media: "image/jpeg".into(), base64: "/9j/4AAQ".into() };
            assert_eq!(content, jpeg, "{block}");
        }
    }

    #[test]
    fn apis_accept_four_media_types_and_web_addresses() {
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
