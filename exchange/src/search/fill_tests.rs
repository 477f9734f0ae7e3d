//! Searches while another process fills the index.

use turntree::workspace::Claim;

use super::tests::{World, query, text};
use super::{IndexPlace, fill_search_index, search};

#[test]
fn a_search_while_another_process_fills_the_index_covers_what_it_has() {
    let mut world = World::new();
    world.turn("one/main", &[text("some words")]);
    fill_search_index(&world.repo, &|_, _| {}).unwrap();
    world.turn("two/main", &[text("more words")]);
    let claim = Claim::ask(&world.dir(), "search index").unwrap().unwrap();
    fill_search_index(&world.repo, &|_, _| panic!("another process fills it")).unwrap();
    let part = world.search("words");
    assert_eq!((part.hits.len(), part.place), (1, IndexPlace::Filling { indexed: 1, turns: 1 }));
    drop(claim);
    fill_search_index(&world.repo, &|_, _| {}).unwrap();
    let whole = search(&world.repo, &query("words"), &|_, _| panic!("it is filled")).unwrap();
    assert_eq!((whole.hits.len(), whole.place), (2, IndexPlace::InStore));
}
