//! Replays every corpus file, and mutations of each: no guarantee may be violated.
//!
//! The mutations are the same in every run. `TURNTREE_FUZZ_MUTATIONS` sets their number per target,
//! for a longer search.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use turntree_fuzz::mutation::mutated;
use turntree_fuzz::{TARGETS, Target};
use turntree_tests::sim::Random;

/// Replays the corpus of the target `name`, then `mutations` mutations of it.
fn replay(name: &str, mutations: usize) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let corpus = corpus(name);
    for (path, bytes) in &corpus {
        run(target, bytes, &path.display().to_string());
    }
    let more = std::env::var("TURNTREE_FUZZ_MUTATIONS").ok();
    let mutations = more.map_or(mutations, |count| count.parse().unwrap());
    let mut random = Random(1);
    for number in 0..mutations {
        let (path, bytes) = &corpus[random.below(corpus.len())];
        let (_, other) = &corpus[random.below(corpus.len())];
        let mutation = mutated(bytes, other, &mut random);
        run(target, &mutation, &format!("mutation {number}, of {}", path.display()));
    }
}

/// Returns the files of a corpus, ordered by name.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut paths: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no seeds in {}", folder.display());
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Runs a target; writes a failing input to a file.
fn run(target: &Target, bytes: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))) {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.crash", target.name));
        fs::write(&path, bytes).unwrap();
        eprintln!("{} broke on {what}: see {}", target.name, path.display());
        resume_unwind(panic);
    }
}

#[test]
fn objects_are_accepted_in_one_form_only() {
    replay("objects", 30_000);
}

#[test]
fn hostile_nodes_are_refused_or_canonical() {
    replay("nodes", 1500);
}

#[test]
fn edits_end_where_a_naive_model_does() {
    replay("edits", 150);
}

#[test]
fn a_store_lives_with_any_superblock() {
    replay("superblock", 600);
}

#[test]
fn a_store_lives_with_any_manifest() {
    replay("manifest", 600);
}

#[test]
fn a_store_lives_with_any_growing_segment() {
    replay("active_segment", 600);
}

#[test]
fn a_store_lives_with_any_sealed_segment() {
    replay("sealed_segment", 600);
}

#[test]
fn a_store_lives_with_any_pack() {
    replay("pack", 100);
}

#[test]
fn a_machine_lives_with_any_head_of_a_remote() {
    replay("remote_head", 150);
}

#[test]
fn keys_of_a_remote_that_nobody_wrote_are_refused() {
    replay("remote_keys", 1_000);
}

#[test]
fn a_sealed_object_gives_its_own_bytes_or_an_error() {
    replay("remote_sealed", 150);
}

#[test]
fn a_store_lives_with_any_bundle() {
    replay("bundle", 150);
}

#[test]
fn policies_are_accepted_in_one_form_only() {
    replay("policies", 30_000);
}

#[test]
fn any_frames_are_answered_or_refused() {
    replay("remote_frames", 3000);
}

#[test]
fn any_revision_is_answered() {
    replay("revision", 5000);
}

#[test]
fn any_transcript_comes_out_as_it_went_in() {
    replay("transcript", 150);
}

#[test]
fn any_snapshot_of_a_swarm_is_refused_or_stable() {
    replay("swarm_snapshot", 400);
}

#[test]
fn any_log_of_a_swarm_leads_to_what_the_store_says() {
    replay("swarm_events", 300);
}

#[test]
fn any_state_document_is_refused_or_reads_back() {
    replay("state", 2000);
}

#[test]
fn no_key_leads_out_of_the_directory() {
    replay("layout", 600);
}

#[test]
fn a_store_lives_with_any_pack_whose_checksums_are_good() {
    replay("mended_pack", 80);
}

#[test]
fn a_store_lives_with_any_history_index() {
    replay("history_index", 200);
}

#[test]
fn a_repository_is_what_a_naive_model_says() {
    replay("model", 40);
}

#[test]
fn whatever_refs_lead_to_takes_nothing_else_away() {
    replay("refs", 100);
}

#[test]
fn what_is_redacted_is_gone() {
    replay("patterns", 60);
}

#[test]
fn any_snapshot_of_context_chef_is_refused_or_comes_out_the_same() {
    replay("context_chef", 2000);
}

#[test]
fn any_document_of_ollm_is_refused_or_comes_out_the_same() {
    replay("ollm", 1500);
}

#[test]
fn any_text_is_offloaded_and_comes_back() {
    replay("offload", 600);
}

#[test]
fn any_uri_is_refused_or_stays_in_its_name_space() {
    replay("vfs_uri", 5000);
}

#[test]
fn any_event_is_refused_or_the_same_in_short() {
    replay("hook_events", 3000);
}

#[test]
fn every_line_that_wants_one_gets_one_answer() {
    replay("requests", 300);
}

#[test]
fn any_design_store_is_refused_or_stable() {
    replay("codesign_store", 300);
}

#[test]
fn any_database_is_refused_or_read() {
    replay("codesign_database", 400);
}

#[test]
fn any_database_of_opencode_is_refused_or_adopted_once() {
    replay("opencode_database", 200);
}

#[test]
fn any_git_repository_is_refused_or_comes_in_whole() {
    replay("git_repository", 300);
}

#[test]
fn any_chat_of_a_design_is_taken_in_both_ways() {
    replay("codesign_session", 300);
}

#[test]
fn any_file_of_lessons_is_refused_or_changes_what_it_says_once() {
    replay("lessons", 4000);
}
