//! The target `ollm` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| turntree_fuzz::ollm(bytes));
