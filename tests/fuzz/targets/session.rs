//! A conversation with the server, a message a line.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ta_exec::fuzzing::session(data));
