//! The tools of the library, over every kind of environment: what a model is shown is the same
//! everywhere.

mod bash;
mod changes;
mod looks;
mod reads;
mod trips;

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::to_raw_value;
use ta_exec::tools::{Call, Outcome, Tool, Tools};

use crate::conformance::over_all_places;
use crate::support::TempDir;

/// Runs one body over all environments, each with a directory of its own.
#[track_caller]
fn over_all<T: Debug + PartialEq + Send>(body: impl Fn(&Tools, &TempDir) -> T + Sync) {
    over_all_places(|place| body(&Tools::new(Arc::from(place.take())), place.dir()));
}

fn outcome(tools: &Tools, tool: Tool, arguments: &Value) -> Outcome {
    outcome_of(tools, tool, arguments, &Call::default())
}

fn outcome_of(tools: &Tools, tool: Tool, arguments: &Value, call: &Call) -> Outcome {
    tools.call(tool, Some(&to_raw_value(arguments).unwrap()), call)
}

/// What a model is shown, with the environment's directory as `DIR`.
fn shown(tools: &Tools, tool: Tool, arguments: &Value) -> Result<String, String> {
    let outcome = outcome(tools, tool, arguments);
    let text = outcome.all_text().replace(tools.environment().cwd().to_str().unwrap(), "DIR");
    if outcome.is_error { Err(text) } else { Ok(text) }
}

#[test]
fn wrong_arguments_are_told_to_the_model() {
    over_all(|tools, _| {
        let wrong = [
            (Tool::Read, serde_json::json!({}), "path"),
            (Tool::Read, serde_json::json!({"path": "a", "limit": 0}), "limit"),
            (Tool::Bash, serde_json::json!({"command": 1}), "command"),
            (Tool::Bash, serde_json::json!({"command": "true", "timeout": -1}), "timeout"),
            (Tool::Edit, serde_json::json!({"path": "a", "edits": [{"oldText": "x"}]}), "newText"),
            (Tool::Grep, serde_json::json!({"pattern": "("}), "("),
        ];
        wrong.map(|(tool, arguments, part)| {
            let text = shown(tools, tool, &arguments).unwrap_err();
            assert!(text.contains(part), "{text}");
            text
        })
    });
}
