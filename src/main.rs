//! The `ta` program.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: ta_exec::cli::LargePages = ta_exec::cli::LargePages;

fn main() -> ExitCode {
    ta_exec::cli::main(std::env::args_os().collect())
}
