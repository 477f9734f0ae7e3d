//! Notes next to a store, and locks among them.

use turntree::workspace::{Claim, read_note, write_note};
use turntree_tests::Sandbox;

#[test]
fn a_lock_is_held_however_many_notes_are_written() {
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let lock = Claim::take(repo.dir(), "driver").unwrap();
    let left = Claim::take(repo.dir(), "left").unwrap();
    drop(left);
    // Far more than are kept.
    for number in 0..200 {
        write_note(repo, &format!("note {number}"), b"text").unwrap();
    }
    assert!(read_note(repo, "note 0").is_none() && read_note(repo, "note 199").is_some());
    assert!(Claim::take(repo.dir(), "driver").is_none());
    // The lock `left` has no file any more, and can still be taken.
    let again = Claim::take(repo.dir(), "left").unwrap();
    assert!(Claim::take(repo.dir(), "left").is_none());
    drop((lock, again));
    assert!(Claim::take(repo.dir(), "driver").is_some());
}

#[test]
fn a_lock_that_was_handed_over_is_held_until_the_last_file_is_closed() {
    let sandbox = Sandbox::new();
    let dir = sandbox.repo.dir();
    let first = Claim::take(dir, "work").unwrap().handed_over().unwrap();
    let second = first.try_clone().unwrap();
    drop(first);
    assert!(Claim::take(dir, "work").is_none());
    drop(second);
    assert!(Claim::take(dir, "work").is_some());
}
