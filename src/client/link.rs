//! One live connection to a server, from its first message to its end.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::dispatch::{Dispatch, Pending};
use super::turns::Turns;
use crate::environment::{Answer, Reader, closed};
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::rpc;
use crate::transport::{End, Outbox, TurnSource, message};

/// How long an answer that waits for nothing may take.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// A way that has been opened, with nobody at this end yet.
pub(crate) struct Opened {
    pub(crate) source: Box<dyn TurnSource>,
    pub(crate) outbox: Outbox,
    pub(crate) carrier: Arc<dyn Carrier>,
}

/// What carries a link.
pub(crate) trait Carrier: Send + Sync {
    /// Says goodbye and closes it, within a bounded time; also wakes whoever reads from it.
    fn close(&self, outbox: &Outbox);

    /// What is known of an end beyond what the stream itself tells.
    fn explain(&self, _end: &End) -> Option<String> {
        None
    }
}

/// One connection. It is closed when it is dropped.
pub(super) struct Link {
    outbox: Outbox,
    dispatch: Arc<Dispatch>,
    carrier: Arc<dyn Carrier>,
    turns: Arc<Turns>,
}

impl Link {
    /// Starts the thread that reads from it where no caller does.
    pub(super) fn start(
        source: Box<dyn TurnSource>,
        outbox: Outbox,
        dispatch: Arc<Dispatch>,
        carrier: Arc<dyn Carrier>,
    ) -> io::Result<Self> {
        match Turns::start(source, Arc::clone(&dispatch), Arc::clone(&carrier)) {
            Ok(turns) => Ok(Self { outbox, dispatch, carrier, turns }),
            Err(error) => {
                carrier.close(&outbox);
                Err(error)
            }
        }
    }

    /// Who reads what comes.
    pub(super) fn reader(&self) -> Weak<dyn Reader> {
        let turns: Weak<Turns> = Arc::downgrade(&self.turns);
        turns
    }

    /// Takes in what has come: its end may be there.
    pub(super) fn catch_up(&self) {
        self.turns.catch_up();
    }

    /// Why it has ended, if that is known.
    pub(super) fn ended(&self) -> Option<Error> {
        self.dispatch.ended()
    }

    pub(super) fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    pub(super) fn close(&self) {
        self.dispatch.end(&closed());
        self.carrier.close(&self.outbox);
    }

    /// Calls a method and waits for its answer.
    pub(super) fn call<R: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R> {
        self.call_until(method, params, Instant::now() + CALL_TIMEOUT)
    }

    /// The same, until then.
    pub(super) fn call_until<R: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: &impl Serialize,
        deadline: Instant,
    ) -> Result<R> {
        let start = Instant::now();
        let (id, answer) = self.begin_numbered(method, params)?;
        answer.wait_until(deadline)?.ok_or_else(|| {
            self.dispatch.forget(id);
            let seconds = start.elapsed().as_secs_f32();
            let message = format!("{method} was not answered within {seconds:.1} s");
            Error::new(ErrorKind::TimedOut, message)
        })
    }

    /// Calls a method; the answer can be waited for later, or not at all.
    pub(super) fn begin<R: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Answer<R>> {
        self.begin_numbered(method, params).map(|(_, answer)| answer)
    }

    /// The same; answers the request's id too.
    pub(super) fn begin_numbered<R: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<(u64, Answer<R>)> {
        self.begin_with(Vec::with_capacity(256), |buffer, id| {
            rpc::write_request(buffer, id, method, params);
        })
    }

    /// The same for a request that is written in another way.
    pub(super) fn begin_with<R: DeserializeOwned + Send + 'static>(
        &self,
        buffer: Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<(u64, Answer<R>)> {
        let (answering, answer) = Answer::read_by(self.reader());
        let give = move |outcome: Result<&RawValue>| {
            answering.give(outcome.and_then(rpc::result));
        };
        let id = self.request(Pending::Call(Box::new(give)), buffer, write)?;
        Ok((id, answer))
    }

    /// Sends a request; its answer goes where `pending` says.
    pub(super) fn request(
        &self,
        pending: Pending,
        buffer: Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<u64> {
        let id = self.dispatch.expect(pending)?;
        let mut buffer = message(buffer);
        write(&mut buffer, id);
        self.outbox.control(buffer);
        Ok(id)
    }

    /// Calls this when the connection ends.
    pub(super) fn when_ended(&self, tell: impl FnOnce(Error) + Send + 'static) -> Result<()> {
        // A call that is never made is told of the end as all others are.
        let give = move |outcome: Result<&RawValue>| {
            if let Err(error) = outcome {
                tell(error);
            }
        };
        self.dispatch.expect(Pending::Call(Box::new(give))).map(drop)
    }

    pub(super) fn notify(&self, method: &str, params: &impl Serialize) {
        let mut buffer = message(Vec::with_capacity(128));
        rpc::write_notification(&mut buffer, method, params);
        self.outbox.control(buffer);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}
