//! What is counted, and how it is told: `GET /metrics`, in Prometheus' text format 0.0.4.
//!
//! The numbers are the program's, as its log is. What happens often (bytes) is counted by each
//! connection for itself, and added up when somebody asks.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::sync::lock;
use crate::sys;

/// What one connection has carried and started.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    received: AtomicU64,
    sent: AtomicU64,
    processes: AtomicU64,
}

impl Traffic {
    /// So many bytes have come.
    pub(crate) fn receive(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
    }

    /// So many bytes have been taken by the stream.
    pub(crate) fn send(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    /// Bytes that have come: frames, line feeds and all.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    /// Bytes that have been sent; it changes while the peer takes something.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// Processes that have been started.
    pub(crate) fn processes(&self) -> u64 {
        self.processes.load(Relaxed)
    }
}

/// Why a connection is answered and not upgraded: the status, or where that is 503, what there was
/// too little of.
const REASONS: [&str; 10] =
    ["400", "401", "403", "404", "405", "426", "431", "connections", "descriptors", "epoch"];

/// How a process was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Exec,
    Spawn,
}

impl Kind {
    /// Its name, as logs and metrics have it.
    pub(crate) fn name(self) -> &'static str {
        KINDS[self as usize]
    }
}

const KINDS: [&str; 2] = ["exec", "spawn"];

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By itself, with a code.
    Exited,
    /// By a signal that the host had not asked for.
    Signalled,
    /// Its time was up.
    TimedOut,
    /// By a signal, after the host had asked for one.
    Killed,
    /// With its connection.
    Disconnected,
}

const HOWS: [&str; 5] = ["exited", "signalled", "timed_out", "killed", "disconnected"];

/// A count for each value of a label.
type Counts<const N: usize> = [AtomicU64; N];

static FENCED: AtomicU64 = AtomicU64::new(0);
static REFUSED: Counts<10> = [const { AtomicU64::new(0) }; 10];
static STARTED: Counts<2> = [const { AtomicU64::new(0) }; 2];
static NOT_STARTED: Counts<2> = [const { AtomicU64::new(0) }; 2];
static ENDED: Counts<5> = [const { AtomicU64::new(0) }; 5];
static CONNECTIONS: Mutex<Connections> =
    Mutex::new(Connections { next: 0, open: BTreeMap::new(), received: 0, sent: 0 });

/// The open connections, and the bytes of those that are not.
struct Connections {
    next: u64,
    open: BTreeMap<u64, Arc<Traffic>>,
    received: u64,
    sent: u64,
}

/// Counts a connection as open while it lives.
#[derive(Debug)]
pub(crate) struct Connection(u64);

impl Connection {
    /// One more.
    pub(crate) fn open(traffic: &Arc<Traffic>) -> Self {
        let mut all = lock(&CONNECTIONS);
        let number = all.next;
        all.next += 1;
        all.open.insert(number, Arc::clone(traffic));
        Self(number)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut all = lock(&CONNECTIONS);
        if let Some(traffic) = all.open.remove(&self.0) {
            all.received += traffic.received();
            all.sent += traffic.sent();
        }
    }
}

/// Counts a process as live while it lives.
#[derive(Debug)]
pub(crate) struct Process {
    how: How,
}

impl Process {
    /// One more has been started.
    pub(crate) fn start(kind: Kind, traffic: &Traffic) -> Self {
        STARTED[kind as usize].fetch_add(1, Relaxed);
        traffic.processes.fetch_add(1, Relaxed);
        Self { how: How::Disconnected }
    }

    /// It has ended in this way.
    pub(crate) fn end(mut self, how: How) {
        self.how = how;
    }
}

/// (What nobody has told the end of has ended with its connection.)
impl Drop for Process {
    fn drop(&mut self) {
        ENDED[self.how as usize].fetch_add(1, Relaxed);
    }
}

/// Takes note of when the program started. Without /proc that is now.
pub(crate) fn begin() {
    let _ = sys::host::start_time_ms();
}

/// A process could not be started.
pub(crate) fn not_started(kind: Kind) {
    NOT_STARTED[kind as usize].fetch_add(1, Relaxed);
}

/// A connection has been closed because a newer host has taken over.
pub(crate) fn fenced() {
    FENCED.fetch_add(1, Relaxed);
}

/// A connection was turned away, for one of these [`REASONS`].
pub(crate) fn refused(reason: &str) {
    let place = REASONS.iter().position(|known| *known == reason);
    if let Some(count) = place.and_then(|place| REFUSED.get(place)) {
        count.fetch_add(1, Relaxed);
    }
}

/// All of it, for whoever asks.
pub(crate) fn render() -> String {
    let all = lock(&CONNECTIONS);
    let sum = |own: u64, of: fn(&Traffic) -> u64| {
        all.open.values().fold(own, |sum, traffic| sum + of(traffic))
    };
    let received = sum(all.received, Traffic::received);
    let sent = sum(all.sent, Traffic::sent);
    let (open, ever) = (all.open.len() as u64, all.next);
    drop(all);
    // (The ends first: a process that starts and ends meanwhile must not be less than none.)
    let ended = values(HOWS, &ENDED);
    let started = values(KINDS, &STARTED);
    let total = |counts: &[(&str, u64)]| counts.iter().fold(0, |sum, (_, count)| sum + count);
    let live = total(&started).saturating_sub(total(&ended));
    let mut page = Page(String::with_capacity(4096));
    page.family("ta_build_info", "gauge", "What runs here.");
    page.labelled("ta_build_info", "version", &[(env!("CARGO_PKG_VERSION"), 1)]);
    page.start_time();
    page.plain("ta_connections", "gauge", "Connections that are open.", open);
    page.family("ta_connections_total", "counter", "Connections that have been opened.");
    page.labelled("ta_connections_total", "transport", &[("websocket", ever)]);
    let help = "Connections closed because a host with a newer epoch has taken over.";
    page.plain("ta_connections_fenced_total", "counter", help, FENCED.load(Relaxed));
    page.family("ta_refused_total", "counter", "Requests and connections that were turned away.");
    page.labelled("ta_refused_total", "reason", &values(REASONS, &REFUSED));
    page.plain("ta_processes", "gauge", "Processes that live.", live);
    page.family("ta_processes_started_total", "counter", "Processes that were started.");
    page.labelled("ta_processes_started_total", "kind", &started);
    page.family("ta_process_start_failures_total", "counter", "Processes that were not started.");
    page.labelled("ta_process_start_failures_total", "kind", &values(KINDS, &NOT_STARTED));
    page.family("ta_processes_ended_total", "counter", "Processes that have ended, by how.");
    page.labelled("ta_processes_ended_total", "how", &ended);
    let help = "Bytes that have come over connections.";
    page.plain("ta_received_bytes_total", "counter", help, received);
    let help = "Bytes that have been sent over connections.";
    page.plain("ta_sent_bytes_total", "counter", help, sent);
    page.0
}

fn values<const N: usize>(
    names: [&'static str; N],
    counts: &Counts<N>,
) -> Vec<(&'static str, u64)> {
    names.into_iter().zip(counts.iter().map(|count| count.load(Relaxed))).collect()
}

/// The page while it is written. (Nothing on it needs to be escaped.)
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn plain(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.family(name, kind, help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    fn labelled(&mut self, name: &str, label: &str, values: &[(&str, u64)]) {
        for (of, value) in values {
            let _ = writeln!(self.0, "{name}{{{label}=\"{of}\"}} {value}");
        }
    }

    /// Under the name that Prometheus' own libraries give it.
    fn start_time(&mut self) {
        const NAME: &str = "process_start_time_seconds";
        self.family(NAME, "gauge", "When the server was started, in seconds since 1970.");
        let started = sys::host::start_time_ms();
        let _ = writeln!(self.0, "{NAME} {}.{:03}", started / 1000, started % 1000);
    }
}
