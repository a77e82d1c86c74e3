//! `make bench`: what the server costs, each figure beside its bare floor measured in the same
//! run, taking turns.
//!
//! The server is the real static binary (`TA_BIN`, else the release build for musl); the client
//! that bounds are judged on is the library's own, because that is what people run. Every
//! command's exit code is checked, every byte that comes is counted, and what was written or copied is
//! compared: a figure of something that did not happen is none.
//!
//! `cargo bench -- [ROW…] [--quick] [--check]`; tables go to stdout and to `target/bench/`.

#![allow(clippy::disallowed_methods, reason = "no thread of this program takes signals")]

mod arena;
mod commands;
mod contest;
mod figures;
mod floor;
mod options;
mod pages;
mod peers;
mod procfs;
mod raw;
mod report;
mod rows;
mod server;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use arena::Arena;
use options::{Options, Wanted};
use report::Report;

/// The library's client asks for large pages for what is large; so do all clients here.
#[global_allocator]
static ALLOCATOR: pages::LargePages = pages::LargePages;

/// Whatever goes wrong here ends a row, and is shown in its place.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let done = match Options::parse(std::env::args().skip(1)) {
        Ok(Wanted::Rows(options)) => run(&options),
        Ok(Wanted::Listener) => floor::listen().map(|()| true),
        Ok(Wanted::Nothing(why)) => {
            writeln!(io::stdout(), "{why}").map(|()| true).map_err(Into::into)
        }
        Err(error) => Err(error),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "bench: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the rows. `false` if a bound does not hold and that was asked for.
fn run(options: &Options) -> Outcome<bool> {
    let arena = Arena::new(options.quick)?;
    let mut report = Report::new(&arena);
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", report.heading())?;
    for (name, measure) in rows::ALL {
        if options.wants(name) {
            for row in rows::measured(name, *measure, &arena) {
                writeln!(stdout, "\n{}", row.as_text())?;
                report.add(row);
            }
        }
    }
    let (markdown, json) = report.save(&arena.directory)?;
    writeln!(stdout, "\n{}", report.summary())?;
    writeln!(stdout, "written: {} and {}", markdown.display(), json.display())?;
    Ok(report.all_hold() || !options.check)
}
