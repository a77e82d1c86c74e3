//! The beginning with a server: who speaks, which revision, and what tools it has.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::message::{NEWEST, is_spoken};
use super::super::server::notification;
use super::link::Link;
use crate::error::{Error, ErrorKind, Result};
use crate::threads;

/// The most pages of a list of tools.
const MOST_PAGES: usize = 100;

impl Link {
    /// Greets it, and asks for its tools.
    pub(super) fn greet(&self, deadline: Instant) -> Result<()> {
        let hello = json!({
            "protocolVersion": NEWEST,
            "capabilities": {"roots": {"listChanged": false}},
            "clientInfo": {"name": "ta", "version": env!("CARGO_PKG_VERSION")},
        });
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Hello {
            protocol_version: String,
            capabilities: HashMap<String, Value>,
        }
        let Hello { protocol_version, capabilities } =
            self.asked("initialize", &hello, deadline)?;
        if !is_spoken(&protocol_version) {
            let message =
                format!("it speaks revision {protocol_version:?} of MCP, which ta does not");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.tell(notification("notifications/initialized", &json!({})));
        if capabilities.contains_key("tools") { self.list(deadline) } else { Ok(()) }
    }

    fn list(&self, deadline: Instant) -> Result<()> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page {
            tools: Vec<Value>,
            next_cursor: Option<String>,
        }
        let (mut all, mut cursor) = (Vec::new(), json!({}));
        for _ in 0..MOST_PAGES {
            let page: Page = self.asked("tools/list", &cursor, deadline)?;
            all.extend(page.tools);
            match page.next_cursor {
                Some(next) => cursor = json!({"cursor": next}),
                None => break,
            }
        }
        self.set_tools(all);
        Ok(())
    }

    /// Asks for the tools again: they have become others.
    pub(super) fn list_again(self: &Arc<Self>, on_change: Arc<dyn Fn() + Send + Sync>) {
        let link = Arc::clone(self);
        let _ = threads::run(move || {
            if link.list(Instant::now() + super::STARTING).is_ok() {
                on_change();
            }
        });
    }
}
