//! The tools of a coding agent, over any environment: read, bash, edit, write, ls, find, grep.
//!
//! What an agent is told of them is in [`Definition`]; a call takes its arguments as JSON and answers
//! what the model is shown. Paths, `~` and relative ones too, are those of the environment, and nothing
//! is ever done anywhere else. A call takes one round trip where that can be.
//!
//! The thing to know: a tool that fails has an [`Outcome`] like any other, which says so; the model is
//! to read it and try something else.
//!
//! ```
//! use std::sync::Arc;
//! use ta_exec::environment::LocalExecEnvironment;
//! use ta_exec::tools::{Call, Content, Tool, Tools};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tools = Tools::new(Arc::new(LocalExecEnvironment::new(Some("/".into()))?));
//! let call = Call::default();
//! let cancel = call.cancel.clone(); // ends it, from any thread
//! let arguments = serde_json::value::to_raw_value(&serde_json::json!({"command": "echo $PWD; exit 3"}))?;
//! let outcome = tools.call(Tool::Bash, Some(&arguments), &call);
//! assert!(outcome.is_error);
//! assert_eq!(outcome.content, [Content::Text("/\n\nCommand exited with code 3".to_owned())]);
//! # drop(cancel);
//! # Ok(())
//! # }
//! ```

mod arguments;
mod bash;
mod cancel;
mod diff;
mod edit;
mod find;
mod grep;
mod image;
mod ls;
mod path;
mod read;
mod schema;
mod spill;
mod text;
mod truncate;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;

pub use cancel::{Cancel, OnCancel};
pub(crate) use path::to_url;
pub use schema::{Annotations, Definition, Tool};

use crate::environment::ExecEnvironment;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::{InitializeResult, ProcessId, WirePath};
use crate::sys::errno;
use crate::threads;

/// The tools, on one environment. Clones share it.
#[derive(Clone)]
pub struct Tools {
    environment: Arc<dyn ExecEnvironment>,
}

/// What goes with a call beside its arguments.
#[derive(Default)]
pub struct Call {
    /// Ends it: the command with all that has come of it, the search at its next step.
    pub cancel: Cancel,
    /// Is told how far it is, ten times a second at most.
    pub progress: Option<OnProgress>,
}

/// Takes what is told of progress, on the thread of the call.
pub type OnProgress = Box<dyn Fn(Progress<'_>) + Send + Sync>;

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Bytes of output so far.
    pub bytes: u64,
    /// The output since the last time, or the end of it where that is long.
    pub text: &'a str,
}

/// What a call has come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// For the model.
    pub content: Vec<Content>,
    /// The same facts for a program, where there are any beyond the text: of a command its exit
    /// code, of an output that was cut where all of it is.
    pub details: Option<Value>,
    /// Whether it has failed.
    pub is_error: bool,
}

/// A piece of what the model is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Text.
    Text(String),
    /// An image: its bytes and their MIME type.
    Image(Vec<u8>, &'static str),
}

impl Tools {
    /// The tools on this environment.
    #[must_use]
    pub fn new(environment: Arc<dyn ExecEnvironment>) -> Self {
        Self { environment }
    }

    /// The environment.
    #[must_use]
    pub fn environment(&self) -> &Arc<dyn ExecEnvironment> {
        &self.environment
    }

    /// Calls a tool and waits for it. Its arguments are a JSON object, as the tool's schema has it.
    #[must_use]
    pub fn call(&self, tool: Tool, arguments: Option<&RawValue>, call: &Call) -> Outcome {
        if call.cancel.is_cancelled() {
            return Failure::aborted().into();
        }
        let outcome = match tool {
            Tool::Read => read::run(self, arguments, call),
            Tool::Bash => bash::run(self, arguments, call),
            Tool::Edit => edit::run(self, arguments, call),
            Tool::Write => write::run(self, arguments),
            Tool::Ls => ls::run(self, arguments),
            Tool::Find => find::run(self, arguments, call),
            Tool::Grep => grep::run(self, arguments, call),
        };
        outcome.unwrap_or_else(Outcome::from)
    }

    fn about(&self) -> Result<InitializeResult> {
        self.environment.about()
    }

    /// A path as somebody has written it.
    fn path(&self, written: &str) -> Result<WirePath, Failure> {
        path::resolve(written, self.about()?.home.as_deref())
    }
}

impl Outcome {
    /// What has been done.
    fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text(text.into())], details: None, is_error: false }
    }

    /// All of its text.
    #[must_use]
    pub fn all_text(&self) -> String {
        let texts = self.content.iter().map(|piece| match piece {
            Content::Text(text) => text.as_str(),
            Content::Image(..) => "",
        });
        texts.collect()
    }
}

/// Why a tool could not do what it was asked to, for the model.
#[derive(Debug, PartialEq, Eq)]
struct Failure(String);

impl Failure {
    fn aborted() -> Self {
        Self("aborted".to_owned())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(match error.kind() {
            ErrorKind::Os(errno::ECANCELED) => return Self::aborted(),
            ErrorKind::ConnectionLost => {
                format!("{error} (the next call makes a new connection; look what was done)")
            }
            _ => error.message().to_owned(),
        })
    }
}

impl From<Failure> for Outcome {
    fn from(Failure(text): Failure) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }
}

/// Searches, by an id that a cancellation ends it by.
fn search<T>(
    tools: &Tools,
    id: &ProcessId,
    call: &Call,
    search: impl FnOnce(&dyn ExecEnvironment) -> Result<T>,
) -> Result<T, Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    let (environment, id, over) =
        (Arc::clone(&tools.environment), id.clone(), Arc::clone(&is_over));
    // On a thread of its own: whoever cancels does not wait for the environment.
    let end = move || drop(threads::run(move || end_search(&*environment, &id, &over)));
    let on_cancel = call.cancel.on_cancel(end);
    let found = search(&*tools.environment);
    is_over.store(true, Ordering::Relaxed);
    drop(on_cancel);
    Ok(found?)
}

/// Ends a search, which may not have begun there yet.
fn end_search(environment: &dyn ExecEnvironment, id: &ProcessId, is_over: &AtomicBool) {
    /// Until then it has been begun, or never will be.
    const TRIES: u32 = 50;
    const PAUSE: Duration = Duration::from_millis(20);
    for _ in 0..TRIES {
        if is_over.load(Ordering::Relaxed) || !matches!(environment.end_search(id), Ok(false)) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}
