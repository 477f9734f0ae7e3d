//! Properties of the splitter: no byte is lost, for any writer, read size or damage.

use std::io::Read;

use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{Document, MAX_FIELD_BYTES, MAX_SUFFIX_BYTES, MAX_TRIVIA_BYTES, Rules};
use crate::text::piece::{Piece, PieceKind};

const RULES: Rules = Rules {
    records: &["", "a[*]", "b", "c[*].a[*]", "c[*]", "[*]", "[*].x"],
    fields: &["id", "c[*].id", "info.id", "a"],
};

/// A reader that returns at most a given number of bytes per read, cycling through the sizes.
struct Chunks<'a> {
    bytes: &'a [u8],
    sizes: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl Read for Chunks<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let size = self.sizes.next().unwrap_or(1).min(into.len());
        self.bytes.read(&mut into[..size])
    }
}

fn pieces(file: impl Read) -> Vec<Piece> {
    pieces_by(file, &RULES)
}

fn pieces_by(file: impl Read, rules: &Rules) -> Vec<Piece> {
    Document::new(file, rules).collect::<Result<_, _>>().unwrap()
}

/// Returns a comparable form of pieces.
fn shape(pieces: &[Piece]) -> Vec<(PieceKind, Vec<u8>, Vec<u8>, u64)> {
    let parts = |p: &Piece| (p.kind.clone(), p.bytes.to_vec(), p.suffix.to_vec(), p.line);
    pieces.iter().map(parts).collect()
}

fn assert_whole(file: &[u8], pieces: &[Piece]) {
    let mut joined = Vec::new();
    for piece in pieces {
        assert_eq!(piece.offset, joined.len() as u64);
        let lines = joined.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(piece.line, lines as u64 + 1);
        joined.extend_from_slice(&piece.bytes);
        joined.extend_from_slice(&piece.suffix);
        assert!(piece.suffix.len() <= MAX_SUFFIX_BYTES);
        match &piece.kind {
            PieceKind::Record { .. } => {
                serde_json::from_slice::<IgnoredAny>(&piece.bytes).unwrap();
            }
            PieceKind::Trivia { fields } => {
                assert!(!piece.bytes.is_empty() && piece.bytes.len() <= MAX_TRIVIA_BYTES);
                for (_, range) in fields.iter().filter(|(_, range)| !range.is_empty()) {
                    serde_json::from_slice::<IgnoredAny>(&piece.bytes[range.clone()]).unwrap();
                }
            }
            PieceKind::Damaged { .. } => assert!(piece.bytes.len() <= MAX_TRIVIA_BYTES),
        }
    }
    assert_eq!(joined, file);
}

fn is_damaged(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| matches!(piece.kind, PieceKind::Damaged { .. }))
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no other", |n| n.is_finite()).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof!["[abcx]", Just(String::from("id")), "[^.\\[]{0,4}"];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Collects the values in `value`, which has the path `path`, that `rules` split off. Compares
/// whole paths.
fn cut_values(value: &Value, path: &str, rules: &Rules, found: &mut Vec<Value>) {
    let lies_above = |cut: &&str| {
        let below = cut.strip_prefix(path);
        below.is_some_and(|below| {
            !below.is_empty() && (path.is_empty() || ".[".contains(&below[..1]))
        })
    };
    if rules.records.contains(&path) && !rules.records.iter().any(lies_above) {
        return found.push(value.clone());
    }
    match value {
        Value::Array(values) => {
            values.iter().for_each(|value| cut_values(value, &format!("{path}[*]"), rules, found));
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                let key = if key.is_empty() { "no rule has an empty key" } else { key };
                cut_values(value, &format!("{path}{dot}{key}"), rules, found);
            }
        }
        _ => {}
    }
}

fn rules() -> impl Strategy<Value = &'static Rules> {
    const PATHS: &[&str] = &[
        "",
        "[*]",
        "[*].x",
        "[*][*]",
        "a",
        "a[*]",
        "a[*].b",
        "b",
        "b.c",
        "c[*]",
        "c[*].a[*]",
        "x.id",
    ];
    let paths = || prop::sample::subsequence(PATHS, 0..6);
    (paths(), paths()).prop_map(|(records, fields)| {
        &*Box::leak(Box::new(Rules { records: records.leak(), fields: fields.leak() }))
    })
}

fn records(pieces: &[Piece]) -> Vec<Value> {
    let of = |piece: &Piece| match piece.kind {
        PieceKind::Record { .. } => Some(serde_json::from_slice(&piece.bytes).unwrap()),
        _ => None,
    };
    pieces.iter().filter_map(of).collect()
}

#[test]
fn numbers_are_split_off_completely() {
    let file = br#"[{"x":-3.0313433689363375e-180}]"#;
    let found = records(&pieces_by(file.as_slice(), &Rules { records: &["[*]"], fields: &[] }));
    assert_eq!(found, [serde_json::json!({"x": -3.031_343_368_936_337_5e-180})]);
}

turntree_properties::properties! {
    #[test]
    fn any_bytes_come_back(file in prop::collection::vec(any::<u8>(), 0..300)) {
        assert_whole(&file, &pieces(file.as_slice()));
    }

    #[test]
    fn anything_like_json_comes_back(file in r#"([\[\]{},:0-9 \n"\\a-c]|"a":|"b":|\{"c":|\[\{){0,60}"#) {
        assert_whole(file.as_bytes(), &pieces(file.as_bytes()));
    }

    #[test]
    fn splitting_is_independent_of_formatting_and_read_sizes(
        value in json(),
        rules in rules(),
        sizes in prop::collection::vec(1_usize..9, 1..5),
    ) {
        let mut expected = Vec::new();
        cut_values(&value, "", rules, &mut expected);
        let compact = serde_json::to_vec(&value).unwrap();
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        for file in [&compact, &pretty] {
            let whole = pieces_by(file.as_slice(), rules);
            assert_whole(file, &whole);
            prop_assert!(!is_damaged(&whole));
            prop_assert_eq!(&records(&whole), &expected);
            let chunks = Chunks { bytes: file, sizes: sizes.clone().into_iter().cycle() };
            prop_assert_eq!(shape(&whole), shape(&pieces_by(chunks, rules)));
        }
    }

    #[test]
    fn a_changed_byte_loses_nothing(value in json(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut file = serde_json::to_vec_pretty(&value).unwrap();
        let at = at.index(file.len());
        file[at] = byte;
        let whole = pieces(file.as_slice());
        assert_whole(&file, &whole);
        let sizes = vec![1].into_iter().cycle();
        prop_assert_eq!(shape(&whole), shape(&pieces(Chunks { bytes: &file, sizes })));
    }
}

const SMALL: &str = "{\"id\": \"s\", \"a\": [\n  {\"t\": \"\u{e9}\u{20ac}\u{1f600}\\u00e9\\n\"},\n  -1.5e+3, true],\n \"b\": null}\n";

#[test]
fn truncated_files_keep_complete_elements_and_report_damage() {
    let whole = records(&pieces(SMALL.as_bytes()));
    assert_eq!(whole.len(), 4);
    for length in 1..SMALL.len() - 1 {
        let file = &SMALL.as_bytes()[..length];
        let pieces = pieces(file);
        assert_whole(file, &pieces);
        assert!(is_damaged(&pieces), "{length}");
        let kept = records(&pieces);
        assert_eq!(kept, whole[..kept.len()]);
    }
}

#[test]
fn document_errors_name_their_position() {
    let reason = |file: &[u8]| {
        let reasons = pieces(file).into_iter().find_map(|piece| match piece.kind {
            PieceKind::Damaged { reason } => Some(reason),
            _ => None,
        });
        reasons.unwrap_or_default()
    };
    assert_eq!(reason(b"{\n  \"a\": [1 2]}"), "line 2, column 11: expected ',' or ']', found '2'");
    assert_eq!(
        reason(b"{\"b\": tru"),
        "line 1, column 10: expected true, false or null, found the end of the file"
    );
    assert_eq!(reason(b"[\"\xff\"]"), "line 1, column 3: expected UTF-8, found byte 0xff");
    assert_eq!(reason(b"[1, -]"), "line 1, column 6: expected a digit, found ']'");
    assert_eq!(reason(b"[] ]"), "line 1, column 4: expected a value, found ']'");
    assert!(reason("[".repeat(600).as_bytes()).contains("column 513: expected fewer open"));
    assert_eq!(reason("\u{feff}[NaN, -Infinity]\n{}[]".as_bytes()), "");
}

#[test]
fn parsing_resumes_at_the_next_document_line_after_damage() {
    for torn in ["{\"id\": \"1\", \"a\": [1, tr\n", "{\"id\": 1\n", "{\"id\": \"\n"] {
        let file = format!("{torn}{{\"id\": 2, \"a\": [7]}}\n");
        let pieces = pieces(file.as_bytes());
        assert_whole(file.as_bytes(), &pieces);
        assert!(is_damaged(&pieces));
        assert_eq!(records(&pieces).last(), Some(&Value::from(7)));
    }
}

#[test]
fn arrays_with_one_element_per_line_lose_only_broken_lines() {
    let rules = Rules { records: &["[*]"], fields: &[] };
    let file = b"[\n{\"n\":1},\n{\"n\":tru},\n{\"n\":3}\n{\"n\":4},\n{\"n\":5}\n]\n";
    let pieces = pieces_by(file.as_slice(), &rules);
    assert_whole(file, &pieces);
    let numbers: Vec<_> = records(&pieces).iter().map(|value| value["n"].clone()).collect();
    assert_eq!(numbers, [1, 3, 4, 5]);
    let damaged = pieces.iter().filter(|piece| matches!(piece.kind, PieceKind::Damaged { .. }));
    let damaged: Vec<_> = damaged.map(|piece| &*piece.bytes).collect();
    assert_eq!(damaged, [&b"{\"n\":tru},\n"[..], b""]);
}

#[test]
fn trivia_reports_fields_and_document_starts() {
    let file = br#"{"info": {"id": "i"}, "c": [{"id": 1, "a": [5]}, {"a": [6], "id": 2}]}"#;
    let found: Vec<_> = pieces(file.as_slice())
        .into_iter()
        .flat_map(|piece| match piece.kind {
            PieceKind::Trivia { fields } => fields
                .into_iter()
                .map(|(path, range)| {
                    format!("{path}={}", String::from_utf8_lossy(&piece.bytes[range]))
                })
                .collect(),
            _ => vec![String::from_utf8_lossy(&piece.bytes).into_owned()],
        })
        .collect();
    let expected = ["=", "info.id=\"i\"", "c[*]=", "c[*].id=1", "5", "c[*]=", "6", "c[*].id=2"];
    assert_eq!(found, expected);
}

#[test]
fn oversized_records_are_rejected_with_their_line() {
    let file = b"{\"a\":\n[\"".chain(std::io::repeat(b'x'));
    let error = Document::new(file, &RULES).find_map(Result::err).unwrap();
    assert_eq!(error.kind(), turntree::ErrorKind::LimitExceeded);
    assert!(error.to_string().contains("line 2"), "{error}");
}

#[test]
fn long_trivia_fields_and_separators_are_split() {
    let rules = Rules { records: &["a[*]"], fields: &["id", "big"] };
    let blanks = " ".repeat(MAX_SUFFIX_BYTES);
    let long = "x".repeat(MAX_TRIVIA_BYTES - 15);
    let big = "y".repeat(MAX_FIELD_BYTES);
    let file = format!("{{\"l\":\"{long}\",\"id\":\"me\",\"big\":\"{big}\",\"a\":[1 ,{blanks}2]}}");
    let pieces = pieces_by(file.as_bytes(), &rules);
    assert_whole(file.as_bytes(), &pieces);
    let shapes: Vec<_> = pieces.iter().map(|p| (p.bytes.len(), p.suffix.len())).collect();
    let fields = |index: usize| match &pieces[index].kind {
        PieceKind::Trivia { fields } => fields.clone(),
        _ => Vec::new(),
    };
    assert_eq!(fields(0), []);
    assert_eq!(fields(1), [("id", 0..4)]);
    assert_eq!(pieces[0].bytes.len(), MAX_TRIVIA_BYTES - 2);
    assert_eq!(shapes[2..], [(1, 0), (MAX_SUFFIX_BYTES + 2, 0), (1, 0), (2, 0)]);
}

/// The texts of the records of a file, or `!` and the length for damage.
fn outline(file: &[u8], rules: &Rules) -> Vec<String> {
    let whole = pieces_by(file, rules);
    assert_whole(file, &whole);
    let chunks = Chunks { bytes: file, sizes: vec![1, 3].into_iter().cycle() };
    assert_eq!(shape(&pieces_by(chunks, rules)), shape(&whole));
    let text = |piece: Piece| match piece.kind {
        PieceKind::Record { .. } => Some(String::from_utf8(piece.bytes.to_vec()).unwrap()),
        PieceKind::Damaged { .. } => Some(format!("!{}", piece.bytes.len())),
        PieceKind::Trivia { .. } => None,
    };
    whole.into_iter().filter_map(text).collect()
}

const LIST: Rules = Rules { records: &["a[*]"], fields: &["id"] };

#[test]
fn a_bad_byte_in_a_string_damages_only_its_element() {
    let bad: [&[u8]; 6] = [b"\xff", b"\xe2\x82", b"\x01", br"\x", br"\u12", b"\xc3"];
    for bytes in bad {
        let file =
            [br#"{"id":1,"a":[{"n":"1"},{"n":""#, bytes, br#"","m":[{}]},{"n":"3"}],"z":{}}"#];
        let outline = outline(&file.concat(), &LIST);
        let length = 17 + bytes.len();
        assert_eq!(outline, [r#"{"n":"1"}"#, &format!("!{length}"), r#"{"n":"3"}"#], "{bytes:?}");
    }
}

#[test]
fn damage_ends_at_the_next_line_with_an_equally_indented_element() {
    let list = "{\n  \"a\": [\n    {\"n\": 1},\n    {\"n\": [\n      {\"m\": }\n    ]},\n    {\"n\": 3}\n  ]\n}\n";
    assert_eq!(outline(list.as_bytes(), &LIST), [r#"{"n": 1}"#, "!34", r#"{"n": 3}"#]);
    // A truncated element, with the next one on the next line.
    let torn = "{\n  \"a\": [\n    {\"n\": \"1\n    {\"n\": 2}\n  ]\n}\n";
    assert_eq!(outline(torn.as_bytes(), &LIST), ["!13", r#"{"n": 2}"#]);
    // Without such a line the rest is damage, but no byte is lost.
    let cut = r#"{"a": [{"n": 1}, {"n": }, {"n": 3}]}"#;
    assert_eq!(outline(cut.as_bytes(), &LIST), [r#"{"n": 1}"#, "!19"]);
}

#[test]
fn a_broken_record_of_any_length_is_returned_in_parts() {
    let long = "x".repeat(MAX_TRIVIA_BYTES + 100);
    let file = [b"{\"a\":[\"\xff", long.as_bytes(), b"\",{\"n\":2}]}"].concat();
    let outline = outline(&file, &LIST);
    assert_eq!(outline, [&format!("!{MAX_TRIVIA_BYTES}"), "!103", r#"{"n":2}"#]);
}
