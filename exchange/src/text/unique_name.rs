//! Finds unique names.

/// Returns `stem`, or the first free name of `stem-2`, `stem-3` and so on.
pub(crate) fn unique_name(stem: &str, mut is_taken: impl FnMut(&str) -> bool) -> String {
    let (mut name, mut number) = (stem.to_owned(), 2_u64);
    while is_taken(&name) {
        name = format!("{stem}-{number}");
        number += 1;
    }
    name
}
