//! The `ta` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ta_exec::cli::main(std::env::args_os().collect())
}
