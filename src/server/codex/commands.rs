//! `process/*`: what is asked of a session's processes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::process::{Events, Name, Record};
use super::sessions::Attachment;
use super::{Running, Session, Status, environment, params};
use crate::environment::Exact;
use crate::error::{Error, ErrorKind, Result};
use crate::log;
use crate::metrics::{self, Kind};
use crate::process::Terms;
use crate::protocol::{Empty, ProcessId};
use crate::server::account::Told;
use crate::server::responder::Responder;
use crate::server::session::reply_with;
use crate::sync::lock;
use crate::sys::pty::Size;
use crate::sys::{errno, signal};
use crate::threads;

/// A terminal's size, which cannot be changed.
const TERMINAL: Size = Size { cols: 80, rows: 24 };
/// The longest that a read waits for something.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// The most reads of a connection that wait at a time; each has a thread. One more does not wait.
const MOST_WAITING: usize = 256;

impl Session {
    pub(super) fn start(&self, params: params::Start, responder: Responder, to: &Attachment) {
        let session = &to.session;
        let prepared = params.check().and_then(|()| {
            let name = Name::new(params.process_id);
            let takes_input = params.tty || params.pipe_stdin;
            let record = Record::new(name, params.tty, takes_input, &session.total, &self.outbox);
            let command = self.environment.exact(Exact {
                argv: params.argv,
                arg0: params.arg0,
                directory: params.cwd.0,
                environment: environment::variables(
                    &self.environment,
                    params.env_policy,
                    params.env,
                ),
                pty: params.tty.then_some(TERMINAL),
                takes_input,
            })?;
            session.enter(&record)?;
            match session.family.reserve(&record.id) {
                Ok(place) => Ok((record, command, place)),
                Err(error) => {
                    session.forget(&record.name.plain);
                    Err(error)
                }
            }
        });
        let (record, command, place) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                metrics::not_started(Kind::Spawn);
                return responder.send::<()>(&Err(error));
            }
        };
        let number = place.number();
        let shown = ProcessId::try_from(record.name.plain.clone());
        let told = Told {
            connection: self.fence.number(),
            id: shown.unwrap_or_else(|_| record.id.clone()),
            kind: Kind::Spawn,
            line: log::shows_commands().then(|| command.line()),
        };
        let (forgetful, name) = (Arc::clone(session), record.name.plain.clone());
        let forget = move || forgetful.forget(&name);
        let events = Events::new(&record, place, responder, told, forget);
        let branch = session.family.start(number, &record.id, command, Terms::default(), events);
        record.of_branch(branch);
    }

    pub(super) fn read(&self, params: &params::Read, responder: Responder, to: &Attachment) {
        let Some(record) = to.session.find(&params.process_id) else {
            let message = format!("unknown process id {}", params.process_id);
            let error = Error::new(ErrorKind::UnknownProcess, message);
            return responder.send::<()>(&Err(error));
        };
        let (after, most) = (params.after_seq.unwrap_or(0), params.max_bytes);
        let wait = Duration::from_millis(params.wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
        if wait.is_zero() || Arc::weak_count(&self.waiting) >= MOST_WAITING {
            return responder.send(&Ok(record.read(after, most)));
        }
        let waiting = Arc::downgrade(&self.waiting);
        // Where there is no thread for it, the request is answered as lost.
        let _ = threads::run(move || {
            let is_wanted = || waiting.strong_count() > 0;
            responder.send(&Ok(record.await_news(after, most, wait, is_wanted)));
        });
    }
}

/// Writes to a process, without waiting for it to read.
pub(super) fn write(params: params::Write, responder: Responder, to: &Attachment) {
    let status = |status| Ok(Status { status });
    if params.write_id.is_empty() {
        return responder.send::<()>(&Err(Error::params("writeId must not be empty")));
    }
    let Some(record) = to.session.find(&params.process_id) else {
        return responder.send(&status("unknownProcess"));
    };
    if !record.takes_input || record.over_since().is_some() {
        return responder.send(&status("stdinClosed"));
    }
    if !record.is_new_write(&params.write_id) {
        return responder.send(&status("accepted"));
    }
    // Whoever of the two comes first answers: a refusal, or that it was taken.
    let responder = Arc::new(Mutex::new(Some(responder)));
    let refusing = Arc::clone(&responder);
    let reply = move |written: Result<()>| {
        let Err(error) = written else { return };
        let responder = lock(&refusing).take();
        let Some(responder) = responder else { return };
        match error.kind() {
            ErrorKind::Os(errno::EPIPE) | ErrorKind::UnknownProcess => {
                responder.send(&status("stdinClosed"));
            }
            _ => responder.send::<()>(&Err(error)),
        }
    };
    to.session.family.write(&record.id, params.chunk.0, false, Box::new(reply));
    let responder = lock(&responder).take();
    if let Some(responder) = responder {
        responder.send(&status("accepted"));
    }
}

pub(super) fn interrupt(params: &params::Signal, responder: Responder, to: &Attachment) {
    match to.session.find(&params.process_id) {
        Some(record) => {
            let reply = reply_with(responder, |_| Empty {});
            to.session.family.kill(&record.id, signal::INT, None, reply);
        }
        None => responder.send(&Ok(Empty {})),
    }
}

pub(super) fn terminate(params: &params::Terminate, responder: Responder, to: &Attachment) {
    let Some(record) = to.session.find(&params.process_id) else {
        return responder.send(&Ok(Running { running: false }));
    };
    if record.over_since().is_none() {
        let reply = reply_with(responder, |running| Running { running });
        return to.session.family.kill(&record.id, signal::KILL, None, reply);
    }
    if let Some((branch, group)) = record.say_goodbye() {
        // (Without a thread it ends with its session.)
        let _ = threads::run(move || branch.end(&group));
    }
    responder.send(&Ok(Running { running: false }));
}
