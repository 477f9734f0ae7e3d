//! The target `codesign_database` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| turntree_fuzz::codesign_database(bytes));
