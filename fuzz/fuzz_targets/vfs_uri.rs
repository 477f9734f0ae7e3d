//! The target `vfs_uri` under libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| turntree_fuzz::vfs_uri(bytes));
