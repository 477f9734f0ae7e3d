//! The proof that nothing is lost, layer by layer, and the house rules.

mod crashes;
mod failures;
mod layers;
mod linear;
mod manifests;
mod mutants;
mod power_cut;
mod prose;
mod public_names;
mod schedules;
mod section_names;
mod tidy;
