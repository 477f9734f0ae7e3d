//! Distinguishes secrets from placeholders, names, paths and hashes.

use super::rules::{SecretRule, ValueCheck};

/// Parts of placeholders, and of expressions that programs use instead of a secret.
const PLACEHOLDERS: &[&str] = &[
    "example",
    "sample",
    "dummy",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "your",
    "xxxx",
    "****",
    "....",
    "redacted",
    "masked",
    "fake",
    "mock",
    "not-a-real",
    "notareal",
    "insert",
    "replace",
    "lorem",
    "foobar",
    "1234567",
    "abcdefg",
    "qwerty",
    "undefined",
    "process.env",
    "os.environ",
    "getenv",
    "secret:",
    "0000000",
    "deadbeef",
];

/// Parts of values that name a secret instead of being one.
const NAMES: &[&str] = &[
    "password", "passwd", "secret", "token", "test", "key", "demo", "none", "null", "true", "false",
];

/// Ends of names whose values are not secret.
const OTHER_NAMES: &[&str] = &[
    "hash", "sha", "md5", "etag", "checksum", "digest", "public", "count", "budget", "limit",
    "usage", "path", "file", "url", "uri", "type", "name", "id", "regex", "pattern",
];

/// Characters of code, templates and variables.
const CODE: &[char] = &['$', '{', '}', '<', '>', '(', ')', '[', ']', '|', ',', ';', '`', '"', '\''];

/// Longest word that occurs in a random value by chance, and the length of values where this
/// becomes likely.
const MAX_CHANCE_BYTES: usize = 5;
const MAX_WORDY_BYTES: usize = 64;

/// Ends of names whose value may be a random hexadecimal string that is not a digest.
const KEY_NAMES: &[&str] = &[
    "api_key",
    "api-key",
    "apikey",
    "secret",
    "secret_key",
    "secret-key",
    "secretkey",
    "signing_key",
    "signing-key",
    "signingkey",
    "encryption_key",
    "encryption-key",
    "encryptionkey",
    "master_key",
    "master-key",
    "masterkey",
    "secret_key_base",
    "password",
    "passwd",
    "pass",
    "pwd",
];

/// Passwords that are not secret: from examples and local development databases.
const COMMON: &[&str] = &[
    "postgres",
    "password",
    "passwd",
    "pass",
    "pwd",
    "secret",
    "root",
    "admin",
    "user",
    "username",
    "guest",
    "test",
    "tests",
    "testing",
    "mysql",
    "mongo",
    "redis",
    "token",
    "hunter2",
    "pass123",
    "password123",
    "secret123",
    "p4ss",
    "pw123",
    "x-oauth-basic",
    "port",
];

/// Returns true if a value that matches a rule counts as a secret. `name` is the name before it,
/// for assignments.
pub(super) fn is_secret(rule: &SecretRule, name: &str, value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    if PLACEHOLDERS.iter().any(|part| has_word(&lower, part)) || has_run(value) {
        return false;
    }
    match rule.check {
        ValueCheck::Form => entropy(value) >= rule.entropy,
        ValueCheck::Password => is_password(value, &lower),
        ValueCheck::Assignment => is_random_assignment(&name.to_ascii_lowercase(), value, &lower),
        ValueCheck::Random => is_random(value, &lower),
        ValueCheck::Phrase => is_phrase(value, &lower),
    }
}

/// Returns true if a value contains a word. Ignores short words in long values, which occur by
/// chance.
fn has_word(lower: &str, word: &str) -> bool {
    (word.len() > MAX_CHANCE_BYTES || lower.len() <= MAX_WORDY_BYTES) && lower.contains(word)
}

/// Returns true if a value looks random and contains no word. It may be hexadecimal.
fn is_random(value: &str, lower: &str) -> bool {
    let kinds = CharCounts::of(value);
    !NAMES.iter().any(|part| has_word(lower, part))
        && !value.contains(CODE)
        && kinds.digits >= 2
        && kinds.lower + kinds.upper >= 2
        && entropy(value) >= 3.0
        && (is_hash(value) || !is_name(value))
}

/// Returns true for a password of several words or with quotes, but not for a sentence or a
/// template.
fn is_phrase(value: &str, lower: &str) -> bool {
    let is_other = !value.contains([' ', '\'', '"', '`']);
    let words = value.split(' ').count();
    let in_code = ['$', '{', '}', '<', '>', '(', ')', '[', ']', '%'];
    let kinds = CharCounts::of(value);
    !is_other
        && value.is_ascii()
        && words <= 5
        && !value.starts_with(' ')
        && !value.ends_with([' ', ':', '.', ','])
        && !value.contains(in_code)
        && !["://", ": ", "=", ", ", "--"].iter().any(|part| value.contains(part))
        && !NAMES.iter().any(|part| lower.contains(part))
        && kinds.digits > 0
        && kinds.lower > 0
        && kinds.upper > 0
        && value.bytes().any(|byte| byte.is_ascii_punctuation())
        && distinct(value) >= 8
}

/// Returns the entropy of a text in bits per byte.
pub(super) fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let all = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX).max(1));
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}

/// Returns true if six successive characters are equal, which random values do not have. Dashes do
/// not count, because they frame keys.
fn has_run(value: &str) -> bool {
    let mut bytes = value.bytes();
    let (mut last, mut run) = (bytes.next(), 1);
    bytes.any(|byte| {
        run = if Some(byte) == last && byte != b'-' { run + 1 } else { 1 };
        last = Some(byte);
        run >= 6
    })
}

/// Returns true for the password of a URL, except for variables and common passwords.
fn is_password(value: &str, lower: &str) -> bool {
    let is_variable = value.contains(['$', '{', '}', '%', '*', '(', ')', '|', '`', ',', ';'])
        && !value.contains("%4");
    let is_word = COMMON.contains(&lower) || NAMES.iter().any(|part| lower.contains(part));
    let kinds = CharCounts::of(value);
    !is_variable && !is_word && value.is_ascii() && kinds.count() >= 2 && distinct(value) >= 5
}

/// Returns true if the value of an assignment looks random.
fn is_random_assignment(name: &str, value: &str, lower: &str) -> bool {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic());
    let last = name.trim_end_matches('s').rsplit(['_', '-', '.']).next().unwrap_or_default();
    if !is_plain
        || value.contains(CODE)
        || OTHER_NAMES.contains(&last)
        || name.contains("publickey")
        || name.contains("public_key")
        || NAMES.iter().any(|part| has_word(lower, part))
        || COMMON.contains(&lower)
        || is_path(value)
    {
        return false;
    }
    let kinds = CharCounts::of(value);
    if is_hex(value) && value.len() >= 32 && KEY_NAMES.iter().any(|end| name.ends_with(end)) {
        return kinds.digits >= 2 && kinds.lower + kinds.upper >= 2 && entropy(value) >= 2.8;
    }
    if is_hash(value) || is_name(value) {
        return false;
    }
    if ["passw", "passphrase", "pwd"].iter().any(|part| name.contains(part))
        || name.ends_with("pass")
    {
        let is_mixed = kinds.count() >= 3 && kinds.digits > 0
            || value.len() >= 12 && kinds.count() >= 2 && changes(value) * 5 >= value.len() * 2;
        return is_mixed && distinct(value) >= 7 && entropy(value) >= 2.8;
    }
    let is_of_letters = value.len() >= 24
        && kinds.lower >= 6
        && kinds.upper >= 6
        && changes(value) * 5 >= value.len() * 2;
    value.len() >= 16
        && (kinds.digits >= 2 || is_of_letters)
        && kinds.lower + kinds.upper >= 2
        && kinds.symbols * 4 <= value.len()
        && entropy(value) >= if value.len() >= 20 { 3.4 } else { 3.2 }
        && changes(value) * 4 >= value.len()
}

/// Returns true for paths, URLs and type names.
fn is_path(value: &str) -> bool {
    value.starts_with(['/', '.', '~', '@', '#'])
        || ["://", "::", "=>"].iter().any(|part| value.contains(part))
        || value.contains("==") && !value.ends_with("==")
}

/// The number of characters of each kind in a value.
#[derive(Default)]
struct CharCounts {
    lower: usize,
    upper: usize,
    digits: usize,
    symbols: usize,
}

impl CharCounts {
    fn of(value: &str) -> Self {
        let mut kinds = Self::default();
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' => kinds.lower += 1,
                b'A'..=b'Z' => kinds.upper += 1,
                b'0'..=b'9' => kinds.digits += 1,
                _ => kinds.symbols += 1,
            }
        }
        kinds
    }

    fn count(&self) -> usize {
        [self.lower, self.upper, self.digits, self.symbols]
            .iter()
            .filter(|count| **count > 0)
            .count()
    }
}

fn distinct(value: &str) -> usize {
    let mut bytes: Vec<u8> = value.bytes().collect();
    bytes.sort_unstable();
    bytes.dedup();
    bytes.len()
}

/// Returns true for ids of objects and versions: UUIDs, and hexadecimal digests.
fn is_hash(value: &str) -> bool {
    let hex: String = value.chars().filter(|c| *c != '-').collect();
    let is_hex = is_hex(&hex);
    let is_uuid = hex.len() == 32 && value.len() == 36;
    let is_digest = value.starts_with("sha") && value.contains(['-', ':']);
    is_hex && (is_uuid || matches!(hex.len(), 40 | 56 | 64 | 96 | 128)) || is_digest
}

fn is_hex(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns true for names of models, files, packages and the like: words and numbers between
/// separators, without a part that looks random.
fn is_name(value: &str) -> bool {
    let parts = value.split(['-', '_', '.', '/', ':', '@', '+', '=']);
    parts.filter(|part| part.len() >= 6).all(|part| {
        let kinds = CharCounts::of(part);
        kinds.digits == 0
            && (kinds.upper <= 1 || kinds.lower == 0 || changes(part) * 3 < part.len())
            || kinds.digits == part.len()
            || part
                .trim_end_matches(|c: char| c.is_ascii_digit())
                .bytes()
                .all(|byte| byte.is_ascii_lowercase())
    })
}

/// Returns the number of changes between kinds of characters in a value.
fn changes(value: &str) -> usize {
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    let bytes = value.as_bytes();
    bytes.iter().zip(bytes.iter().skip(1)).filter(|(a, b)| kind(**a) != kind(**b)).count()
}
