//! Processes at the far end of a connection.

use std::num::NonZeroU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::dispatch::{Pending, Ticket};
use super::link::Link;
use crate::buffers;
use crate::environment::{Allowance, Answer, Control, Events, Inbox, Process, closed};
use crate::error::Result;
use crate::protocol::{
    AckParams, Empty, ExecParams, KillParams, KillResult, ProcessId, PtySize, ResizeParams,
    SignalName, SpawnParams, SpawnResult, chunk, method, rpc,
};

pub(super) fn exec(link: &Arc<Link>, params: &ExecParams) -> Result<Process> {
    let id = params.process_id.clone();
    let (sender, events) = Inbox::new(Some(link.reader()));
    let control = RemoteControl::subscribe(link, &id, params.window, sender)?;
    // From here on its id is given up by being dropped.
    let process = Process::new(control, events, params.window);
    link.request(Pending::Exec(id), Vec::with_capacity(256), |buffer, id| {
        rpc::write_request(buffer, id, method::EXEC, params);
    })?;
    Ok(process)
}

pub(super) fn spawn(link: &Arc<Link>, params: &SpawnParams) -> Result<Process> {
    let id = params.process_id.clone();
    let (sender, events) = Inbox::new(Some(link.reader()));
    let control = RemoteControl::subscribe(link, &id, params.window, sender)?;
    let mut process = Process::new(control, events, params.window);
    let SpawnResult { pid } = link.call(method::SPAWN, params)?;
    process.set_pid(pid);
    Ok(process)
}

/// What can be done with a process there. (It does not keep the connection, which is the client's.)
struct RemoteControl {
    link: Weak<Link>,
    id: ProcessId,
    ticket: Ticket,
    allowance: Arc<Allowance>,
}

impl RemoteControl {
    fn subscribe(
        link: &Arc<Link>,
        id: &ProcessId,
        window: Option<NonZeroU64>,
        events: Events,
    ) -> Result<Arc<Self>> {
        let allowance = Allowance::new(window);
        let ticket = link.dispatch().subscribe(id, events, &allowance)?;
        Ok(Arc::new(Self { link: Arc::downgrade(link), id: id.clone(), ticket, allowance }))
    }

    fn link(&self) -> Result<Arc<Link>> {
        self.link.upgrade().ok_or_else(closed)
    }
}

impl Control for RemoteControl {
    fn acknowledge(&self, bytes: u64) {
        self.allowance.acknowledge(bytes);
        let params = AckParams { process_id: self.id.clone(), bytes };
        if let Some(link) = self.link.upgrade() {
            link.notify(method::ACK, &params);
        }
    }

    fn write(&self, bytes: &[u8], eof: bool) -> Result<Answer<Empty>> {
        let buffer = buffers::for_chunk(bytes.len());
        let written = self.link()?.begin_with(buffer, |buffer, id| {
            chunk::write_stdin(buffer, id, &self.id, bytes, eof);
        });
        written.map(|(_, answer)| answer)
    }

    fn kill(&self, signal: &str, grace: Option<Duration>) -> Result<Answer<KillResult>> {
        let params = KillParams {
            process_id: self.id.clone(),
            signal: Some(SignalName::Name(signal.to_owned())),
            grace_ms: grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)),
        };
        self.link()?.begin(method::KILL, &params)
    }

    fn resize(&self, size: PtySize) -> Result<Answer<Empty>> {
        let params = ResizeParams { process_id: self.id.clone(), cols: size.cols, rows: size.rows };
        self.link()?.begin(method::RESIZE, &params)
    }

    fn leave(&self) {
        if let Some(link) = self.link.upgrade() {
            link.dispatch().unsubscribe(&self.id, self.ticket);
        }
    }
}
