//! Feeds [`thalweg_fuzz::sessions`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg_fuzz::sessions(data));
