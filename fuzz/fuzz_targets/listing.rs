//! Feeds [`thalweg_fuzz::listing`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg_fuzz::listing(data));
