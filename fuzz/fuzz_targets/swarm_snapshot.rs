//! The target `swarm_snapshot` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| turntree_fuzz::swarm_snapshot(bytes));
