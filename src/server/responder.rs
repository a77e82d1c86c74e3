//! The obligation to answer a request, which nobody can forget.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde_json::value::RawValue;

use super::epochs::Fence;
use crate::buffers;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::rpc;
use crate::sync::lock;
use crate::transport::{Lane, Outbox, message};

/// The most requests of one connection that may be in flight when one comes that begins something:
/// what waits to be answered costs memory, and so does its id.
const MOST_IN_FLIGHT: usize = 8192;
/// The same for one that ends something, so that what fills the connection can always be ended. It
/// may have to wait as well: for a start to be made, or for the host to read.
const MOST_WITH_ORDERS: usize = MOST_IN_FLIGHT + 1024;

/// What a request may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    /// Nothing: it is always taken.
    Never,
    /// What it ends or changes.
    ForItsTarget,
    /// A program, a disk, a far end.
    ForAnything,
}

impl Waits {
    /// How many requests there may be in flight, this one included.
    fn most_in_flight(self) -> usize {
        match self {
            Self::Never => usize::MAX,
            Self::ForItsTarget => MOST_WITH_ORDERS,
            Self::ForAnything => MOST_IN_FLIGHT,
        }
    }
}

/// How a dialect writes an error that answers a request, or none.
pub(super) type WriteError = fn(&mut Vec<u8>, Option<&RawValue>, &Error);

/// The ids of a connection's requests in flight.
#[derive(Clone)]
pub(super) struct InFlight {
    ids: Arc<Mutex<HashSet<Box<str>>>>,
    fence: Arc<Fence>,
    write_error: WriteError,
}

impl InFlight {
    pub(super) fn new(fence: &Arc<Fence>, write_error: WriteError) -> Self {
        Self { ids: Arc::default(), fence: Arc::clone(fence), write_error }
    }

    /// Answers all with this error. Whoever has to answer one of them finds it answered.
    pub(super) fn answer_all(&self, error: &Error, outbox: &Outbox) {
        let ids = std::mem::take(&mut *lock(&self.ids));
        for id in ids {
            let id: Result<Box<RawValue>, _> = RawValue::from_string(id.into_string());
            if let Ok(id) = id {
                let mut buffer = message(Vec::with_capacity(256));
                (self.write_error)(&mut buffer, Some(&id), error);
                outbox.control(buffer);
            }
        }
    }

    /// None is answered any more.
    pub(super) fn forget_all(&self) {
        lock(&self.ids).clear();
    }

    /// Takes the id out; `false` if it has been answered.
    fn take(&self, id: &RawValue) -> bool {
        lock(&self.ids).remove(id.get())
    }

    /// Takes a request in.
    ///
    /// # Errors
    /// Its id is in use; or it may have to wait, and too many do.
    pub(super) fn begin(&self, id: &RawValue, waits: Waits, outbox: &Outbox) -> Result<Responder> {
        let mut ids = lock(&self.ids);
        if ids.contains(id.get()) {
            return Err(Error::new(
                ErrorKind::InvalidRequest,
                "a request with this id is still in flight",
            ));
        }
        let most = waits.most_in_flight();
        if ids.len() >= most {
            let message = format!("{most} requests are in flight already");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        ids.insert(id.get().into());
        let in_flight = self.clone();
        Ok(Responder { id: Some(id.to_owned()), in_flight, outbox: outbox.clone() })
    }
}

/// Answers one request, once. Dropped unanswered, it answers with an error.
#[must_use]
pub(super) struct Responder {
    /// `None` once it is answered.
    id: Option<Box<RawValue>>,
    in_flight: InFlight,
    outbox: Outbox,
}

impl Responder {
    /// Answers.
    pub(super) fn send<T: Serialize>(mut self, result: &Result<T>) {
        if let Some(answer) = self.answer(result) {
            self.outbox.control(answer);
        }
    }

    /// How many bytes its id has.
    pub(super) fn id_size(&self) -> usize {
        self.id.as_ref().map_or(0, |id| id.get().len())
    }

    /// Begins an answer whose result is written by hand, in a buffer for so many bytes.
    pub(super) fn begin(&self, size: usize) -> Vec<u8> {
        let mut buffer = message(buffers::take_for(size));
        if let Some(id) = &self.id {
            rpc::begin_result(&mut buffer, id);
        }
        buffer
    }

    /// Sends an answer that was begun, among the output; waits for room there. `share` is dropped
    /// when it has been written.
    pub(super) fn finish(mut self, mut buffer: Vec<u8>, share: Box<dyn Send>) {
        if let Some(id) = self.id.take() {
            rpc::end_result(&mut buffer);
            if self.in_flight.take(&id) {
                self.outbox.bulk(buffer, share);
            }
        }
    }

    /// Answers after all output that is on its way, whoever's it is.
    pub(super) fn send_last<T: Serialize>(mut self, result: &Result<T>) {
        if let Some(answer) = self.answer(result) {
            self.outbox.after_output(answer);
        }
    }

    /// Answers after all output that has been sent through the lane.
    pub(super) fn send_after_output<T: Serialize>(mut self, result: &Result<T>, lane: &mut Lane) {
        if let Some(answer) = self.answer(result) {
            lane.send_last(answer);
        }
    }

    /// Writes the answer. From here on the id is free: the host may use it again as soon as it
    /// has read this.
    fn answer<T: Serialize>(&mut self, result: &Result<T>) -> Option<Vec<u8>> {
        let id = self.id.take()?;
        if !self.in_flight.take(&id) {
            return None;
        }
        let mut buffer = message(Vec::with_capacity(256));
        match result {
            Ok(result) => rpc::write_result(&mut buffer, &id, result),
            Err(error) => {
                // What fails behind the fence has failed because of that.
                let fenced = self.in_flight.fence.error();
                let error = fenced.as_ref().unwrap_or(error);
                (self.in_flight.write_error)(&mut buffer, Some(&id), error);
            }
        }
        Some(buffer)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        let lost = Error::new(ErrorKind::Internal, "the request was lost; its effect is unknown");
        if let Some(answer) = self.answer::<()>(&Err(lost)) {
            self.outbox.control(answer);
        }
    }
}
