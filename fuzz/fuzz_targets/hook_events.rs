//! The target `hook_events` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| turntree_fuzz::hook_events(bytes));
