//! `ta completions`, in the real shells.

use std::process::Command;

use crate::support::{TempDir, lacks, ta};

fn script(shell: &str) -> String {
    let output = ta(&["completions", shell]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The options that `ta COMMAND --help` tells of.
fn options(command: &str) -> Vec<String> {
    let help = ta(&[command, "--help"]).output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap();
    let options = help.split("Options:").nth(1).unwrap();
    let lines = options.lines().filter(|line| line.starts_with("  -"));
    let words = lines.flat_map(|line| line.trim().split([' ', ',']).map(str::to_owned));
    words.filter(|word| word.starts_with("--")).collect()
}

const COMMANDS: &[&str] =
    &["exec-server", "run", "forward", "connect", "ping", "completions", "hosts"];

fn shell(program: &str, args: &[&str], line: &str) -> String {
    let output = Command::new(program).args(args).arg("-c").arg(line).output().unwrap();
    assert!(output.stderr.is_empty(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn bash_completes_commands_options_and_values() {
    if lacks("bash_completes_commands_options_and_values", "bash") {
        return;
    }
    let dir = TempDir::new();
    let path = dir.write("ta.bash", script("bash"));
    let token = dir.write("token", "x");
    let complete = |words: &str| {
        let line = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _ta; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            path.display()
        );
        let found = shell("bash", &["--norc"], &line);
        found.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    for command in COMMANDS {
        assert!(complete("ta ''").contains(&(*command).to_owned()), "{command}");
        let found = complete(&format!("ta {command} --"));
        for option in options(command) {
            assert!(found.contains(&option), "{command} {option}: {found:?}");
        }
    }
    assert_eq!(complete("ta ru"), ["run"]);
    assert_eq!(complete("ta run --tok"), ["--token-file"]);
    let partly = format!("{}/tok", dir.path().display());
    assert_eq!(complete(&format!("ta run --token-file {partly}")), [token.to_str().unwrap()]);
    assert_eq!(complete(&format!("ta run --token-file = {partly}")), [token.to_str().unwrap()]);
    assert_eq!(complete(&format!("ta run --env A=b -i cat {partly}")), [token.to_str().unwrap()]);
    assert_eq!(complete("ta exec-server --log-format j"), ["json"]);
    assert_eq!(complete("ta exec-server --dialect c"), ["codex"]);
    assert_eq!(complete("ta completions f"), ["fish"]);
    assert!(complete("ta run --exec ''").is_empty(), "hosts are not known");
    assert!(complete("ta run ls --").is_empty(), "these are the command's own");
}

#[test]
fn fish_completes_commands_options_and_values() {
    if lacks("fish_completes_commands_options_and_values", "fish") {
        return;
    }
    let dir = TempDir::new();
    let path = dir.write("ta.fish", script("fish"));
    let complete = |line: &str| {
        let line = format!("source '{}'; complete -C '{line}'", path.display());
        let found = shell("fish", &["--no-config"], &line);
        let words = found.lines().map(|line| line.split('\t').next().unwrap().to_owned());
        words.collect::<Vec<_>>()
    };
    for command in COMMANDS {
        let found = complete(&format!("ta {command} --"));
        for option in options(command) {
            assert!(found.contains(&option), "{command} {option}: {found:?}");
        }
    }
    assert_eq!(complete("ta ru"), ["run"]);
    assert_eq!(complete("ta completions f"), ["fish"]);
    assert!(complete("ta run --exec ").is_empty());
}

/// zsh completes for a terminal alone: it is given one of its own, and a Tab.
#[test]
fn zsh_completes_commands_and_options() {
    if lacks("zsh_completes_commands_and_options", "zsh") {
        return;
    }
    let dir = TempDir::new();
    dir.write("_ta", script("zsh"));
    let complete = |typed: &str, expected: &str| {
        let line = format!(
            "zmodload zsh/zpty; zpty z zsh -f -i; \
             zpty -w z 'PS1=; fpath=(\"{}\" $fpath); autoload -U compinit; compinit -D -u; \
             unsetopt zle_bracketed_paste; print REA''DY'; \
             zpty -r -m z out '*READY*'; zpty -w -n z $'{typed}\\t'; \
             zpty -r -m z out '*{expected}*' && print -r -- \"$out\"; zpty -d z",
            dir.path().display()
        );
        let output = Command::new("timeout")
            .args(["10", "zsh", "-f", "-c", &line])
            .env("TERM", "xterm")
            .output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(expected), "{typed}: {output:?}");
    };
    // What is typed is shown as it is typed, and the rest apart from it.
    complete("ta forw", "ard");
    complete("ta run --tok", "en-file");
    complete("ta completions fi", "sh");
}

#[test]
fn another_shell_is_refused() {
    let output = ta(&["completions", "tcsh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("none of bash, zsh and fish"));
}
