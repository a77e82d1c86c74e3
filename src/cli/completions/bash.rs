//! For bash, from 3.2 on, with or without its package of completions.

use super::{Command, Operands, Value};

const HEAD: &str = r#"# Completions of ta for bash: source <(ta completions bash)

_ta_reply() {
    local IFS=$'\n'
    COMPREPLY=($(compgen "$@"))
}

_ta_files() {
    compopt -o filenames 2>/dev/null
    _ta_reply "$1" -- "$2"
}

_ta() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local options= with_value= files= directories= operands= word i
    COMPREPLY=()
    # --name=value comes as three words.
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = && $COMP_CWORD -ge 2 ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    if [[ $COMP_CWORD -eq 1 ]]; then
"#;

const TAIL: &str = r#"        *) return ;;
    esac
    # Behind the command of another command nothing is an option of ours.
    if [[ $operands == command ]]; then
        for ((i = 2; i < COMP_CWORD; i++)); do
            word=${COMP_WORDS[i]}
            if [[ " $with_value " == *" $word "* ]]; then
                i=$((i + 1))
                [[ ${COMP_WORDS[i]} == = ]] && i=$((i + 1))
            elif [[ $word == -- || $word != -* ]]; then
                _ta_files -f "$cur"
                return
            fi
        done
    fi
    if [[ " $files " == *" $prev "* ]]; then
        _ta_files -f "$cur"
    elif [[ " $directories " == *" $prev "* ]]; then
        _ta_files -d "$cur"
    elif _ta_words "$prev"; then
        _ta_reply -W "${words// /$'\n'}" -- "$cur"
    elif [[ " $with_value " == *" $prev "* ]]; then
        return
    elif [[ $cur == -* ]]; then
        _ta_reply -W "${options// /$'\n'}" -- "$cur"
    elif [[ $operands == command || $operands == files ]]; then
        _ta_files -f "$cur"
    elif [[ -n $operands ]]; then
        _ta_reply -W "${operands// /$'\n'}" -- "$cur"
    fi
}

complete -F _ta ta
"#;

pub(super) fn script(commands: &[Command]) -> String {
    let names: Vec<_> = commands.iter().map(|command| command.name).collect();
    let mut script = words_function(commands);
    script.push_str(HEAD);
    script.push_str(&format!(
        "        _ta_reply -W $'{}\\n--help\\n--version' -- \"$cur\"\n        return\n    fi\n",
        names.join("\\n")
    ));
    script.push_str("    case ${COMP_WORDS[1]} in\n");
    for command in commands {
        let lists = [
            ("options", command.words()),
            ("with_value", command.words_with(|value| value != Value::None)),
            ("files", command.words_with(|value| value == Value::File)),
            ("directories", command.words_with(|value| value == Value::Directory)),
        ];
        script.push_str(&format!("        {})\n", command.name));
        for (name, words) in lists.iter().filter(|(_, words)| !words.is_empty()) {
            script.push_str(&format!("            {name}='{}'\n", words.join(" ")));
        }
        match &command.operands {
            Operands::None => {}
            Operands::Command => script.push_str("            operands=command\n"),
            Operands::Files => script.push_str("            operands=files\n"),
            Operands::Words(words) => {
                script.push_str(&format!("            operands='{}'\n", words.join(" ")));
            }
        }
        script.push_str("            ;;\n");
    }
    script.push_str(TAIL);
    script
}

/// Which options take one of a few words.
fn words_function(commands: &[Command]) -> String {
    let mut script = "_ta_words() {\n    case $1 in\n".to_owned();
    let mut seen = Vec::new();
    for flag in commands.iter().flat_map(|command| &command.flags) {
        if let Value::Words(words) = flag.value
            && !seen.contains(&flag.long)
        {
            seen.push(flag.long);
            let arm = format!("        {}) words='{}' ;;\n", flag.long, words.join(" "));
            script.push_str(&arm);
        }
    }
    script.push_str("        *) return 1 ;;\n    esac\n}\n\n");
    script
}
