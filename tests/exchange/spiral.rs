//! Spirals: the verdicts of open-codesign on the same turns, in `vectors/open-codesign`.

use serde_json::Value;
use turntree_exchange::{SPIRAL_WINDOW, SpiralStep, find_spiral};

const CASES: &str = include_str!("../vectors/open-codesign/spiral-cases.json");

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[test]
fn streak_verdicts_match_the_reference() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    assert!(cases.len() >= 7);
    for case in cases {
        let step = |turn: &Value| SpiralStep {
            turn: turn["turnId"].as_u64().unwrap(),
            tool: text(&turn["toolName"]),
            arguments: text(&turn["argsHash"]),
            artifact: text(&turn["artifactSha256"]),
            ..SpiralStep::default()
        };
        let steps: Vec<SpiralStep> = case["turns"].as_array().unwrap().iter().map(step).collect();
        let window = case["windowSize"].as_u64().map_or(SPIRAL_WINDOW, |size| size as usize);
        let found = find_spiral(&steps, window);
        let (name, finding) = (&case["name"], &case["finding"]);
        assert_eq!(found.streak.is_some(), !finding.is_null(), "{name}");
        let Some(streak) = found.streak else { continue };
        if let Some(verdict) = finding["verdict"].as_str() {
            assert_eq!(found.verdict.name(), verdict, "{name}");
        }
        if let Some(length) = finding["streakLength"].as_u64() {
            assert_eq!(streak.turns.len() as u64, length, "{name}");
        }
        if let Some(turns) = finding["streakTurnIds"].as_array() {
            let turns: Vec<u64> = turns.iter().map(|turn| turn.as_u64().unwrap()).collect();
            assert_eq!(streak.turns, turns, "{name}");
        }
        if let Some(signature) = finding["signature"].as_str() {
            assert_eq!(streak.signature, signature, "{name}");
        }
    }
}
