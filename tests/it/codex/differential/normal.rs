//! What of an answer is compared. Errors are told in our own words: only their code and their kind are.

use serde_json::{Value, json};

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
