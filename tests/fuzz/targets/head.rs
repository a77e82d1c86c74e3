//! The head of an HTTP request.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ta_exec::fuzzing::head(data));
