//! Search, beside the programs that people know.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use ta_exec::protocol::{FindParams, GrepParams, WirePath};

use super::files::Directory;
use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::Unit;
use crate::report::{Bound, Row};
use crate::server::Server;

const ROUNDS: usize = 10;
const WORD: &str = "needle";
const DIRECTORIES: usize = 500;
const FILES: usize = 100;
/// Every so many files have what is searched for.
const EVERY: usize = 50;
const FOUND: usize = DIRECTORIES * FILES / EVERY;
/// More than is there.
const LIMIT: NonZeroU32 = NonZeroU32::new(1_000_000).unwrap();
/// How many times as long as theirs ours may take.
const MOST_TIMES: f64 = 1.3;

/// Lines and names in a tree of 50,000 files, beside rg and fd.
pub(super) fn search(arena: &Arena) -> Outcome<Vec<Row>> {
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    // (Not below the build's directory: that is ignored.)
    let directory = Directory::at(&std::env::temp_dir())?;
    fill(directory.path())?;
    let path = WirePath::try_from(directory.path().to_path_buf())?;
    let rounds = arena.scaled(ROUNDS);
    let count = DIRECTORIES * FILES;

    let mut grep = GrepParams::new(path.clone(), WORD);
    grep.limit = Some(LIMIT);
    let lines = beside(
        &format!("a word in {count} files"),
        ("rg", &["--hidden", "--line-number", WORD]),
        directory.path(),
        || Ok(client.grep(&grep)?.matches.len()),
        rounds,
    )?;

    let mut find = FindParams::all(path);
    find.pattern = Some(format!("{WORD}*"));
    find.limit = Some(LIMIT);
    let names = beside(
        &format!("names among {count} files"),
        ("fdfind", &["--hidden", "--glob", &format!("{WORD}*")]),
        directory.path(),
        || Ok(client.find(&find)?.entries.len()),
        rounds,
    )?;
    Ok(vec![lines, names])
}

/// A search of ours beside a program's; both have to find all there is.
fn beside(
    title: &str,
    (program, arguments): (&str, &[&str]),
    directory: &Path,
    ours: impl Fn() -> Outcome<usize>,
    rounds: usize,
) -> Outcome<Row> {
    if Command::new(program).arg("--version").stdout(Stdio::null()).status().is_err() {
        return Ok(Row::left_out(title, &format!("{program} is not installed")));
    }
    let timed = |search: &dyn Fn() -> Outcome<usize>| {
        let start = Instant::now();
        match search()? {
            FOUND => Ok(vec![start.elapsed().as_secs_f64()]),
            other => Err(format!("{other} were found in place of {FOUND}").into()),
        }
    };
    let theirs = || {
        let found = Command::new(program).args(arguments).arg(directory).output()?;
        Ok(found.stdout.iter().filter(|byte| **byte == b'\n').count())
    };
    let contenders = vec![
        Contender::new(format!("{program}, as a command"), || timed(&theirs)),
        Contender::new("ta, through a server", || timed(&ours)),
    ];
    let all = take_turns(contenders, rounds)?;
    Ok(Row::beside_floor(title, Unit::Time, all).bound(1, Bound::TimesFloor(MOST_TIMES)))
}

/// Files such as sources are, of 2 KiB each; some have the word, in their name too.
fn fill(directory: &Path) -> Outcome<()> {
    let line = "let something = another(thing, of: some) else { return }; // and so on\n";
    let text = line.repeat(30);
    for number in 0..DIRECTORIES {
        let below = directory.join(format!("part-{:02}/module-{number:03}", number % 20));
        fs::create_dir_all(&below)?;
        for number in 0..FILES {
            if number % EVERY == 0 {
                let text = format!("{text}a {WORD}\n{text}");
                fs::write(below.join(format!("{WORD}-{number:02}.txt")), text)?;
            } else {
                fs::write(below.join(format!("source-{number:02}.txt")), &text)?;
            }
        }
    }
    Ok(())
}
