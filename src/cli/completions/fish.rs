//! For fish.

use super::{Command, Flag, Operands, Value};

pub(super) fn script(commands: &[Command]) -> String {
    let mut script = "# Completions of ta for fish.\n\ncomplete -c ta -f\n".to_owned();
    let none = "-n __fish_use_subcommand";
    script.push_str(&format!("complete -c ta {none} -s h -l help -d 'Show what there is'\n"));
    script.push_str(&format!("complete -c ta {none} -s V -l version -d 'Print the version'\n"));
    for command in commands {
        let description = quoted(command.description);
        let line = format!("complete -c ta {none} -a {} -d '{description}'\n", command.name);
        script.push_str(&line);
    }
    for command in commands {
        let seen = format!("-n '__fish_seen_subcommand_from {}'", command.name);
        for flag in &command.flags {
            script.push_str(&format!("complete -c ta {seen} {}\n", option(flag)));
        }
        script.push_str(&format!("complete -c ta {seen} -s h -l help -d 'Show what there is'\n"));
        match &command.operands {
            Operands::None => {}
            Operands::Command | Operands::Files => {
                script.push_str(&format!("complete -c ta {seen} -F\n"))
            }
            Operands::Words(words) => {
                script.push_str(&format!("complete -c ta {seen} -a '{}'\n", words.join(" ")));
            }
        }
    }
    script
}

fn option(flag: &Flag) -> String {
    let short = flag.short.map(|short| format!("-s {short} ")).unwrap_or_default();
    let long = flag.long.trim_start_matches('-');
    let value = match flag.value {
        Value::None => String::new(),
        Value::File => "-r -F ".to_owned(),
        Value::Directory => "-x -a '(__fish_complete_directories)' ".to_owned(),
        Value::Words(words) => format!("-x -a '{}' ", words.join(" ")),
        Value::Any => "-x ".to_owned(),
    };
    format!("{short}-l {long} {value}-d '{}'", quoted(flag.description))
}

/// What may stand between single quotes.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', " ")
}
