//! Spellings of secrets: one scan finds every known kind in every encoding of text. The figures are
//! in tests/README.md.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use turntree_exchange::{find_secrets, mask_secrets};
use turntree_tests::sim::Random;

use super::secrets::{FORMS, HEX, WORD, drawn, made, private_key};

/// An encoding of text, with its name.
type Spelling = (&'static str, fn(&str) -> Vec<u8>);

const SPELLINGS: &[Spelling] = &[
    ("bare", |text| text.into()),
    ("in a sentence", |text| format!("it is {text} and nothing else").into()),
    ("JSON", |text| json(text, 1)),
    ("JSON in JSON", |text| json(text, 3)),
    ("JSON, six levels", |text| json(text, 6)),
    ("a letter as an escape", |text| {
        // One of the first eight characters is the last of the kind's fixed prefix.
        let each =
            |(at, c): (usize, char)| if at < 8 && at % 2 == 0 { unicode(c) } else { plain(c) };
        format!("{{\"text\": \"see {}\"}}", text.chars().enumerate().map(each).collect::<String>())
            .into()
    }),
    ("all as escapes", |text| {
        text.chars().map(unicode).collect::<String>().to_uppercase().replace("\\U", "\\u").into()
    }),
    ("escapes in JSON in JSON", |text| json(&text.chars().map(unicode).collect::<String>(), 2)),
    ("escapes of programs", |text| {
        text.chars().map(|c| format!("\\x{:02x}", u32::from(c))).collect::<String>().into()
    }),
    ("coloured", |text| format!("\u{1b}[32m{text}\u{1b}[0m").into()),
    ("coloured, in JSON", |text| json(&format!("- \u{1b}[1;31m{text}\u{1b}[m\u{1b}[K"), 1)),
    ("coloured, as a program prints it", |text| format!("\\x1b[32m{text}\\x1b[0m").into()),
    ("coloured within", |text| {
        let (first, last) = text.split_at(text.len() / 2);
        format!("a {first}\u{1b}[01;31m\u{1b}[K{last} b").into()
    }),
    ("a link of a terminal", |text| {
        format!("\u{1b}]8;;https://a.example/\u{7}{text}\u{1b}]8;;\u{7}").into()
    }),
    ("added in a diff", |text| format!("@@ -1 +1 @@\n+{}\n", text.replace('\n', "\n+")).into()),
    ("removed in a coloured diff", |text| {
        format!("\u{1b}[31m-{}\u{1b}[m\n", text.replace('\n', "\u{1b}[m\n\u{1b}[31m-")).into()
    }),
    ("URL", |text| format!("q={}&r=1", percent(text)).into()),
    ("URL in URL", |text| percent(&percent(text)).into()),
    ("base64", |text| format!("payload: {}", STANDARD.encode(format!("so {text} it is"))).into()),
    ("base64 of URLs, in JSON", |text| {
        json(&URL_SAFE_NO_PAD.encode(format!("{{\"a\": \"{}\"}}", text.replace('"', "\\\""))), 1)
    }),
    ("base64 in lines, in JSON", |text| {
        let whole =
            STANDARD.encode(format!("a text of some length before it:\n{text}\nand one behind it"));
        let lines: Vec<&str> =
            whole.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
        json(&format!("-\n{}\n", lines.join("\n")), 1)
    }),
    ("UTF-16, low byte first", |text| {
        format!("\u{feff}{text}\r\n").encode_utf16().flat_map(u16::to_le_bytes).collect()
    }),
    ("UTF-16 in something binary", |text| {
        let text = text.encode_utf16().flat_map(u16::to_be_bytes);
        [7, 255, 3].into_iter().chain(text).chain([0, 0, 254]).collect()
    }),
    ("base64 of UTF-16", |text| {
        let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        STANDARD.encode(bytes).into()
    }),
    ("in something binary", |text| [&[0, 255, 254, 10], text.as_bytes(), &[10, 128, 129]].concat()),
    ("something binary, in base64", |text| {
        let noise = [0, 255, 254, 129, 10].repeat(30);
        format!(
            "{{\"base64\": \"{}\"}}",
            STANDARD.encode([&noise, text.as_bytes(), &noise].concat())
        )
        .into()
    }),
    ("as Gson writes it", |text| {
        let escaped = text.replace('=', "\\u003d").replace('&', "\\u0026").replace('\'', "\\u0027");
        format!("{{\"a\":\"{}\"}}", escaped.replace('"', "\\\"").replace('\n', "\\n")).into()
    }),
    ("as PHP writes it", |text| {
        String::from_utf8(json(text, 1)).unwrap().replace('/', "\\/").into()
    }),
    ("assigned in Python", |text| {
        format!("x = {}\n", String::from_utf8(json(text, 1)).unwrap()).into()
    }),
    ("in a file of settings", |text| format!("note: |\n  {text}\nmore: 1\n").into()),
];

fn plain(c: char) -> String {
    match c {
        '"' => "\\\"".to_owned(),
        '\n' => "\\n".to_owned(),
        c => c.to_string(),
    }
}

fn unicode(c: char) -> String {
    format!("\\u{:04x}", u32::from(c))
}

fn json(text: &str, levels: usize) -> Vec<u8> {
    (0..levels).fold(text.to_owned(), |text, _| serde_json::to_string(&text).unwrap()).into()
}

fn percent(text: &str) -> String {
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(
            |byte| {
                if is_kept(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}

/// Every kind with an example value.
fn kinds() -> Vec<(&'static str, String)> {
    let mut random = Random(23);
    let mut kinds: Vec<_> =
        FORMS.iter().map(|(rule, parts)| (*rule, made(&mut random, parts))).collect();
    for kind in ["RSA PRIVATE", "PRIVATE", "OPENSSH PRIVATE", "EC PRIVATE"] {
        kinds.push(("private-key", private_key(&mut random, kind)));
    }
    let block = ["-----", "BEGIN PGP PRIVATE KEY BLOCK-----\n\n"].concat();
    let lines = [drawn(&mut random, WORD, 64), drawn(&mut random, WORD, 64)].join("\n");
    kinds.push((
        "private-key",
        format!("{block}{lines}\n=k4Qx\n-----END PGP PRIVATE KEY BLOCK-----"),
    ));
    for name in ["privateKey", "private-key", "encryptionKey", "masterKey", "auth-key", "SecretKey"]
    {
        kinds.push(("assignment", format!("{name}={}", drawn(&mut random, WORD, 32))));
    }
    kinds.push(("assignment", format!("encryption_key: {}", drawn(&mut random, HEX, 64))));
    kinds
}

#[test]
fn every_secret_kind_is_found_in_every_encoding() {
    let kinds = kinds();
    assert!(kinds.len() >= 130 && SPELLINGS.len() >= 20, "{} {}", kinds.len(), SPELLINGS.len());
    let mut missed = Vec::new();
    for (rule, text) in &kinds {
        for (name, spell) in SPELLINGS {
            let found = find_secrets(&spell(text));
            if !found.iter().any(|secret| secret.rule == *rule) {
                let rules: Vec<_> = found.iter().map(|secret| secret.rule).collect();
                missed.push(format!("{rule} {name}: {rules:?} {text}"));
            }
        }
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn masking_removes_every_encoding_or_fails() {
    let kinds = kinds();
    for wanted in ["github-token", "command-password", "azure-sas", "assignment"] {
        let (_, text) = kinds.iter().find(|(rule, _)| *rule == wanted).unwrap();
        for (name, spell) in SPELLINGS {
            let bytes = spell(text);
            let new = mask_secrets(&bytes, &|_| true).unwrap().unwrap();
            assert_eq!(find_secrets(&new), [], "{wanted} {name}");
            assert_eq!(mask_secrets(&bytes, &|_| true).unwrap().unwrap(), new, "{wanted} {name}");
            if let (Ok(before), Err(error)) = (
                serde_json::from_slice::<serde_json::Value>(&bytes),
                serde_json::from_slice::<serde_json::Value>(&new),
            ) {
                panic!("{wanted} {name}: {before} is invalid JSON: {error}");
            }
        }
    }
}
