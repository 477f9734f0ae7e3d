//! `compare` on recorded sessions agrees with a naive comparison of both ends.

use turntree::context::{MAIN_AGENT, MessageEntry};
use turntree::object::{Kind, ObjectId, ObjectSource};
use turntree::repo::{BranchName, Repository};
use turntree::tree::Item;
use turntree_exchange::formats::view;
use turntree_exchange::{MessageView, PriceTable, compare};
use turntree_tests::{Sandbox, recorded_sessions};

fn messages(repo: &Repository, commit: &ObjectId) -> Vec<MessageView> {
    let entries = repo.context(commit).unwrap().messages(repo, MAIN_AGENT).unwrap();
    let entries = entries.iter(repo, 0..entries.len());
    let read = |item: &Item| {
        let entry = MessageEntry::from_item(item).unwrap();
        view(&entry.media, &repo.read_as(Kind::Blob, &entry.blob).unwrap())
    };
    entries.map(|item| read(&item.unwrap())).collect()
}

#[test]
fn strategies_report_only_changes_since_the_fork() {
    let file = recorded_sessions().into_iter().find(|file| {
        file.parent().is_some_and(|folder| folder.ends_with("claude-code"))
            && file.metadata().is_ok_and(|found| found.len() < 1 << 20)
    });
    let Some(file) = file else { return eprintln!("skipped: no recorded sessions") };
    let sandbox = Sandbox::new();
    let repo = &sandbox.repo;
    let tip = sandbox.import("s", &std::fs::read(file).unwrap()).unwrap().head;
    let line: Vec<_> =
        repo.history(&[tip], &[]).unwrap().first_parent().map(|e| e.unwrap().id).collect();
    let fork = line[line.len() / 2];
    let (all, before) = (messages(repo, &tip), messages(repo, &fork));
    assert!(before.len() < all.len(), "a session that was not compacted in between");
    let added = &all[before.len()..];

    let main = Some(BranchName::main("s").unwrap());
    let compared = compare(repo, &[(main, tip), (None, fork)], &PriceTable::default()).unwrap();
    assert_eq!(compared.fork.unwrap().0, fork);
    let [did, nothing] = &*compared.strategies else { panic!("two lines") };
    assert_eq!(did.turns as usize, line.len() / 2);
    assert_eq!(did.messages as usize, added.len());
    let calls: usize = added.iter().map(|message| message.tool_calls.len()).sum();
    let results = || added.iter().flat_map(|message| &message.tool_results);
    let errors = results().filter(|result| result.is_error).count();
    assert_eq!((did.tool_calls as usize, did.tool_errors as usize), (calls, errors));
    let tokens = did.spending.unwrap().tokens;
    assert!(tokens.input > 0 && tokens.output > 0);
    assert_eq!((nothing.turns, nothing.messages, nothing.spending), (0, 0, None));
    assert!(nothing.files.changes.is_empty());
}
