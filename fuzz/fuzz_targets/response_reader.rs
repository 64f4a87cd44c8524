//! Feeds [`thalweg_fuzz::response_reader`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg_fuzz::response_reader(data));
