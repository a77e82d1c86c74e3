//! Arguments as people write them, for a parser that takes fewer forms.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::process::ExitCode;

use argh::TopLevelCommand;

use super::run;
use crate::error::Error;

/// Exit code for a command line or configuration that is wrong.
pub(super) const USAGE: u8 = 2;

/// How `ta forward` calls stdin and stdout inside; a user writes `-`, which no parser lets through.
pub(super) const STDIO: &str = "stdio";

/// Parses the command line; `Err` is the exit code where there is nothing to run.
pub(super) fn parse<T: TopLevelCommand>(mut arguments: Vec<OsString>) -> Result<T, ExitCode> {
    // `ta --help run` is `ta run --help`.
    if arguments.len() > 2 && (arguments[1] == "--help" || arguments[1] == "-h") {
        arguments.swap(1, 2);
    }
    let mut texts = Vec::with_capacity(arguments.len());
    // Its exit codes below 125 are those of commands.
    let is_run = arguments.get(1).is_some_and(|first| first == "run" || first == "mcp");
    let usage = if is_run { super::FAILED } else { USAGE };
    // Their paths may be any bytes.
    let is_files = arguments.get(1).is_some_and(|first| first == "fs" || first == "cp");
    for argument in arguments {
        match argument.into_string() {
            Ok(text) if is_files => texts.push(carry(&text.into())),
            Ok(text) => texts.push(text),
            Err(argument) if is_files => texts.push(carry(&argument)),
            Err(argument) => {
                say_error(&format!("the argument {argument:?} is not UTF-8"));
                return Err(ExitCode::from(usage));
            }
        }
    }
    if texts.get(1).is_some_and(|first| first == "--version" || first == "-V") {
        say(&format!("ta {}\n", env!("CARGO_PKG_VERSION")));
        return Err(ExitCode::SUCCESS);
    }
    if texts.get(1).is_some_and(|first| first == "help") {
        // `ta help run` is `ta run --help`.
        texts.remove(1);
        texts.push("--help".to_owned());
    }
    if texts.get(1).is_some_and(|first| first == "forward") {
        texts.iter_mut().for_each(name_stdio);
    }
    let words = texts.iter().skip(1).map(String::as_str);
    let given = match (is_run, is_files) {
        (true, _) => split_options(words),
        (_, true) => apart(split_values(words)),
        _ => split_values(words),
    };
    T::from_args(&["ta"], &given).map_err(|exit| match exit.status {
        Ok(()) => {
            say(&exit.output);
            ExitCode::SUCCESS
        }
        Err(()) => {
            let message = without_queries(exit.output.trim_end(), &given);
            let message = of_value(&message).unwrap_or(message);
            if is_files {
                let words = message.split_whitespace().collect::<Vec<_>>().join(" ");
                say_error(&escaped(&carried(&words)));
                return ExitCode::from(usage);
            }
            let name = given.first().filter(|_| is_run);
            let hint = name.map(|name| format!(" (ta {name} --help tells what there is)"));
            say_error(&format!("{message}{}", hint.unwrap_or_default()));
            ExitCode::from(usage)
        }
    })
}

/// The parser would take `-:HOST:PORT` for an option.
fn name_stdio(word: &mut String) {
    if word.starts_with("-:") {
        word.replace_range(..1, STDIO);
    }
}

/// A parser's message shows what it did not like, and the query of a URL may hold the token.
fn without_queries(message: &str, given: &[&str]) -> String {
    let shown = |message: String, word: &&str| match word.split_once('?') {
        Some((before, _)) if before.contains("://") => message.replace(word, before),
        _ => message,
    };
    given.iter().fold(message.to_owned(), shown)
}

/// The parser's message about a value, in our words: which option, which value, and what is allowed.
fn of_value(message: &str) -> Option<String> {
    let rest = message.strip_prefix("Error parsing ")?;
    let rest =
        rest.strip_prefix("option ").or_else(|| rest.strip_prefix("positional argument "))?;
    let (name, rest) = rest.strip_prefix('\'')?.split_once("' with value '")?;
    let (value, why) = rest.rsplit_once("': ")?;
    let why = match why {
        // As the standard library has it of numbers without a sign, which is what there is here.
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "it takes a whole number, 0 or more"
        }
        "number too large to fit in target type" => "the number is too large",
        other => other,
    };
    Some(format!("{name} {value:?}: {why}"))
}

/// `--name=value` becomes `--name value`, up to the first `--`.
fn split_values<'a>(arguments: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut split = Vec::new();
    let mut options = true;
    for argument in arguments {
        options = options && argument != "--";
        match argument.split_once('=') {
            Some((name, value)) if options && name.starts_with("--") => {
                split.extend([name, value]);
            }
            _ => split.push(argument),
        }
    }
    split
}

/// The same for `ta run` and `ta mcp`, up to the command: that is what follows a `--`, or begins with the
/// first word that is neither an option nor an option's value. And `-it` becomes `-i -t`.
fn split_options<'a>(arguments: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut split = Vec::new();
    let mut arguments = arguments.peekable();
    split.extend(arguments.next());
    while let Some(option) = arguments.next_if(|word| word.starts_with('-') && *word != "--") {
        match option.split_once('=') {
            Some((name, value)) if name.starts_with("--") => split.extend([name, value]),
            _ if run::SWITCHES.contains(&option) => split.push(option),
            _ if matches!(option, "-it" | "-ti") => split.extend(["-i", "-t"]),
            _ => {
                split.push(option);
                split.extend(arguments.next());
            }
        }
    }
    split.extend(arguments);
    split
}

/// `-rf` is `-r -f`, as people write it.
fn apart(words: Vec<&str>) -> Vec<&str> {
    let mut options = true;
    let apart = words.into_iter().flat_map(|word| {
        options = options && word != "--";
        match word {
            "-la" | "-al" if options => vec!["-l", "-a"],
            "-rf" | "-fr" if options => vec!["-r", "-f"],
            other => vec![other],
        }
    });
    apart.collect()
}

/// The first of 256 characters that are nobody's (the end of a plane for private use): the parser
/// takes text alone, and each stands in it for a byte that is none.
const BYTES: u32 = 0x10_ff00;

fn byte_of(character: char) -> Option<u8> {
    u32::from(character).checked_sub(BYTES).and_then(|byte| byte.try_into().ok())
}

/// An argument as text, from which [`carried`] makes the same bytes again, whatever they are.
fn carry(argument: &OsString) -> String {
    let mut text = String::new();
    let byte = |byte: &u8| char::from_u32(BYTES + u32::from(*byte));
    for chunk in argument.as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            if byte_of(character).is_none() {
                text.push(character);
            } else {
                text.extend(character.encode_utf8(&mut [0; 4]).as_bytes().iter().filter_map(byte));
            }
        }
        text.extend(chunk.invalid().iter().filter_map(byte));
    }
    text
}

/// The bytes of an argument that was carried through the parser.
fn carried(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    OsString::from_vec(bytes)
}

/// A path among the arguments of `ta fs` and `ta cp`.
pub(super) fn path(argument: &str) -> PathBuf {
    PathBuf::from(carried(argument))
}

/// Whether an argument is text, as all but paths are.
pub(super) fn is_text(argument: &str) -> bool {
    argument.chars().all(|character| byte_of(character).is_none())
}

/// A name as it may be shown: on one line, with what is no text, or would do something to a
/// terminal, as `\xff`.
pub(super) fn escaped(name: &std::ffi::OsStr) -> String {
    let mut shown = String::new();
    let hexadecimal = |bytes: &[u8], shown: &mut String| {
        bytes.iter().for_each(|byte| shown.push_str(&format!("\\x{byte:02x}")));
    };
    for chunk in name.as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => shown.push_str("\\n"),
                '\\' => shown.push_str("\\\\"),
                other if other.is_control() => {
                    hexadecimal(other.encode_utf8(&mut [0; 4]).as_bytes(), &mut shown);
                }
                other => shown.push(other),
            }
        }
        hexadecimal(chunk.invalid(), &mut shown);
    }
    shown
}

/// Prints to stdout; a closed stdout is nobody's fault. Where there is no room for it (a full disk), whoever
/// reads it later must not take it for all there was to say: that is the program's end.
pub(super) fn say(text: &str) {
    let mut stdout = io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say_error(Error::io(&error, "cannot write to stdout").message());
            std::process::exit(1);
        }
        _ => {}
    }
}

/// Prints one message to stderr. What another machine has said of it does nothing to a terminal.
pub(crate) fn say_error(text: &str) {
    let mut shown = String::from("ta: ");
    for character in text.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            other if other.is_control() => shown.extend(other.escape_default()),
            other => shown.push(other),
        }
    }
    shown.push('\n');
    let _ = io::stderr().write_all(shown.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_split_off_up_to_the_double_dash() {
        let given = ["run", "--env=A=b", "-c", "x=y", "--", "--port=1", "z"];
        let expected = ["run", "--env", "A=b", "-c", "x=y", "--", "--port=1", "z"];
        assert_eq!(split_values(given.into_iter()), expected);
        assert_eq!(split_options(given.into_iter()), expected);
    }

    #[test]
    fn a_command_of_run_is_left_as_it_is() {
        let split = |line: &'static str| split_options(line.split(' ')).join(" ");
        assert_eq!(split("run --env=A=b ls --color=auto -it"), "run --env A=b ls --color=auto -it");
        assert_eq!(split("run -it --cwd /=x -c --a=b"), "run -i -t --cwd /=x -c --a=b");
        assert_eq!(split("run --tty ls --env=A"), "run --tty ls --env=A");
        assert_eq!(split("run -i -- --env=A"), "run -i -- --env=A");
    }

    #[test]
    fn an_argument_of_any_bytes_comes_through_the_parser() {
        let native = "\u{10ff00}\u{10ffff}".as_bytes();
        for bytes in [&b"plain"[..], b"", b"a\xff\xfe", "\u{e4}".as_bytes(), native, b"\xf4\x8f"] {
            let argument = OsString::from_vec(bytes.to_vec());
            assert_eq!(carried(&carry(&argument)), argument, "{argument:?}");
        }
        assert!(
            is_text(&carry(&"\u{e4}".into())) && !is_text(&carry(&OsString::from_vec(vec![255])))
        );
        assert_eq!(escaped(&OsString::from_vec(b"a\xff\n\x1b\\".to_vec())), "a\\xff\\n\\x1b\\\\");
    }

    #[test]
    fn a_value_that_is_wrong_is_named_with_its_option() {
        for (why, told) in [
            ("invalid digit found in string", "it takes a whole number, 0 or more"),
            ("there is no 'x'", "there is no 'x'"),
        ] {
            let message = format!("Error parsing option '--count' with value 'a': {why}");
            let found = of_value(&message).unwrap();
            assert!(found.starts_with("--count \"a") && found.ends_with(told), "{found}");
        }
        assert_eq!(of_value("Unrecognized argument: --x"), None);
        assert!("x".parse::<u16>().unwrap_err().to_string() == "invalid digit found in string");
        assert!("".parse::<u16>().unwrap_err().to_string().ends_with("from empty string"));
        assert!("70000".parse::<u16>().unwrap_err().to_string().starts_with("number too large"));
    }

    #[test]
    fn a_message_shows_no_query() {
        let message = "with value 'ws://h/exec?token=s': no";
        let shown = without_queries(message, &["--exec", "ws://h/exec?token=s"]);
        assert_eq!(shown, "with value 'ws://h/exec': no");
    }
}
