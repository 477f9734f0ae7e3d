//! Seeded runs with known divergences, with other ids, times and places in each.

use proptest::prelude::*;
use serde_json::json;
use turntree::context::Role;
use turntree::object::{Kind, ObjectId};

use super::{AlignedRun, StepReader, align};
use crate::model::view::{MessageView, ToolCall, ToolResult};

/// A call: its tool, its file, and what it prints.
type Act = (u8, u8, u8);

/// Renders what a run did, with ids, times and places of its own.
fn run(seed: u64, acts: &[Act], passed: Option<bool>) -> AlignedRun {
    let mut steps = StepReader::default();
    let dir = format!("/work/run-{seed}");
    let mut files = None;
    for (turn, (tool, file, output)) in (1..).zip(acts) {
        let noise = ObjectId::of(Kind::Blob, format!("{seed} {turn}").as_bytes()).to_string();
        let id = format!("toolu_{}", &noise[..24]);
        let (name, input) = match tool % 3 {
            0 => ("Read", json!({"file_path": format!("{dir}/src/{file}.rs")})),
            1 => ("Edit", json!({"file_path": format!("{dir}/src/{file}.rs"), "new": output})),
            _ => (
                "Bash",
                json!({"command": format!("cd {dir} && make {file}"),
                "description": format!("Builds {}", &noise[..5])}),
            ),
        };
        let mut call = MessageView::new(Role::Assistant);
        call.text = format!("I will now do {}", &noise[..9]);
        call.tool_calls.push(ToolCall {
            id: id.clone(),
            name: name.into(),
            input: input.to_string(),
        });
        let mut result = MessageView::new(Role::Tool);
        let second = seed % 60;
        result.tool_results.push(ToolResult {
            call_id: id,
            text: format!(
                "{dir}: {output} done in 0.{seed}s at 2026-11-30T20:04:{second:02}.{seed}Z, pid \
                 {seed}, log /tmp/{}/log, request req_{}",
                &noise[..6],
                &noise[8..28]
            ),
            pictures: Vec::new(),
            is_error: output % 7 == 0,
        });
        steps.message(turn, &call, Some(&dir));
        steps.message(turn, &result, Some(&dir));
        if tool % 3 == 1 {
            files = Some(ObjectId::of(Kind::Blob, &[*file, *output]));
        }
        steps.end_turn(turn, files, || Ok(Vec::new())).unwrap();
    }
    AlignedRun { steps: steps.finish(), files: None, passed }
}

fn acts(most: usize) -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec((0..3_u8, 0..5_u8, 0..9_u8), 0..most)
}

/// The first step that differs between two lists of acts, by meaning: what a read prints is a result.
fn first_difference(one: &[Act], other: &[Act]) -> Option<usize> {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    (same < one.len() || same < other.len()).then_some(same)
}

#[test]
fn the_step_that_separates_is_the_earliest_that_tells() {
    // The third step decides, while everything after it differs in each run.
    let runs: Vec<AlignedRun> = (0..6_u8)
        .map(|number| {
            let good = number % 2 == 0;
            let acts =
                [(0, 0, 1), (0, 1, 1), (1, 2, u8::from(good)), (2, number, 3), (1, 4, number)];
            run(u64::from(number) + 11, &acts, Some(good))
        })
        .collect();
    let alignment = align(&runs);
    assert_eq!(alignment.shared, 2);
    let decision = alignment.decision.unwrap();
    assert_eq!((decision.step, decision.separates), (2, true));
    let counts: Vec<_> = decision.choices.iter().map(|c| (c.passed, c.failed)).collect();
    assert_eq!(counts, [(3, 0), (0, 3)]);
}

#[test]
fn a_step_that_only_passed_runs_have_separates_wherever_it_is() {
    let with = |seed: u8, at: usize| {
        let mut acts = vec![(2, seed, 1), (0, 1, 1), (0, 2, 1), (0, 3, 2)];
        acts.insert(at, (2, 99, 5));
        run(u64::from(seed), &acts, Some(true))
    };
    let without =
        |seed: u8| run(u64::from(seed), &[(2, seed, 1), (0, 1, 1), (0, 2, 1)], Some(false));
    let decision = align(&[with(1, 2), without(2), with(3, 4), without(4)]).decision.unwrap();
    assert!(decision.separates);
    assert_eq!(decision.choices[0].label.as_deref(), Some("Bash make 99"));
    assert_eq!(
        (decision.choices[0].runs.clone(), decision.choices[1].runs.clone()),
        (vec![0, 2], vec![1, 3])
    );
    assert_eq!(decision.step, 2);
}

#[test]
fn the_branch_that_the_others_were_forked_from_takes_no_part() {
    let one = run(1, &[(0, 1, 1), (1, 1, 1)], Some(true));
    let other = run(2, &[(0, 1, 1), (1, 3, 3)], Some(false));
    let alignment = align(&[run(3, &[], None), one.clone(), other.clone()]);
    assert_eq!(alignment.shared, 1);
    assert_eq!(alignment.pairs.iter().map(|pair| pair.runs).collect::<Vec<_>>(), [(1, 2)]);
    // A run that failed before its first step has its place.
    let alignment = align(&[run(3, &[], Some(false)), one, other]);
    assert_eq!((alignment.shared, alignment.pairs.len()), (0, 3));
}

#[test]
fn runs_meet_where_their_files_are_equal_again() {
    let one = run(1, &[(0, 1, 1), (1, 1, 1), (1, 2, 2)], None);
    let other = run(2, &[(0, 1, 1), (1, 3, 3), (2, 1, 1), (1, 2, 2)], None);
    let alignment = align(&[one, other]);
    let pair = &alignment.pairs[0];
    assert_eq!(pair.parted, Some(1));
    let met = pair.met.as_ref().unwrap();
    assert_eq!((met.turns, met.steps), ((3, 4), (3, 4)));
    assert_eq!(alignment.steps, [3, 4]);
    let apart = align(&[run(1, &[(1, 1, 1)], None), run(2, &[(1, 1, 2)], None)]);
    assert_eq!(apart.pairs[0].met, None);
}

turntree_properties::properties! {
    #[test]
    fn the_first_divergence_of_every_two_runs_is_exact(
        common in acts(40),
        tails in prop::collection::vec(acts(12), 2..17),
        seeds in prop::collection::vec(100..999_u64, 17),
    ) {
        let whole: Vec<Vec<Act>> =
            tails.iter().map(|tail| common.iter().chain(tail).copied().collect()).collect();
        let runs: Vec<AlignedRun> =
            whole.iter().zip(&seeds).map(|(acts, seed)| run(*seed, acts, None)).collect();
        let alignment = align(&runs);
        for pair in &alignment.pairs {
            let expected = first_difference(&whole[pair.runs.0], &whole[pair.runs.1]);
            prop_assert_eq!(pair.parted, expected);
        }
        let taking_part: Vec<_> = whole.iter().filter(|acts| !acts.is_empty()).collect();
        let first: &[Act] = taking_part.first().map_or(&[], |acts| acts);
        let shared = taking_part.iter().filter_map(|acts| first_difference(first, acts)).min();
        prop_assert_eq!(alignment.shared, shared.unwrap_or(first.len()));
        let choices = alignment.splits.iter().map(|split| split.choices.iter());
        for mut runs in choices.map(|choices| choices.flat_map(|c| c.runs.clone()).collect::<Vec<_>>()) {
            runs.sort_unstable();
            prop_assert!(runs.windows(2).all(|two| two[0] < two[1]));
        }
    }
}
