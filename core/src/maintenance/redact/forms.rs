//! Builds one expression for all forms of a string in JSON, URLs and base64.
//!
//! Base64 encodes three bytes as four characters, so a string has three forms, by the number of
//! bytes before it modulo three. The characters at both ends also depend on the neighboring bytes;
//! those in between do not.

use std::collections::BTreeSet;

/// The levels of JSON inside JSON: tool arguments are often JSON in a string of a record, and may
/// quote JSON again.
pub(super) const MAX_NESTING: usize = 3;

/// The minimum length of a string to search for in base64, in bytes: the inner characters of a
/// shorter string would match by chance.
pub(super) const MIN_BASE64_BYTES: usize = 6;

/// The longest string whose base64 is searched across line ends, in bytes.
const MAX_WRAPPED_BYTES: usize = 512;

/// The number of leading base64 characters between which line ends are not matched, so that the
/// expression begins with a literal.
const UNWRAPPED: usize = 4;

/// A line end in base64, raw or as JSON escapes it.
const LINE_END: &str = r"(?:[\r\n]|\\{1,4}[rn]){0,2}";

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns an expression for `text` in every form, the most deeply escaped first.
pub(super) fn all_forms(text: &str) -> String {
    let mut forms: Vec<BTreeSet<String>> = text.chars().map(|c| [c.to_string()].into()).collect();
    let mut levels = Vec::new();
    for _ in 0..=MAX_NESTING {
        let level: String = forms.iter().map(any_of).collect();
        if !levels.contains(&level) {
            levels.push(level);
        }
        forms = forms
            .iter()
            .map(|forms| forms.iter().flat_map(|form| escape(form)).collect())
            .collect();
    }
    levels.reverse();
    levels.extend(percent(text));
    for before in 0..3 {
        levels.extend(base64(text.as_bytes(), before));
    }
    levels.join("|")
}

fn any_of(forms: &BTreeSet<String>) -> String {
    let escaped: Vec<String> = forms.iter().map(|form| regex::escape(form)).collect();
    match escaped.as_slice() {
        [only] => only.clone(),
        _ => format!("(?:{})", escaped.join("|")),
    }
}

/// Returns the forms that JSON writers give to a character, or to an already escaped one.
fn escape(form: &str) -> Vec<String> {
    let mut chars = form.chars();
    let (Some(c), None) = (chars.next(), chars.next()) else {
        return vec![form.replace('\\', r"\\").replace('"', "\\\"")];
    };
    let short = match c {
        '"' | '\\' | '/' => Some(c),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        _ => None,
    };
    let mut forms: Vec<String> = short.map(|short| format!("\\{short}")).into_iter().collect();
    if c >= ' ' && !matches!(c, '"' | '\\') {
        forms.push(form.to_owned());
    }
    if !c.is_ascii_alphanumeric() {
        let mut units = [0; 2];
        let units = c.encode_utf16(&mut units);
        forms.push(units.iter().map(|unit| format!("\\u{unit:04x}")).collect());
        forms.push(units.iter().map(|unit| format!("\\u{unit:04X}")).collect());
    }
    forms
}

/// Returns the form in a URL, if it differs: each reserved character raw or percent-encoded, once
/// or twice.
fn percent(text: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    let form = |c: char| {
        if is_plain(c) {
            return regex::escape(&c.to_string());
        }
        let mut utf8 = [0; 4];
        let bytes = c.encode_utf8(&mut utf8).bytes();
        let escaped: String = bytes.map(|byte| format!("%(?:25)?(?i:{byte:02x})")).collect();
        let space = if c == ' ' { r"|\+" } else { "" };
        format!("(?:{}|{escaped}{space})", regex::escape(&c.to_string()))
    };
    (!text.chars().all(is_plain)).then(|| text.chars().map(form).collect())
}

/// Returns the base64 characters that depend on `bytes` alone if `before` bytes precede them, in
/// the standard and the URL alphabet.
fn base64(bytes: &[u8], before: usize) -> Option<String> {
    if bytes.len() < MIN_BASE64_BYTES {
        return None;
    }
    let bits = |at: usize| -> u8 {
        // Bit `at` of the padded text. The kept characters do not use bits of the padding.
        let byte = (at / 8).checked_sub(before).and_then(|index| bytes.get(index));
        byte.map_or(0, |byte| byte >> (7 - at % 8) & 1)
    };
    let first = (before * 8).div_ceil(6);
    let end = (before + bytes.len()) * 8 / 6;
    let characters = (first..end).map(|place| {
        let value = (0..6).fold(0, |value, bit| value << 1 | bits(place * 6 + bit));
        match STANDARD.get(usize::from(value)) {
            Some(b'+') => r"[+-]".to_owned(),
            Some(b'/') => r"(?:\\{0,3}/|_)".to_owned(),
            Some(character) => char::from(*character).to_string(),
            None => String::new(),
        }
    });
    let line_end = if bytes.len() <= MAX_WRAPPED_BYTES { LINE_END } else { "" };
    let mut form = String::new();
    for (number, character) in characters.enumerate() {
        if number >= UNWRAPPED {
            form.push_str(line_end);
        }
        form.push_str(&character);
    }
    Some(form)
}

#[cfg(test)]
mod tests {
    use super::super::pattern::{DEFAULT_REPLACEMENT, Pattern};

    fn encoded(bytes: &[u8]) -> String {
        let mut text = String::new();
        for chunk in bytes.chunks(3) {
            let word =
                (0..3).fold(0_u32, |word, at| word << 8 | u32::from(*chunk.get(at).unwrap_or(&0)));
            for place in 0..=chunk.len() {
                let value = word >> (18 - 6 * place) & 63;
                text.push(char::from(super::STANDARD[value as usize]));
            }
            text.push_str(&"=".repeat(3 - chunk.len()));
        }
        text
    }

    #[test]
    fn a_string_is_found_in_base64_wherever_it_stands() {
        let secret = "k+/9?>~Zürich-4711";
        let pattern = Pattern::literal(secret, DEFAULT_REPLACEMENT).unwrap();
        for before in 0..7 {
            for after in 0..4 {
                let text = format!("{}{secret}{}", "x".repeat(before), "y".repeat(after));
                let standard = encoded(text.as_bytes());
                let url = standard.replace('+', "-").replace('/', "_").replace('=', "");
                let json = standard.replace('/', r"\/");
                let (head, tail) = standard.split_at(16);
                for form in [
                    &standard,
                    &url,
                    &json,
                    &format!("{head}\n{tail}"),
                    &format!(r"{head}\n{tail}"),
                ] {
                    assert_eq!(pattern.count(form.as_bytes()), 1, "{before} {after} {form}");
                    let left = pattern.replace(form.as_bytes()).unwrap();
                    assert_eq!(pattern.count(&left), 0);
                }
            }
        }
        assert_eq!(pattern.count(encoded(b"k+/9?>~Z\xc3\xbcrich-4791").as_bytes()), 0);
    }

    #[test]
    fn a_string_is_found_with_percent_signs() {
        let pattern = Pattern::literal("pa ss/wörd&1", DEFAULT_REPLACEMENT).unwrap();
        for form in [
            "pa%20ss%2Fw%C3%B6rd%261",
            "pa+ss%2fw%c3%b6rd%261",
            "pa%2520ss%252Fw%25C3%25B6rd%25261",
            "pa%20ss/w%C3%B6rd&1",
        ] {
            assert_eq!(pattern.count(form.as_bytes()), 1, "{form}");
        }
        let plain = Pattern::literal("plain-4711", DEFAULT_REPLACEMENT).unwrap();
        assert_eq!(plain.count(b"plain%2D4711"), 1);
        assert_eq!(plain.count(b"plain%2C4711"), 0);
    }
}
