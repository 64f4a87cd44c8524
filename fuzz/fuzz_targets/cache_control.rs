//! Feeds [`thalweg_fuzz::cache_control`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg_fuzz::cache_control(data));
