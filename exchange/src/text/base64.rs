//! Bytes as base64 (RFC 4648).

/// The digits of standard base64.
pub(crate) const STANDARD: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The digits of base64url.
pub(crate) const URL_SAFE: &[u8; 64] =
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// `bytes` in `digits`, without padding.
pub(crate) fn unpadded(bytes: &[u8], digits: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            let value = bits >> (18 - 6 * digit) & 63;
            text.extend(digits.get(value as usize).map(|digit| char::from(*digit)));
        }
    }
    text
}

/// `bytes` as standard base64 with padding.
pub(crate) fn padded(bytes: &[u8]) -> String {
    let mut text = unpadded(bytes, STANDARD);
    text.push_str("=".repeat(text.len().next_multiple_of(4) - text.len()).as_str());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_what_the_rfc_says() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(padded(bytes.as_bytes()), text);
        }
        assert_eq!(padded(&[0xFB, 0xFF]), "+/8=");
        assert_eq!(unpadded(&[0xFB, 0xFF], URL_SAFE), "-_8");
    }
}
