//! `ta completions`: what a shell needs to complete command lines.
//!
//! The commands and options are those of the parsers themselves ([`ArgsInfo`]), so that no script
//! can go stale; only what an option's value is (a file, or something nobody can guess) is said
//! here.

mod bash;
mod fish;
mod zsh;

use std::process::ExitCode;

use argh::{ArgsInfo, FromArgs};

use super::Ta;
use super::arguments::say;

/// Print completions for a shell.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "completions",
    help_triggers("-h", "--help"),
    example = "source <({command_name} bash)",
    example = "{command_name} zsh > \"${{fpath[1]}}/_ta\"",
    example = "{command_name} fish > ~/.config/fish/completions/ta.fish",
    error_code(2, "there is no such shell")
)]
pub(super) struct Completions {
    /// bash, zsh or fish
    #[argh(positional, from_str_fn(shell))]
    shell: Shell,
}

#[derive(Clone, Copy)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

const SHELLS: &[&str] = &["bash", "zsh", "fish"];

fn shell(name: &str) -> Result<Shell, String> {
    match name {
        "bash" => Ok(Shell::Bash),
        "zsh" => Ok(Shell::Zsh),
        "fish" => Ok(Shell::Fish),
        other => Err(format!("{other:?} is none of bash, zsh and fish")),
    }
}

impl Completions {
    /// Prints the script.
    pub(super) fn run(self) -> ExitCode {
        let commands = commands();
        say(&match self.shell {
            Shell::Bash => bash::script(&commands),
            Shell::Zsh => zsh::script(&commands),
            Shell::Fish => fish::script(&commands),
        });
        ExitCode::SUCCESS
    }
}

/// A subcommand.
struct Command {
    name: &'static str,
    description: &'static str,
    flags: Vec<Flag>,
    operands: Operands,
}

/// What follows the options.
#[derive(Clone, PartialEq, Eq)]
enum Operands {
    None,
    /// A command of another machine: files are the nearest guess.
    Command,
    /// Files here, or on another machine, which often has the same.
    Files,
    /// One of these.
    Words(Vec<&'static str>),
}

struct Flag {
    long: &'static str,
    short: Option<char>,
    description: &'static str,
    value: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    /// It has none.
    None,
    File,
    Directory,
    /// One that nobody can guess.
    Any,
    Words(&'static [&'static str]),
}

/// What an option's value is.
fn value_of(long: &str) -> Value {
    match long {
        "--token-file" | "--epoch-file" | "--config" | "--ssh-config" | "--mcp-config"
        | "--ca-file" => Value::File,
        // That of `ta run` is on another machine, which often has the same.
        "--cwd" | "--server-dir" => Value::Directory,
        "--log-level" => Value::Words(&["off", "error", "warn", "info", "debug"]),
        "--dialect" => Value::Words(&["exec", "codex"]),
        "--log-format" => Value::Words(&["text", "json"]),
        _ => Value::Any,
    }
}

/// All there are.
fn commands() -> Vec<Command> {
    let info = Ta::get_args_info();
    let commands = info.commands.into_iter().map(|sub| Command {
        name: sub.name,
        description: first_sentence(sub.command.description),
        flags: flags(&sub.command),
        operands: match sub.name {
            "run" | "mcp" => Operands::Command,
            "cp" => Operands::Files,
            "completions" => Operands::Words(SHELLS.to_vec()),
            _ if sub.command.commands.is_empty() => Operands::None,
            _ => Operands::Words(sub.command.commands.iter().map(|action| action.name).collect()),
        },
    });
    commands.collect()
}

/// The options of a command, and of those below it, each once.
fn flags(command: &argh::CommandInfoWithArgs) -> Vec<Flag> {
    let below = command.commands.iter().flat_map(|action| action.command.flags);
    let mut flags: Vec<Flag> = Vec::new();
    for one in command.flags.iter().chain(below).filter(|one| !one.hidden) {
        match flags.iter_mut().find(|flag| flag.long == one.long) {
            // Not all that have it have its short form.
            Some(known) => known.short = known.short.or(one.short),
            None if one.long == "--help" => {}
            None => flags.push(flag(one)),
        }
    }
    flags
}

fn flag(flag: &'static argh::FlagInfo) -> Flag {
    let value = match flag.kind {
        argh::FlagInfoKind::Switch => Value::None,
        argh::FlagInfoKind::Option { .. } => value_of(flag.long),
    };
    Flag { long: flag.long, short: flag.short, description: flag.description, value }
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").or_else(|| text.split_once(".\n")).map_or(text, |(first, _)| first)
}

impl Command {
    /// The options, as they are written.
    fn words(&self) -> Vec<String> {
        let words = self.flags.iter().flat_map(Flag::words);
        words.chain(["--help".to_owned(), "-h".to_owned()]).collect()
    }

    /// The options whose value satisfies this.
    fn words_with(&self, is_it: impl Fn(Value) -> bool) -> Vec<String> {
        self.flags.iter().filter(|flag| is_it(flag.value)).flat_map(Flag::words).collect()
    }
}

impl Flag {
    fn words(&self) -> Vec<String> {
        let short = self.short.map(|short| format!("-{short}"));
        [self.long.to_owned()].into_iter().chain(short).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_the_parsers() {
        let names: Vec<_> = commands().iter().map(|command| command.name).collect();
        for name in [
            "exec-server",
            "run",
            "fs",
            "cp",
            "forward",
            "connect",
            "ping",
            "completions",
            "serve",
            "mcp",
        ] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        for command in commands() {
            let actions = match &command.operands {
                Operands::Words(words) if command.name != "completions" => words.clone(),
                _ => vec![""],
            };
            let line = |action: &'static str| -> Vec<_> {
                [command.name, action, "--help"]
                    .into_iter()
                    .filter(|word| !word.is_empty())
                    .collect()
            };
            let help: String = actions.iter().map(|action| help(&line(action))).collect();
            for word in command.words() {
                assert!(help.contains(&word), "{} {word}", command.name);
            }
            for word in options_of(&help) {
                assert!(command.words().contains(&word), "{} {word}", command.name);
            }
        }
    }

    fn help(words: &[&str]) -> String {
        let Err(help) = Ta::from_args(&["ta"], words) else { panic!("{words:?} has no help") };
        help.output
    }

    /// The options that helps show.
    fn options_of(help: &str) -> Vec<String> {
        let sections = help.split("Options:").skip(1);
        let sections = sections.map(|text| text.split("Notes:").next().unwrap_or_default());
        let lines = sections.flat_map(str::lines);
        let lines = lines.filter_map(|line| line.trim().strip_prefix('-'));
        let lines = lines.filter(|line| line.starts_with(|c: char| c != ' '));
        let words = lines.flat_map(|line| {
            let line = format!("-{line}");
            let words = line.split([' ', ',']).take_while(|word| word.starts_with('-'));
            words.map(str::to_owned).collect::<Vec<_>>()
        });
        words.collect()
    }

    #[test]
    fn what_takes_a_file_is_an_option() {
        let all = commands();
        let flags = || all.iter().flat_map(|command| &command.flags);
        for (long, value) in [("--token-file", Value::File), ("--exec", Value::Any)] {
            assert!(flags().any(|flag| flag.long == long && flag.value == value), "{long}");
        }
    }
}
