//! Feeds [`thalweg_fuzz::forwarded`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg_fuzz::forwarded(data));
