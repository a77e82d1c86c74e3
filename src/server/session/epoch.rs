//! The epoch of a connection: how it gets one, what it is answered once a newer host has taken over,
//! and how its end is seen to where that one waits for it.

use std::time::{Duration, Instant};

use super::super::epochs::{Member, Settled};
use super::super::responder::Responder;
use super::{ENDING, Session, UNSETTLED};
use crate::error::{Error, ErrorKind, Result};
use crate::log;
use crate::protocol::{InitializeParams, InitializeResult, method};
use crate::transport::End;

/// How often a session that has ended looks whether its effects are over.
const GLANCE: Duration = Duration::from_millis(100);

impl Session {
    /// Whether it has to leave because a newer host has taken over. Over stdio a stale host stays,
    /// and hears so from every call.
    pub(super) fn is_dismissed(&self) -> bool {
        self.fence.is_down() && !self.outbox.is_stdio()
    }

    pub(super) fn answer_as_fenced(&self) {
        if let Some(error) = self.fence.error() {
            self.in_flight.answer_all(&error, &self.outbox);
        }
    }

    /// Waits until nothing of an older host is left. Until then this one is answered nothing.
    pub(super) fn settle(&self, member: &Member, hurry: &dyn Fn() -> bool) -> Result<(), End> {
        match member.settle(hurry) {
            Settled::Yes => Ok(()),
            Settled::Fenced => Err(End::Fenced),
            Settled::Gone => Err(End::Lost("it has ended before older hosts were gone".to_owned())),
            Settled::Never => Err(UNSETTLED),
        }
    }

    /// Why no request of this method is taken now.
    pub(super) fn refusal(&self, method: &str) -> Option<Error> {
        let lacks_epoch = self.config.epochs.are_required() && self.fence.epoch().is_none();
        match self.fence.error() {
            None if lacks_epoch && method != method::INITIALIZE => Some(needs_epoch()),
            error => error,
        }
    }

    pub(super) fn initialize(
        &self,
        params: InitializeParams,
        responder: Responder,
        hurry: &dyn Fn() -> bool,
    ) {
        let joined = self.join(params.epoch, hurry);
        if self.unsettled.get() {
            // An answer, of whatever kind, would say that nothing of the older host is left.
            return self.in_flight.forget_all();
        }
        if self.fence.is_down() {
            // What it has started before it had an epoch ends with it.
            self.end_all();
            self.answer_as_fenced();
        }
        responder.send(&joined.map(|()| self.introduce(params)));
    }

    /// Takes the epoch that `initialize` brings.
    fn join(&self, epoch: Option<u64>, hurry: &dyn Fn() -> bool) -> Result<()> {
        match (epoch, self.fence.epoch()) {
            (None, None) if self.config.epochs.are_required() => Err(needs_epoch()),
            (Some(new), Some(own)) if new != own => Err(Error::params(format!(
                "epoch: this connection has the epoch {own} already, and not {new}"
            ))),
            (None, _) | (Some(_), Some(_)) => Ok(()),
            (Some(epoch), None) => {
                let member = Member::arrive(&self.config.epochs, &self.fence, epoch, hurry)?;
                // (Where there is none the fence is down.)
                let Some(member) = member else { return Err(lost()) };
                let member = self.member.get_or_init(|| member);
                self.settle(member, hurry).map_err(|end| {
                    self.unsettled.set(end == UNSETTLED);
                    lost()
                })
            }
        }
    }

    fn introduce(&self, params: InitializeParams) -> InitializeResult {
        let name = params.client_name.unwrap_or_default();
        let version = params.client_version.unwrap_or_default();
        let fields: &[log::Field<'_>] =
            &[("connection", &self.number), ("client", &name), ("version", &version)];
        log::info("initialized", fields);
        self.environment.describe(self.config.max_message_bytes, self.fence.epoch())
    }

    /// Waits until nothing of it has an effect any more, however long that takes.
    pub(in crate::server) fn see_to_the_end(&self, hurry: &dyn Fn() -> bool) {
        let mut since = Some(Instant::now());
        while !hurry() {
            if self.end_all() && self.fence.gate().finish(GLANCE) {
                self.member.get().into_iter().for_each(Member::may_leave);
                return;
            }
            if self.fence.is_down() && since.take_if(|since| since.elapsed() >= ENDING).is_some() {
                log::warn("a fenced host's effects do not end", &[("connection", &self.number)]);
            }
        }
    }
}

fn needs_epoch() -> Error {
    Error::params("epoch: missing; this server answers only hosts that give one (--require-epoch)")
}

fn lost() -> Error {
    Error::new(ErrorKind::Internal, "the connection has ended before its epoch was settled")
}
