//! What an agent is told of the tools: names, descriptions, schemas.

use serde::Serialize;
use serde_json::{Value, json};

/// One of the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tool {
    /// Reads a text file or an image.
    Read,
    /// Runs a command line.
    Bash,
    /// Replaces text in a file.
    Edit,
    /// Writes a file.
    Write,
    /// Lists a directory.
    Ls,
    /// Finds files by name.
    Find,
    /// Finds lines in files.
    Grep,
}

/// What an agent is told of a tool, in the members of an MCP tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// By which it is called.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// For the model.
    pub description: &'static str,
    /// The JSON schema of its arguments.
    pub input_schema: Value,
    /// What it may do.
    pub annotations: Annotations,
}

/// What a tool may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "these are MCP's members")]
pub struct Annotations {
    /// It changes nothing.
    pub read_only_hint: bool,
    /// It may remove or overwrite something.
    pub destructive_hint: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent_hint: bool,
    /// It may reach what is outside of the environment.
    pub open_world_hint: bool,
}

const LOOKS: Annotations = Annotations {
    read_only_hint: true,
    destructive_hint: false,
    idempotent_hint: true,
    open_world_hint: false,
};
const CHANGES: Annotations = Annotations { read_only_hint: false, destructive_hint: true, ..LOOKS };

impl Tool {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Bash, Self::Edit, Self::Write, Self::Ls, Self::Find, Self::Grep];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Bash => "bash",
            Self::Edit => "edit",
            Self::Write => "write",
            Self::Ls => "ls",
            Self::Find => "find",
            Self::Grep => "grep",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// What an agent is told of it.
    #[must_use]
    pub fn definition(self) -> Definition {
        let (title, description) = self.words();
        let annotations = match self {
            Self::Read | Self::Ls | Self::Find | Self::Grep => LOOKS,
            Self::Write => CHANGES,
            Self::Edit => Annotations { idempotent_hint: false, ..CHANGES },
            Self::Bash => Annotations { idempotent_hint: false, open_world_hint: true, ..CHANGES },
        };
        let input_schema = self.input_schema();
        Definition { name: self.name(), title, description, input_schema, annotations }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Read => (
                "Read a file",
                "Read a text file, or look at an image (png, jpeg, gif, webp, bmp). Shows up to 2000 \
                 lines or 50 KB from offset on; what was left out is said at the end, with the offset \
                 to go on with.",
            ),
            Self::Bash => (
                "Run a command",
                "Run a command line in the environment's shell and wait for it. stdout and stderr \
                 come together; stdin is empty. Shows the last 2000 lines or 50 KB; the whole output \
                 is then in a file that read can open. What is left running in the background lives \
                 on.",
            ),
            Self::Edit => (
                "Edit a file",
                "Replace text in a file. Each oldText must be in the file exactly once, white space \
                 and all, as the file is before any of the edits; edits must not overlap. Line ends \
                 are kept as they are. Answers a diff.",
            ),
            Self::Write => (
                "Write a file",
                "Write a file, replacing what it held. Directories above it are made.",
            ),
            Self::Ls => (
                "List a directory",
                "List a directory by name, with / after directories, hidden files too.",
            ),
            Self::Find => (
                "Find files",
                "Find files and directories by a glob, hidden ones too. A pattern without / matches a \
                 name at any depth, one with / the path from the directory on. What .gitignore \
                 names, node_modules and .git are passed over.",
            ),
            Self::Grep => (
                "Search in files",
                "Find lines that match a regular expression (Rust's syntax), as path:LINE: text. \
                 What .gitignore names, .git and binary files are passed over.",
            ),
        }
    }

    fn input_schema(self) -> Value {
        match self {
            Self::Read => object(
                json!({
                    "path": file(),
                    "offset": count("the first line, from 1 on (1)"),
                    "limit": count("the most lines (2000)"),
                }),
                &["path"],
            ),
            Self::Bash => {
                let seconds = "seconds after which it is ended (never)";
                object(
                    json!({
                        "command": text("the command line"),
                        "timeout": {"type": "number", "exclusiveMinimum": 0, "description": seconds},
                    }),
                    &["command"],
                )
            }
            Self::Edit => {
                let edit = object(
                    json!({
                        "oldText": text("what is there now, exactly"),
                        "newText": text("what takes its place"),
                    }),
                    &["oldText", "newText"],
                );
                let edits = json!({"type": "array", "items": edit, "minItems": 1,
                                   "description": "what to replace, by what"});
                object(json!({"path": file(), "edits": edits}), &["path", "edits"])
            }
            Self::Write => object(
                json!({"path": file(), "content": text("all that the file is to hold")}),
                &["path", "content"],
            ),
            Self::Ls => object(
                json!({"path": place("the directory"), "limit": count("the most entries (500)")}),
                &[],
            ),
            Self::Find => object(
                json!({
                    "pattern": text("a glob, as *.rs or src/**/test_*.py"),
                    "path": place("where to look"),
                    "limit": count("the most results (1000)"),
                }),
                &["pattern"],
            ),
            Self::Grep => object(patterns(), &["pattern"]),
        }
    }
}

/// The arguments of `grep`.
fn patterns() -> Value {
    json!({
        "pattern": text("a regular expression, or what to find with literal"),
        "path": place("a directory or a file"),
        "glob": text("only files that match this, as *.rs; with ! before it, only others"),
        "ignoreCase": {"type": "boolean", "description": "case does not count (false)"},
        "literal": {"type": "boolean", "description": "the pattern means itself (false)"},
        "context": {"type": "integer", "minimum": 0,
                    "description": "lines to show before and after each match (0)"},
        "limit": count("the most matches (100)"),
    })
}

#[expect(clippy::needless_pass_by_value, reason = "it becomes part of the value")]
fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required,
           "additionalProperties": false})
}

fn text(what: &str) -> Value {
    json!({"type": "string", "description": what})
}

fn count(what: &str) -> Value {
    json!({"type": "integer", "minimum": 1, "description": what})
}

fn file() -> Value {
    text("the file, absolute or relative to the environment's directory")
}

fn place(what: &str) -> Value {
    text(&format!("{what} (the environment's directory)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_found_by_its_name_and_describes_its_arguments() {
        for tool in Tool::ALL {
            assert_eq!(Tool::by_name(tool.name()), Some(tool));
            let schema = tool.definition().input_schema;
            let properties = schema["properties"].as_object().unwrap();
            for (name, property) in properties {
                assert!(property["description"].is_string(), "{}: {name}", tool.name());
            }
            for required in schema["required"].as_array().unwrap() {
                assert!(properties.contains_key(required.as_str().unwrap()));
            }
        }
        assert_eq!(Tool::by_name("Read"), None);
    }
}
