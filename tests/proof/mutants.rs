//! The list of seeded mutants matches the code, so that it can be run at any time.

use std::collections::HashSet;
use std::fs;

use turntree_tests::mutants::{Mutant, list, project};

#[test]
fn every_mutant_changes_one_place_and_names_tests_that_must_notice() {
    let mutants = list();
    assert!(mutants.len() >= 40, "only {}", mutants.len());
    let mut names = HashSet::new();
    for Mutant { name, removed, file, find, replace, tests } in mutants {
        assert!(names.insert(name.clone()), "{name} is listed twice");
        assert!(removed.ends_with('.'), "{name}: '{removed}' is no sentence");
        let text = fs::read_to_string(project().join(&file)).unwrap();
        let places = text.matches(&*find).count();
        assert_eq!(places, 1, "{name}: places in {} with\n{find}", file.display());
        assert_ne!(find, replace, "{name} changes nothing");
        assert!(!tests.is_empty(), "{name}: no test must notice");
        for test in tests {
            let Some((_, of_binary)) = test.split_once("--test ") else { continue };
            let (binary, filter) = of_binary.split_once(' ').expect("which tests of a binary");
            let file = filter.split_once("::").map_or("main", |(file, _)| file);
            let path = project().join("tests").join(binary).join(format!("{file}.rs"));
            assert!(path.is_file(), "{name}: there is no {}", path.display());
        }
    }
}
