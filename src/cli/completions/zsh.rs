//! For zsh, to be sourced or put into a directory of $fpath as `_ta`.

use super::{Command, Flag, Operands, Value};

pub(super) fn script(commands: &[Command]) -> String {
    let mut script = "#compdef ta\n\n_ta() {\n    local -a commands\n    commands=(\n".to_owned();
    for command in commands {
        let description = quoted(&command.description.replace(':', "\\:"));
        script.push_str(&format!("        '{}:{description}'\n", command.name));
    }
    script.push_str(
        "    )\n    if (( CURRENT == 2 )); then\n        _describe -t commands command commands\n        \
         _arguments '--help[show what there is]' '--version[print the version]'\n        return\n    fi\n    \
         local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n",
    );
    for command in commands {
        script.push_str(&format!("        {})\n            _arguments -s \\\n", command.name));
        for flag in &command.flags {
            for word in flag.words() {
                script.push_str(&format!("                '{}' \\\n", option(flag, &word)));
            }
        }
        script.push_str("                '(- *)'{-h,--help}'[show what there is]'");
        match &command.operands {
            Operands::None => {}
            Operands::Command => script.push_str(" \\\n                '*::command:_files'"),
            Operands::Files => script.push_str(" \\\n                '*:file:_files'"),
            Operands::Words(words) => {
                script.push_str(&format!(" \\\n                '1:word:({})'", words.join(" ")));
            }
        }
        script.push_str("\n            ;;\n");
    }
    script.push_str("    esac\n}\n\n");
    script.push_str(
        "if [[ $funcstack[1] == _ta ]]; then\n    _ta \"$@\"\nelse\n    compdef _ta ta\nfi\n",
    );
    script
}

/// An option as _arguments takes it; any may be given again.
fn option(flag: &Flag, word: &str) -> String {
    let description: String =
        flag.description.chars().fold(String::new(), |mut text, character| {
            if matches!(character, '[' | ']' | '\\') {
                text.push('\\');
            }
            text.push(if character == '\n' { ' ' } else { character });
            text
        });
    let description = quoted(&description);
    let name = flag.long.trim_start_matches('-');
    let equals = if word.starts_with("--") && flag.value != Value::None { "=" } else { "" };
    let value = match flag.value {
        Value::None => String::new(),
        Value::File => format!(":{name}:_files"),
        Value::Directory => format!(":{name}:_files -/"),
        Value::Words(words) => format!(":{name}:({})", words.join(" ")),
        Value::Any => format!(":{name}: "),
    };
    format!("*{word}{equals}[{description}]{value}")
}

/// What may stand between single quotes.
fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''")
}
