//! The measurement of growth on tiny stores: a table, JSON, and charts.

use std::fs;
use std::process::Command;

use serde_json::Value;

/// Checks that all elements and attributes of a document are balanced and quoted, as a strict XML
/// parser does first.
fn assert_is_xml(name: &str, text: &str) {
    let mut open: Vec<&str> = Vec::new();
    for part in text.split('<').skip(1) {
        let (tag, rest) = part.split_once('>').unwrap_or_else(|| panic!("{name}: <{part}"));
        assert!(!rest.contains('>'), "{name}: {rest}");
        let word = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "{name}");
        } else if !tag.ends_with('/') {
            open.push(word);
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{name}: <{tag}>");
    }
    assert!(open.is_empty(), "{name}: {open:?} stay open");
}

#[test]
fn a_tiny_run_gives_a_table_and_pictures() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_growth"))
        .env("TURNTREE_MEASURED", env!("CARGO_BIN_EXE_turntree-under-test"))
        .arg(folder.path())
        .args(["--turns", "10,20", "--sessions", "1,3", "--rounds", "1"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let tables = String::from_utf8(output.stdout).unwrap();
    assert!(tables.starts_with("| turns | 10 | 20 |\n|---|---|---|\n"), "{tables}");
    assert!(tables.contains("| sessions | 1 | 3 |"), "{tables}");
    for step in ["open", "log of 20", "snapshot", "fork", "search", "stats", "gc", "repack"] {
        let row = format!("\n| {step}, written | ");
        assert_eq!(tables.matches(&row).count(), 2, "{step}: {tables}");
    }
    let page = fs::read_to_string(folder.path().join("table.md")).unwrap();
    assert!(page.ends_with(&tables), "{page}");

    let json = fs::read_to_string(folder.path().join("growth.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let points = json["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    for point in points {
        let steps = point["steps"].as_array().unwrap();
        assert!(steps.iter().all(|step| step["peak_mib"].as_f64() > Some(0.5)), "{point}");
        let bytes = point["bytes"].as_array().unwrap();
        assert!(bytes.iter().all(|bytes| bytes["store_bytes"].as_u64() > Some(1000)), "{point}");
    }

    let mut pictures = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            let (name, text) = (path.display().to_string(), fs::read_to_string(&path).unwrap());
            assert_is_xml(&name, &text);
            assert!(text.contains("prefers-color-scheme:dark"), "{name}");
            assert!(!text.contains("<script"), "{name}");
            assert!(text.contains("<polyline"), "{name}");
            pictures += 1;
        }
    }
    assert_eq!(pictures, 10);
}
