//! The target `codesign_session` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| turntree_fuzz::codesign_session(bytes));
