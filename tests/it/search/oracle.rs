//! The same as the real fd and ripgrep find, on real trees.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{found, matches};
use crate::support::{Peer, Setup, TempDir, lacks};

const MOST: u32 = 1_000_000;

/// This repository as a tree of its own, with more that makes a difference.
fn tree() -> TempDir {
    let dir = TempDir::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    for part in ["src", "docs", "Cargo.toml", "Makefile", ".gitignore", ".ci"] {
        let copied =
            Command::new("cp").args(["-a"]).arg(source.join(part)).arg(dir.path()).status();
        assert!(copied.unwrap().success());
    }
    let made = Command::new("git").args(["init", "-q"]).arg(dir.path()).status().unwrap();
    assert!(made.success());
    let more = [
        (
            ".gitignore",
            "/target\n*.log\n!keep.log\n# nothing\n\\#odd\nbuild/\n/docs/*.tmp\n**/gen/**/x\n",
        ),
        ("a.log", "needle fn\n"),
        ("keep.log", "needle fn\n"),
        ("#odd", "needle\n"),
        ("target/x.rs", "fn needle\n"),
        ("src/build/y.rs", "fn needle\n"),
        ("src/build.rs", "fn needle\n"),
        ("docs/a.tmp", "fn\n"),
        ("docs/b/a.tmp", "fn\n"),
        ("gen/a/b/x", "fn\n"),
        ("gen/y", "fn\n"),
        ("src/.gitignore", "!/keep-me\n*.bak\n"),
        ("src/a.bak", "fn\n"),
        (".ignore", "*.skip\n"),
        ("x.skip", "fn\n"),
        ("src/.hidden/deep/z.RS", "FN needle\n"),
        ("crlf.txt", "one\r\nfn two\r\n"),
        ("no-end", "fn without an end"),
        ("empty", ""),
        ("spaces in name.rs", "fn a() {}\n"),
        ("wide.txt", "\u{e4}\u{f6}\u{20ac} fn \u{1f600}\n"),
    ];
    super::files(&dir, &more);
    dir.write("late-nul", [b"fn early\n".repeat(20_000).as_slice(), b"\0fn late\n"].concat());
    dir.write("nul", b"fn\n\0fn\n");
    dir.write("latin", b"fn \xe4\n");
    dir
}

/// What a program prints when it is run there, in lines; it may find nothing.
fn lines(dir: &Path, program: &str, args: &[&str]) -> Vec<String> {
    let run = Command::new(program).args(args).current_dir(dir).output().unwrap();
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(errors.is_empty(), "{program} {args:?}: {errors}");
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn difference(ours: &[String], theirs: &[String]) -> String {
    let only = |these: &[String], others: &[String]| {
        let only: Vec<_> =
            these.iter().filter(|it| !others.contains(it)).take(10).cloned().collect();
        only.join("\n  ")
    };
    format!("only ours:\n  {}\nonly theirs:\n  {}", only(ours, theirs), only(theirs, ours))
}

#[test]
fn names_are_those_that_fd_finds() {
    if lacks("names_are_those_that_fd_finds", "fdfind") {
        return;
    }
    let dir = tree();
    let server = Setup::new().listen();
    let mut peer = server.connect();
    let base = ["--glob", "--exclude", ".git", "--strip-cwd-prefix"];
    let patterns = [
        "*.rs",
        "*",
        "m?d.rs",
        "*.{toml,md}",
        "[a-m]*.rs",
        "[!a-m]*",
        "Cargo*",
        "cargo*",
        "MOD.rs",
        "build",
        "*.tmp",
        "*.bak",
        "x",
        "z.rs",
        "z.RS",
        "* *",
        "**",
        "a.**",
        "\\#odd",
        "mod",
    ];
    for pattern in patterns {
        for (more, options) in [
            (json!({}), vec!["--hidden"]),
            (json!({"hidden": false}), vec![]),
            (json!({"gitignore": false}), vec!["--hidden", "--no-ignore"]),
            (json!({"maxDepth": 2}), vec!["--hidden", "--max-depth", "2"]),
            (
                json!({"ignore": ["src", "*.md"]}),
                vec!["--hidden", "--exclude", "src", "--exclude", "*.md"],
            ),
        ] {
            let theirs =
                lines(dir.path(), "fdfind", &[&base[..], &options, &["--", pattern]].concat());
            let mut theirs: Vec<_> =
                theirs.iter().map(|path| path.trim_end_matches('/').to_owned()).collect();
            theirs.sort();
            let (ours, truncated) =
                found(&mut peer, dir.path(), &merged(&more, "pattern", pattern));
            assert!(!truncated);
            assert!(ours == theirs, "{pattern} {more}: {}", difference(&ours, &theirs));
        }
    }
}

fn merged(more: &Value, name: &str, value: &str) -> Value {
    let mut params = more.clone();
    params[name] = json!(value);
    params["limit"] = json!(MOST);
    params
}

#[test]
fn lines_are_those_that_ripgrep_finds() {
    if lacks("lines_are_those_that_ripgrep_finds", "rg") {
        return;
    }
    let dir = tree();
    let server = Setup::new().listen();
    let mut peer = server.connect();
    let patterns = [
        "fn",
        "^fn \\w+",
        "needle",
        "\\bfn\\b.*\\{$",
        "\u{e4}",
        ".",
        "^$",
        "(?i)needle",
        "[^\\x00-\\x7f]",
        "impl.*for",
        "\\s+$",
        "x{3,}",
        "a|b|c",
        "two$",
        "end$",
        "unsafe",
    ];
    for pattern in patterns {
        for (more, options) in [
            (json!({}), vec!["--hidden"]),
            (json!({"hidden": false}), vec![]),
            (json!({"gitignore": false}), vec!["--hidden", "--no-ignore"]),
            (json!({"ignoreCase": true}), vec!["--hidden", "-i"]),
            (json!({"literal": true}), vec!["--hidden", "-F"]),
            (json!({"glob": "*.rs"}), vec!["--hidden", "--glob", "*.rs"]),
            (json!({"glob": "!src"}), vec!["--hidden", "--glob", "!src"]),
        ] {
            assert_alike(&mut peer, dir.path(), pattern, &more, &options);
        }
    }
}

/// The same lines as rg finds with these options; answers how many.
fn assert_alike(
    peer: &mut Peer,
    dir: &Path,
    pattern: &str,
    more: &Value,
    options: &[&str],
) -> usize {
    let base = [
        "--no-heading",
        "--line-number",
        "--with-filename",
        "--no-require-git",
        "--no-messages",
        "--glob",
        "!.git",
        "--color=never",
    ];
    let theirs = ripgrep(dir, &[&base[..], options, &["-e", pattern, "."]].concat());
    let (mut ours, truncated) = matches(peer, dir, &merged(more, "pattern", pattern));
    ours.sort();
    assert!(!truncated);
    assert!(ours == theirs, "{pattern} {more}: {}", difference(&ours, &theirs));
    ours.len()
}

/// Its lines as ours are told: without `./`, without a CR, and cut.
fn ripgrep(dir: &Path, args: &[&str]) -> Vec<String> {
    let mut found: Vec<_> = lines(dir, "rg", args)
        .iter()
        .filter(|line| !line.contains("nul: WARNING: stopped searching binary file after"))
        .map(|line| line.strip_prefix("./").unwrap_or(line).trim_end_matches('\r').to_owned())
        .collect();
    found.sort();
    found
}

/// Sources of others, as cargo has unpacked them.
#[test]
fn the_sources_of_the_dependencies_are_searched_alike() {
    if lacks("the_sources_of_the_dependencies_are_searched_alike", "rg") {
        return;
    }
    let Some(dir) = registry() else {
        crate::support::skipped("the_sources_of_the_dependencies_are_searched_alike", "no sources");
        return;
    };
    let server = Setup::new().listen();
    let mut peer = server.connect();
    for pattern in ["unsafe", "TODO|FIXME", "\\bErrno::\\w+\\b"] {
        let count = assert_alike(&mut peer, &dir, pattern, &json!({}), &["--hidden"]);
        assert!(count > 5, "{pattern}: {count} matches");
    }
}

fn registry() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let sources = std::fs::read_dir(home.join("registry/src")).ok()?.next()?.ok()?.path();
    // (A few of them are enough.)
    let mut crates: Vec<_> =
        std::fs::read_dir(sources).ok()?.map(|entry| entry.unwrap().path()).collect();
    crates.sort();
    crates.into_iter().find(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("rustix-1"))
    })
}
