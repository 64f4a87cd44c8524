//! Feeds [`thalweg_fuzz::request_reader`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| thalweg_fuzz::request_reader(data));
