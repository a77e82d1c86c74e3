//! Arguments as people write them, for a parser that takes fewer forms.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use argh::TopLevelCommand;

/// Exit code for a command line or configuration that is wrong.
pub(super) const USAGE: u8 = 2;

/// Parses the command line; `Err` is the exit code where there is nothing to run.
pub(super) fn parse<T: TopLevelCommand>(arguments: Vec<OsString>) -> Result<T, ExitCode> {
    let mut texts = Vec::with_capacity(arguments.len());
    for argument in arguments {
        match argument.into_string() {
            Ok(text) => texts.push(text),
            Err(argument) => {
                say_error(&format!("the argument {argument:?} is not UTF-8"));
                return Err(ExitCode::from(USAGE));
            }
        }
    }
    if texts.get(1).is_some_and(|first| first == "--version" || first == "-V") {
        say(&format!("ta {}\n", env!("CARGO_PKG_VERSION")));
        return Err(ExitCode::SUCCESS);
    }
    let given = split_values(texts.iter().skip(1).map(String::as_str));
    T::from_args(&["ta"], &given).map_err(|exit| match exit.status {
        Ok(()) => {
            say(&exit.output);
            ExitCode::SUCCESS
        }
        Err(()) => {
            say_error(exit.output.trim_end());
            ExitCode::from(USAGE)
        }
    })
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

/// Prints to stdout; a closed stdout is nobody's fault.
pub(super) fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Prints one message to stderr.
pub(super) fn say_error(text: &str) {
    let _ = std::io::stderr().write_all(format!("ta: {text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_are_split_off_up_to_the_double_dash() {
        let given = ["run", "--env=A=b", "-c", "x=y", "--", "--port=1", "z"];
        let expected = ["run", "--env", "A=b", "-c", "x=y", "--", "--port=1", "z"];
        assert_eq!(super::split_values(given.into_iter()), expected);
    }
}
