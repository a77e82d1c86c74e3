//! The messages of MCP that are read or written here; the envelope is `protocol::rpc`'s.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::protocol::Base64;
use crate::tools::{Content, Outcome};

/// The revisions of the protocol that are spoken, the newest first.
const REVISIONS: [&str; 3] = ["2025-06-18", "2025-03-26", "2024-11-05"];
/// The newest.
pub(super) const NEWEST: &str = REVISIONS[0];

/// Whether this revision is spoken.
pub(super) fn is_spoken(revision: &str) -> bool {
    REVISIONS.contains(&revision)
}

/// The one to speak with somebody who wants this one.
pub(super) fn revision(wanted: Option<&str>) -> &'static str {
    let known = REVISIONS.into_iter().find(|known| Some(*known) == wanted);
    known.unwrap_or(NEWEST)
}

/// What `initialize` says.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InitializeParams<'a> {
    #[serde(borrow)]
    pub(super) protocol_version: Option<Cow<'a, str>>,
}

/// A call of a tool.
#[derive(Deserialize)]
pub(super) struct CallParams<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    progress_token: Option<&'a RawValue>,
}

impl CallParams<'_> {
    /// What progress is told under, if it is wanted.
    pub(super) fn progress_token(&self) -> Option<&RawValue> {
        let token = self.meta.as_ref()?.progress_token?;
        // (A token is a string or a number.)
        token
            .get()
            .starts_with(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
            .then_some(token)
    }
}

/// `notifications/cancelled`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CancelledParams<'a> {
    #[serde(borrow)]
    pub(super) request_id: &'a RawValue,
}

/// `notifications/progress`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ProgressParams<'a> {
    pub(super) progress_token: &'a RawValue,
    pub(super) progress: u64,
    pub(super) message: &'a str,
}

/// What a tool answers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolResult {
    content: Vec<Piece>,
    is_error: bool,
    /// For programs. It is not `structuredContent`, because some agents show that to the model in
    /// place of the content.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Value>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Piece {
    Text {
        text: String,
    },
    #[serde(rename_all = "camelCase")]
    Image {
        data: Base64,
        mime_type: &'static str,
    },
}

impl From<Outcome> for ToolResult {
    fn from(outcome: Outcome) -> Self {
        let content = outcome.content.into_iter().map(|piece| match piece {
            Content::Text(text) => Piece::Text { text },
            Content::Image(bytes, mime_type) => Piece::Image { data: Base64(bytes), mime_type },
        });
        let meta = outcome.details.map(|details| json!({"ta/details": details}));
        Self { content: content.collect(), is_error: outcome.is_error, meta }
    }
}

impl ToolResult {
    /// Of a call that could not be made.
    pub(super) fn failure(text: impl Into<String>) -> Self {
        let content = vec![Piece::Text { text: text.into() }];
        Self { content, is_error: true, meta: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_the_wanted_one_or_the_newest() {
        assert_eq!(revision(Some("2024-11-05")), "2024-11-05");
        assert_eq!(revision(Some("2025-03-26")), "2025-03-26");
        for other in [None, Some("2025-06-18"), Some("2099-01-01"), Some("")] {
            assert_eq!(revision(other), "2025-06-18");
        }
    }

    #[test]
    fn a_result_has_the_members_of_the_standard() {
        let outcome = Outcome {
            content: vec![Content::Text("a".into()), Content::Image(vec![0xff], "image/png")],
            details: Some(json!({"exitCode": 1})),
            is_error: true,
        };
        let expected = json!({
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image", "data": "/w==", "mimeType": "image/png"},
            ],
            "isError": true,
            "_meta": {"ta/details": {"exitCode": 1}},
        });
        assert_eq!(serde_json::to_value(ToolResult::from(outcome)).unwrap(), expected);
    }

    #[test]
    fn a_progress_token_is_a_string_or_a_number() {
        let token = |json: &str| {
            let text = format!("{{\"name\": \"x\", \"_meta\": {{\"progressToken\": {json}}}}}");
            let params: CallParams<'_> = serde_json::from_str(&text).unwrap();
            params.progress_token().map(|token| token.get().to_owned())
        };
        assert_eq!(token("7").as_deref(), Some("7"));
        assert_eq!(token("\"a\"").as_deref(), Some("\"a\""));
        for none in ["null", "{}", "true", "[]"] {
            assert_eq!(token(none), None, "{none}");
        }
    }
}
