//! What of an answer is compared. Errors are told in our own words: only their code and their kind are.

use serde_json::{Value, json};

/// Without members of our results that Codex's own have not: Codex passes over them.
pub(super) fn within(own: &Value, theirs: &Value) -> Value {
    match (own, theirs) {
        (Value::Object(own), Value::Object(theirs)) => {
            let shared = own
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), within(value, theirs.get(name)?))));
            // (A member that is an answer's own is one nobody passes over.)
            let is_answer = own.contains_key("id");
            if is_answer && own.keys().any(|name| !theirs.contains_key(name)) {
                return Value::Object(own.clone());
            }
            Value::Object(shared.collect())
        }
        _ => own.clone(),
    }
}

/// Without what differs from one run to the next.
pub(super) fn of(answer: &Value) -> Value {
    match answer {
        Value::String(text) => json!(plain(text)),
        Value::Array(items) => {
            let mut items: Vec<_> = items.iter().map(of).collect();
            // What is in a directory comes in the order that the file system has.
            if items.iter().all(|item| item["fileName"].is_string()) {
                items.sort_by_key(|item| item["fileName"].to_string());
            }
            json!(items)
        }
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                let value = match name.as_str() {
                    "sessionId" => json!("a session"),
                    // (Codex says 0 when it was created, but for links that are not followed.)
                    "modifiedAtMs" | "createdAtMs" => json!("a time"),
                    "message" => json!("words"),
                    _ => of(value),
                };
                (name.clone(), value)
            };
            Value::Object(members.iter().map(member).collect())
        }
        other => other.clone(),
    }
}

fn plain(text: &str) -> String {
    // Codex puts the programs that it brings first.
    if let Some(path) = text.strip_prefix("PATH=") {
        let own = path.split(':').filter(|part| !part.ends_with("/codex-path"));
        return format!("PATH={}", own.collect::<Vec<_>>().join(":"));
    }
    text.to_owned()
}
