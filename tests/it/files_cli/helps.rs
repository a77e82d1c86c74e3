//! The help texts.

use super::{Running, bare};

const PLACE: [&str; 4] = ["--exec", "--via", "--epoch", "--token-file"];

#[test]
fn every_option_is_listed_and_there_are_examples() {
    for (subcommand, options) in [
        ("fs read", &["--offset", "--length"][..]),
        ("fs write", &["--append", "--mode", "--parents", "--if-version", "--sync", "--json"]),
        ("fs stat", &["--json", "--no-follow"]),
        ("fs ls", &["-l, --long", "-a, --all", "--json"]),
        ("fs mkdir", &["-p, --parents", "--mode"]),
        ("fs rm", &["-r, --recursive", "-f, --force"]),
        ("fs mv", &[]),
        ("cp", &["-r, --recursive"]),
    ] {
        let words = || subcommand.split(' ');
        let text = Running::start(bare(words().chain(["--help"]))).finish().text();
        for option in options.iter().chain(&PLACE).chain(&["-h, --help"]) {
            let listed = text.lines().any(|line| line.trim_start().starts_with(option));
            assert!(listed, "{subcommand}: {option} is not in {text}");
        }
        for part in ["Examples:", "Error codes:", "  1 ", "  2 ", "  125 "] {
            assert!(text.contains(part), "{subcommand}: {part}: {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() < 110), "{text}");
        let other = Running::start(bare(["help"].into_iter().chain(words()))).finish().text();
        assert_eq!(other, text);
    }
    let text = Running::start(bare(["fs", "--help"])).finish().text();
    for action in ["read", "write", "stat", "ls", "mkdir", "rm", "mv"] {
        assert!(text.contains(&format!("\n  {action} ")), "{action}: {text}");
    }
}
