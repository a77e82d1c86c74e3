//! `ta man`: the manual page, in the language of man(7), from the parsers' own tables.

use std::fmt::Write as _;
use std::process::ExitCode;

use argh::{ArgsInfo, CommandInfoWithArgs, FlagInfo, FlagInfoKind, FromArgs, Optionality};

use super::Ta;
use super::arguments::say;

/// Print the manual page.
#[derive(FromArgs, ArgsInfo)]
#[argh(
    subcommand,
    name = "man",
    help_triggers("-h", "--help"),
    example = "{command_name} | man -l -",
    example = "{command_name} > ~/.local/share/man/man1/ta.1"
)]
pub(super) struct Man {}

impl Man {
    pub(super) fn run(self) -> ExitCode {
        say(&page(&Ta::get_args_info()));
        ExitCode::SUCCESS
    }
}

fn page(ta: &CommandInfoWithArgs) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(".TH TA 1 \"\" \"ta {version}\" \"User Commands\"\n");
    page.push_str(".SH NAME\nta \\- run a coding agent's commands where they belong\n");
    page.push_str(".SH SYNOPSIS\n");
    for sub in &ta.commands {
        page.push_str(&format!(".B ta {}\n[OPTIONS] ...\n.br\n", text(sub.name)));
    }
    page.push_str(".SH DESCRIPTION\n");
    paragraph(&mut page, ta.description);
    page.push_str(".SH COMMANDS\n");
    for sub in &ta.commands {
        command(&mut page, &format!("ta {}", sub.name), &sub.command);
    }
    page.push_str(".SH ENVIRONMENT\n");
    for (name, meaning) in [
        (
            super::place::URL,
            "The server that the commands go to, where --exec and --via are not given.",
        ),
        (super::token::VARIABLE, "The token: a server asks for it, and a command shows it."),
    ] {
        item(&mut page, name, meaning);
    }
    page
}

/// What there is to know of a command, and of those below it.
fn command(page: &mut String, name: &str, info: &CommandInfoWithArgs) {
    page.push_str(&format!(".SS \"{}\"\n", text(name)));
    paragraph(page, info.description);
    for positional in info.positionals.iter().filter(|positional| !positional.hidden) {
        let dots = match positional.optionality {
            Optionality::Repeating | Optionality::Greedy => "...",
            Optionality::Required | Optionality::Optional => "",
        };
        item(page, &format!("{}{dots}", positional.name), positional.description);
    }
    for flag in info.flags.iter().filter(|flag| !flag.hidden) {
        item(page, &usage(flag), flag.description);
    }
    for note in info.notes {
        paragraph(page, &note.replace("{command_name}", name));
    }
    for code in info.error_codes {
        item(page, &format!("exit code {}", code.code), code.description);
    }
    if !info.examples.is_empty() {
        page.push_str(".PP\nExamples:\n.PP\n.nf\n.RS\n");
        for example in info.examples {
            page.push_str(&text(&example.replace("{command_name}", name)));
            page.push('\n');
        }
        page.push_str(".RE\n.fi\n");
    }
    for sub in &info.commands {
        command(page, &format!("{name} {}", sub.name), &sub.command);
    }
}

/// How an option is written.
fn usage(flag: &FlagInfo) -> String {
    let mut usage = flag.short.map(|short| format!("-{short}, ")).unwrap_or_default();
    usage.push_str(flag.long);
    if let FlagInfoKind::Option { arg_name } = flag.kind {
        // (Into a string nothing can fail.)
        let _ = write!(usage, " {}", arg_name.to_uppercase());
    }
    usage
}

fn paragraph(page: &mut String, words: &str) {
    page.push_str(&format!(".PP\n{}\n", text(words)));
}

fn item(page: &mut String, head: &str, words: &str) {
    page.push_str(&format!(".TP\n.B {}\n{}\n", text(head), text(words)));
}

/// What stands for itself: no line of it is a request, no character an escape.
fn text(words: &str) -> String {
    let escaped = words.replace('\\', "\\e").replace('-', "\\-");
    let lines = escaped.lines().map(|line| match line.trim_start() {
        line if line.starts_with(['.', '\'']) => format!("\\&{line}"),
        line => line.to_owned(),
    });
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_option_is_on_the_page() {
        let ta = Ta::get_args_info();
        let page = page(&ta);
        for sub in &ta.commands {
            assert!(page.contains(&format!(".SS \"ta {}\"", text(sub.name))), "{}", sub.name);
            for flag in sub.command.flags.iter().filter(|flag| !flag.hidden) {
                assert!(page.contains(&text(flag.long)), "{} {}", sub.name, flag.long);
            }
        }
        assert!(!page.contains("{command_name}"), "examples have their names");
    }

    #[test]
    fn nothing_of_a_text_is_a_request() {
        assert_eq!(text(".TH\n\n'a\\b --x\n  .y"), "\\&.TH\n\\&'a\\eb \\-\\-x\n\\&.y");
    }
}
