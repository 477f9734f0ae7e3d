//! Decodes text of git objects in the encoding of their header.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};
use gix::bstr::ByteSlice;

/// The header with the name of the encoding.
const ENCODING: &[u8] = b"\nencoding ";

/// Decodes text in the encoding of a header: UTF-8 without one, or for an unknown one. Replaces
/// invalid bytes by a replacement character, like git.
pub(super) fn decode_text<'t>(encoding: Option<&[u8]>, bytes: &'t [u8]) -> Cow<'t, str> {
    let named = encoding.and_then(Encoding::for_label);
    named.unwrap_or(UTF_8).decode_without_bom_handling(bytes).0
}

/// Returns a tag without its encoding header, which other programs write but git does not, and the
/// encoding.
pub(super) fn without_encoding(tag: &[u8]) -> (Cow<'_, [u8]>, Option<&[u8]>) {
    let headers = tag.find(b"\n\n").unwrap_or(tag.len());
    let begin = tag.get(..headers).and_then(|headers| headers.find(ENCODING));
    let Some(begin) = begin else { return (Cow::Borrowed(tag), None) };
    let named = tag.get(begin + ENCODING.len()..).unwrap_or_default();
    let named = named.get(..named.find_byte(b'\n').unwrap_or(named.len())).unwrap_or_default();
    let end = begin + ENCODING.len() + named.len();
    let parts = [tag.get(..begin), tag.get(end..)].map(Option::unwrap_or_default);
    (Cow::Owned(parts.concat()), Some(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_decoded_in_its_declared_encoding() {
        for (encoding, bytes, expected) in [
            (Some(&b"ISO-8859-1"[..]), &b"caf\xe9"[..], "café"),
            (Some(b"Shift_JIS"), b"\x8c\x9f\x8d\xf5", "検索"),
            (Some(b"windows-1251"), b"\xef\xee\xe8\xf1\xea", "поиск"),
            (Some(b"EUC-KR"), b"\xb0\xcb\xbb\xf6", "검색"),
            (Some(b"UTF-8"), "café".as_bytes(), "café"),
            (Some(b"klingon"), "café".as_bytes(), "café"),
            (None, b"caf\xe9", "caf\u{fffd}"),
        ] {
            assert_eq!(decode_text(encoding, bytes), expected);
        }
    }

    #[test]
    fn only_headers_of_a_tag_declare_its_encoding() {
        let tag = b"object x\ntag v1\nencoding ISO-8859-1\n\nencoding none\n";
        let (rest, encoding) = without_encoding(tag);
        assert_eq!(&*rest, b"object x\ntag v1\n\nencoding none\n");
        assert_eq!(encoding, Some(&b"ISO-8859-1"[..]));
        assert_eq!(without_encoding(b"tag v1\n\nx\nencoding y\n").1, None);
    }
}
