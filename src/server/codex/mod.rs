//! The dialect of the Codex exec-server: the same processes, files and endings as ExecRpc's, asked for
//! and told in other words.
//!
//! The thing to know: what is started belongs to a session, which outlives its connection for a while
//! (`sessions`), and not to the connection.

mod commands;
mod environment;
mod files;
mod kept;
mod params;
mod process;
mod sessions;
mod uri;
mod walk;
mod wire;

pub(crate) use sessions::Sessions;

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Config;
use super::epochs::Fence;
use super::files::Files;
use super::live::Live;
use super::responder::{InFlight, Responder, Waits};
use super::session::{Ask, with, with_content};
use crate::environment::Machine;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::Empty;
use crate::protocol::lifted::{self, CHUNK, DATA};
use crate::protocol::rpc::{Invalid, Message};
use crate::transport::{End, Event, Outbox, Source, message};
use environment::Info;
use files::{Calls, Handles};
use params::{Confined, unconfined};
use sessions::Attachment;

/// What is told of who calls too early.
const PROCESS: &str = "exec";
const FILES: &str = "filesystem";
/// How long a peer that has said its last word may take nothing of what it is answered.
const PATIENCE: Duration = Duration::from_secs(10);

/// One connection's requests.
pub(super) struct Session {
    config: Arc<Config>,
    sessions: Arc<Sessions>,
    environment: Arc<Machine>,
    outbox: Outbox,
    fence: Arc<Fence>,
    in_flight: InFlight,
    files: Files,
    handles: Handles,
    /// From `initialize` on.
    attachment: OnceCell<Attachment>,
    /// It has said that it knows the answer to that.
    initialized: Cell<bool>,
    /// Reads that wait hold it.
    waiting: Arc<()>,
    live: Live,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    session_id: String,
    environment_info: Info,
}

#[derive(Serialize)]
struct Status {
    status: &'static str,
}

#[derive(Serialize)]
struct Running {
    running: bool,
}

impl Session {
    /// `None` where this dialect is not spoken.
    pub(super) fn new(
        config: &Arc<Config>,
        environment: &Arc<Machine>,
        outbox: Outbox,
        fence: Arc<Fence>,
    ) -> Option<Self> {
        Some(Self {
            sessions: Arc::clone(config.codex.as_ref()?),
            config: Arc::clone(config),
            environment: Arc::clone(environment),
            in_flight: InFlight::new(&fence, wire::write_error),
            files: Files::new(environment, config.max_message_bytes, &fence),
            handles: Handles::default(),
            outbox,
            fence,
            attachment: OnceCell::new(),
            initialized: Cell::new(false),
            waiting: Arc::new(()),
            live: Live::new(),
        })
    }

    /// Serves until the connection ends. What a peer has asked of files before it closed the connection
    /// is done, unless `hurry` says that there is no time. What it has started goes on until the answer
    /// is dropped, and for as long as [`Lingering::wait`] takes.
    pub(super) fn run(self, source: &mut dyn Source, hurry: &dyn Fn() -> bool) -> (End, Lingering) {
        let mut end = self.serve(source);
        let awaits_answers = self.outbox.has_answers() || !self.files.are_idle();
        if self.attachment.get().is_some_and(|attachment| !attachment.is_current()) {
            end = End::Lost("its session was resumed by another connection".to_owned());
        }
        if end == End::Closed && awaits_answers {
            self.files.finish(&self.outbox, hurry);
            self.outbox.drain(PATIENCE, hurry);
        }
        self.files.stop();
        (end, Lingering { attachment: self.attachment.into_inner(), _live: self.live })
    }

    fn serve(&self, source: &mut dyn Source) -> End {
        loop {
            match source.next() {
                Event::Message(text) => self.receive(text),
                Event::TooLong => self.reject(None, &self.config.too_long()),
                Event::NotText(why) => {
                    let message = format!("not UTF-8: {why}");
                    self.reject(None, &Error::new(ErrorKind::Parse, message));
                }
                Event::End(end) => return end,
            }
            // A peer that sends and does not read is heard again when it has read.
            if !self.outbox.throttle(self.config.peer_timeout) {
                return End::does_not_read();
            }
        }
    }

    fn reject(&self, id: Option<&RawValue>, error: &Error) {
        let mut buffer = message(Vec::with_capacity(256));
        wire::write_error(&mut buffer, id, error);
        self.outbox.control(buffer);
    }

    fn receive(&self, text: &str) {
        match lifted::lift_request(text, member_of) {
            Some((rest, bytes)) => self.take(&rest, Some(bytes)),
            None => self.take(text, None),
        }
    }

    /// Takes a message, and what was lifted out of it.
    fn take(&self, text: &str, lifted: Option<Vec<u8>>) {
        match wire::parse(text) {
            Ok(Message::Request { id, method, params }) => {
                let waits = match &*method {
                    "process/signal" | "process/terminate" => Waits::ForItsTarget,
                    _ => Waits::ForAnything,
                };
                match self.in_flight.begin(id, waits, &self.outbox) {
                    Ok(responder) => {
                        self.request(&method, Ask { params, lifted, responder });
                    }
                    Err(error) => self.reject(Some(id), &error),
                }
            }
            Ok(Message::Notification { method, .. }) => {
                if method == "initialized" && self.attachment.get().is_some() {
                    self.initialized.set(true);
                }
            }
            Ok(Message::Response { .. }) => {}
            Err(Invalid { id, error }) => self.reject(id, &error),
        }
    }

    /// All that there is to ask for.
    fn request(&self, method: &str, ask: Ask<'_>) {
        match method {
            "initialize" => with(ask, |p, r| self.initialize(p, r)),
            "environment/info" => self.call("environment info", ask, |Empty {}, r, _| {
                r.send(&Ok(Info::of(&self.environment)));
            }),
            "environment/status" => self.call("environment status", ask, |Empty {}, r, _| {
                r.send(&Ok(Status { status: "ready" }));
            }),
            "process/start" => self.call(PROCESS, ask, |p, r, to| self.start(p, r, to)),
            "process/read" => self.call(PROCESS, ask, |p, r, to| self.read(&p, r, to)),
            "process/write" => with_content(ask, self.readied(PROCESS, commands::write)),
            "process/signal" => self.call(PROCESS, ask, |p, r, to| commands::interrupt(&p, r, to)),
            "process/terminate" => {
                self.call(PROCESS, ask, |p, r, to| commands::terminate(&p, r, to))
            }
            "fs/readFile" => self.file(ask, |p, r, files| files.read_file(p, r)),
            "fs/writeFile" => {
                let write = |p, r, files: Calls<'_>| files.write_file(p, r);
                with_content(ask, self.readied(FILES, self.unconfined(write)));
            }
            "fs/createDirectory" => self.file(ask, |p, r, files| files.create_directory(p, r)),
            "fs/getMetadata" => self.file(ask, |p, r, files| files.metadata(p, r)),
            "fs/canonicalize" => self.file(ask, |p, r, files| files.canonicalize(p, r)),
            "fs/readDirectory" => self.file(ask, |p, r, files| files.read_directory(p, r)),
            "fs/walk" => self.file(ask, |p, r, files| files.walk(p, r)),
            "fs/remove" => self.file(ask, |p, r, files| files.remove(p, r)),
            "fs/copy" => self.file(ask, |p, r, files| files.copy(p, r)),
            "fs/open" => self.file(ask, |p, r, files| files.open(p, r)),
            "fs/readBlock" => self.call(FILES, ask, |p, r, _| self.files().read_block(&p, r)),
            "fs/writeBlock" => {
                let write = |p, r, _: &Attachment| self.files().write_block(p, r);
                with_content(ask, self.readied(FILES, write));
            }
            "fs/close" => self.call(FILES, ask, |p, r, _| self.files().close(&p, r)),
            _ => ask.responder.send::<()>(&Err(Error::new(
                ErrorKind::MethodNotFound,
                format!("there is no method `{method}` at this path (ta's own are at /exec)"),
            ))),
        }
    }

    fn files(&self) -> Calls<'_> {
        let most = self.config.max_message_bytes / 4 * 3;
        Calls { files: &self.files, handles: &self.handles, most }
    }

    /// Reads the params, and goes on where the connection has come so far.
    fn call<'a, P: Deserialize<'a>>(
        &self,
        family: &str,
        ask: Ask<'a>,
        go_on: impl FnOnce(P, Responder, &Attachment),
    ) {
        with(ask, self.readied(family, go_on));
    }

    /// The same about a file, where no sandbox is asked for.
    fn file<'a, P: Deserialize<'a> + Confined>(
        &self,
        ask: Ask<'a>,
        go_on: impl FnOnce(P, Responder, Calls<'_>),
    ) {
        with(ask, self.readied(FILES, self.unconfined(go_on)));
    }

    /// Goes on where the connection has come so far, or answers that it has not.
    fn readied<P>(
        &self,
        family: &str,
        go_on: impl FnOnce(P, Responder, &Attachment),
    ) -> impl FnOnce(P, Responder) {
        move |params, responder| match self.ready(family) {
            Ok(attachment) => go_on(params, responder, attachment),
            Err(error) => responder.send::<()>(&Err(error)),
        }
    }

    /// Goes on where no sandbox is asked for, or answers that there is none.
    fn unconfined<P: Confined>(
        &self,
        go_on: impl FnOnce(P, Responder, Calls<'_>),
    ) -> impl FnOnce(P, Responder, &Attachment) {
        move |params: P, responder, _: &Attachment| match unconfined(params.sandbox()) {
            Ok(()) => go_on(params, responder, self.files()),
            Err(error) => responder.send::<()>(&Err(error)),
        }
    }

    /// # Errors
    /// The connection has not come so far, or another has its session.
    fn ready(&self, family: &str) -> Result<&Attachment> {
        let refused = |message: String| Err(Error::new(ErrorKind::InvalidRequest, message));
        let Some(attachment) = self.attachment.get() else {
            return refused(format!("client must call initialize before using {family} methods"));
        };
        if !self.initialized.get() {
            return refused(format!("client must send initialized before using {family} methods"));
        }
        if !attachment.is_current() {
            let id = &attachment.session.id;
            return refused(format!("session {id} was resumed by another connection"));
        }
        Ok(attachment)
    }

    fn initialize(&self, params: params::Initialize, responder: Responder) {
        let attached = match (self.attachment.get(), params.resume_session_id) {
            (Some(_), _) => {
                let message = "initialize may only be sent once per connection";
                Err(Error::new(ErrorKind::InvalidRequest, message))
            }
            (None, Some(id)) => self.sessions.resume(&id, &self.fence, &self.outbox),
            (None, None) => Ok(self.sessions.begin(self.config.max_processes, &self.fence)),
        };
        match attached {
            Ok(attachment) => {
                let session_id = attachment.session.id.clone();
                let environment_info = Info::of(&self.environment);
                let _ = self.attachment.set(attachment);
                responder.send(&Ok(Initialized { session_id, environment_info }));
            }
            Err(error) => responder.send::<()>(&Err(error)),
        }
    }
}

/// Which member of a method's params may be long.
fn member_of(method: &str) -> Option<&'static str> {
    match method {
        "fs/writeFile" => Some(DATA),
        "fs/writeBlock" | "process/write" => Some(CHUNK),
        _ => None,
    }
}

/// What is left of a connection that has ended: its session, for a while.
pub(super) struct Lingering {
    attachment: Option<Attachment>,
    _live: Live,
}

impl Lingering {
    /// Waits until its client has come back on another connection, or its time is up; then it ends.
    pub(super) fn wait(self) {
        if let Some(attachment) = self.attachment {
            attachment.linger();
        }
    }
}
