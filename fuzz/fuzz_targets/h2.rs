//! Feeds [`thalweg_fuzz::h2`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg_fuzz::h2(data));
