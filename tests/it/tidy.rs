//! House rules that a machine can check.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below a directory of the repository with one of these extensions.
fn files(below: &str, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![root().join(below)];
    while let Some(dir) = left.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if path.is_dir() && !path.ends_with("target") {
                left.push(path);
            } else if extension.is_some_and(|extension| extensions.contains(&extension)) {
                found.push(path);
            }
        }
    }
    found
}

/// String literals of the form `process/exec`, `ping`, … in the sources.
fn method_names(is_of: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut names = vec!["initialize".to_owned()];
    for path in files("src", &["rs"]).into_iter().filter(|path| is_of(path)) {
        for literal in fs::read_to_string(path).unwrap().split('"').skip(1).step_by(2) {
            let rest = ["process/", "fs/", "net/"].iter().find_map(|p| literal.strip_prefix(p));
            let is_name = |rest: &str| {
                !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphabetic())
            };
            if rest.is_some_and(is_name) {
                names.push(literal.to_owned());
            }
        }
    }
    names.sort();
    names.dedup();
    names
}

#[test]
fn the_protocol_page_mentions_every_method_that_is_served() {
    let is_codex = |path: &Path| path.starts_with(root().join("src/server/codex"));
    for (page, names, one) in [
        ("docs/protocol.md", method_names(|path| !is_codex(path)), "process/exec"),
        ("docs/codex.md", method_names(is_codex), "process/start"),
    ] {
        assert!(names.contains(&one.to_owned()), "the table was found: {names:?}");
        let text = read(page);
        for name in names {
            assert!(text.contains(&name), "{page} does not mention {name}");
        }
    }
}

#[test]
fn every_error_code_of_the_sources_is_on_the_protocol_page() {
    let page = read("docs/protocol.md");
    for path in files("src", &["rs"]) {
        let text = fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (at, _) in text.match_indices("CELL_TA_EXEC_") {
            let rest = &text[at..];
            let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_');
            let code = &rest[..end.unwrap_or(rest.len())];
            assert!(page.contains(code), "{}: {code} is not on the page", path.display());
        }
    }
}

#[test]
fn only_sys_has_unsafe_and_libc() {
    for path in files("src", &["rs"]) {
        if path.starts_with(root().join("src/sys")) {
            continue;
        }
        for (number, line) in (1..).zip(fs::read_to_string(&path).unwrap().lines()) {
            let code = line.split("//").next().unwrap_or_default();
            let words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            let has_unsafe = words.clone().any(|word| word == "unsafe");
            let has_libc = code.contains("libc::") || words.clone().any(|word| word == "libc");
            assert!(!has_unsafe && !has_libc, "{}:{number}: {line}", path.display());
        }
    }
}

#[test]
fn protocol_does_no_io() {
    for path in files("src/protocol", &["rs"]) {
        let text = fs::read_to_string(&path).unwrap();
        // Formatting into a buffer is `io::Write` too; these are what leaves the process.
        for forbidden in
            ["std::net", "std::fs", "std::process", "std::thread", "io::stdin", "io::stdout"]
        {
            assert!(!text.contains(forbidden), "{}: {forbidden}", path.display());
        }
    }
}

/// An option that was renamed, or never was.
#[test]
fn the_guide_uses_no_option_that_its_command_has_not() {
    let names = [
        "exec-server",
        "run",
        "forward",
        "connect",
        "ping",
        "cp",
        "fs",
        "completions",
        "serve",
        "mcp",
    ];
    let mut seen = 0;
    for page in ["docs/guide.md", "docs/deploy.md", "docs/ssh.md", "docs/agents.md", "README.md"] {
        let text = read(page);
        for (at, _) in text.match_indices("ta ") {
            let rest = &text[at + 3..];
            let Some(name) = names.iter().find(|name| rest.starts_with(&format!("{name} "))) else {
                continue;
            };
            // (What stands in quotes is another command, and so is what follows.)
            let end = rest.find(['\n', '`', '|', '\'', '#']).unwrap_or(rest.len());
            let line = rest[..end].split(" -- ").next().unwrap();
            let mut words = line.split_whitespace().map(|word| word.trim_end_matches(['.', ',']));
            let action = words.nth(1).filter(|_| *name == "fs");
            let help = Command::new(crate::support::binary())
                .arg(name)
                .args(action)
                .arg("--help")
                .output()
                .unwrap();
            let help = String::from_utf8(help.stdout).unwrap();
            for option in line.split_whitespace().filter(|word| word.starts_with("--")) {
                let option =
                    option.split('=').next().unwrap().trim_end_matches(['.', ',', ')', ';']);
                seen += 1;
                assert!(help.contains(option), "{page}: ta {name} has no {option}");
            }
        }
    }
    assert!(seen > 15, "only {seen} options were found");
}

#[test]
fn the_changelog_has_an_unreleased_section() {
    let text = read("CHANGELOG.md");
    assert!(text.lines().any(|line| line.starts_with("## ") && line.contains("Unreleased")));
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    // A guide may show somebody's home; a source has no business there.
    let anywhere = [concat!("/wo", "rk/")];
    let in_sources = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    for dir in ["src", "tests"] {
        assert_names_none(&files(dir, &["rs", "toml"]), &in_sources);
    }
    let mut rest = files("docs", &["md"]);
    rest.extend(files("remote", &["sh", "md", "py", "ts", "json"]));
    let top = ["README.md", "CHANGELOG.md", "Makefile", "Cargo.toml", ".ci/run"];
    rest.extend(top.iter().map(|name| root().join(name)).filter(|path| path.exists()));
    assert_names_none(&rest, &anywhere);
}

#[track_caller]
fn assert_names_none(paths: &[PathBuf], markers: &[&str]) {
    for path in paths {
        let text = fs::read_to_string(path).unwrap();
        for marker in markers {
            let found = text.lines().find(|line| line.contains(marker));
            assert!(found.is_none(), "{}: {}", path.display(), found.unwrap_or_default());
        }
    }
}
