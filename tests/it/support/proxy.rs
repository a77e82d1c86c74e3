//! What stands between a client and a server and makes trouble, at a byte of one's choice.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::wire::is_timeout;
use super::{DEADLINE, sys};

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// What happens when so many bytes have passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Act {
    /// Both connections are closed.
    Cut,
    /// Both are reset.
    Reset,
    /// No more comes this way, and the receiver is told; the other way goes on.
    HalfClose,
    /// No more comes this way, and nobody is told.
    Stall,
    /// What follows comes later.
    Delay(Duration),
    /// What follows comes byte by byte.
    Split,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) way: Way,
    pub(crate) at: usize,
    pub(crate) act: Act,
}

/// What has passed on one connection. (Of each way the first MiB is kept.)
#[derive(Clone, Default)]
pub(crate) struct Passed {
    pub(crate) up: Vec<u8>,
    pub(crate) down: Vec<u8>,
    /// Bytes down, those included that are not kept.
    pub(crate) down_count: usize,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: Mutex<SocketAddr>,
    /// For the next connection.
    fault: Mutex<Option<Fault>>,
    /// Every connection is closed as soon as it is there.
    refusing: AtomicBool,
    over: AtomicBool,
    connections: Mutex<Vec<Arc<Connection>>>,
}

struct Connection {
    cut: AtomicBool,
    passed: Mutex<Passed>,
}

impl Proxy {
    pub(crate) fn to(upstream: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            fault: Mutex::default(),
            refusing: AtomicBool::new(false),
            over: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        let accept = move || accepting.accept(&listener);
        thread::Builder::new().name("proxy".into()).spawn(accept).unwrap();
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}/exec", self.address)
    }

    /// Makes trouble on the next connection, and on that alone.
    pub(crate) fn fault_next(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap() = Some(fault);
    }

    pub(crate) fn refuse(&self, refusing: bool) {
        self.shared.refusing.store(refusing, Ordering::SeqCst);
    }

    pub(crate) fn lead_to(&self, upstream: SocketAddr) {
        *self.shared.upstream.lock().unwrap() = upstream;
    }

    /// Cuts whatever is connected.
    pub(crate) fn cut(&self) {
        for connection in self.shared.connections.lock().unwrap().iter() {
            connection.cut.store(true, Ordering::SeqCst);
        }
    }

    /// How many connections have come.
    pub(crate) fn count(&self) -> usize {
        self.shared.connections.lock().unwrap().len()
    }

    /// What has passed on the connection of this number.
    pub(crate) fn passed(&self, number: usize) -> Passed {
        self.shared.connections.lock().unwrap()[number].passed.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.cut();
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn accept(&self, listener: &TcpListener) {
        for near in listener.incoming().map_while(Result::ok) {
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let connection =
                Arc::new(Connection { cut: AtomicBool::new(false), passed: Mutex::default() });
            self.connections.lock().unwrap().push(Arc::clone(&connection));
            if self.refusing.load(Ordering::SeqCst) {
                continue;
            }
            let fault = self.fault.lock().unwrap().take();
            let upstream = *self.upstream.lock().unwrap();
            let Ok(far) = TcpStream::connect(upstream) else { continue };
            let (near, far) = (Arc::new(near), Arc::new(far));
            for (way, from, to) in [(Way::Up, &near, &far), (Way::Down, &far, &near)] {
                let fault = fault.filter(|fault| fault.way == way);
                let (from, to) = (Arc::clone(from), Arc::clone(to));
                let pump = Pump { way, from, to, fault, passed: 0, split: false };
                let connection = Arc::clone(&connection);
                thread::Builder::new().spawn(move || pump.run(&connection)).unwrap();
            }
        }
    }
}

/// One direction of one connection.
struct Pump {
    way: Way,
    from: Arc<TcpStream>,
    to: Arc<TcpStream>,
    fault: Option<Fault>,
    passed: usize,
    split: bool,
}

impl Pump {
    fn run(mut self, connection: &Connection) {
        const GLANCE: Duration = Duration::from_millis(5);
        self.from.set_read_timeout(Some(GLANCE)).unwrap();
        self.to.set_nodelay(true).unwrap();
        self.to.set_write_timeout(Some(DEADLINE)).unwrap();
        let mut buffer = [0; 16 * 1024];
        while !connection.cut.load(Ordering::SeqCst) {
            if self.fault.is_some_and(|fault| fault.at <= self.passed) && !self.act(connection) {
                continue;
            }
            let room = self.fault.map_or(buffer.len(), |fault| fault.at - self.passed);
            let room = room.min(buffer.len());
            match self.from.as_ref().read(&mut buffer[..room]) {
                Ok(0) => {
                    let _ = self.to.shutdown(Shutdown::Write);
                    return;
                }
                Ok(count) => {
                    self.record(connection, &buffer[..count]);
                    if !self.pass(&buffer[..count]) {
                        break;
                    }
                }
                Err(error) if is_timeout(&error) => (),
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(_) => break,
            }
        }
        connection.cut.store(true, Ordering::SeqCst);
        let _ = self.from.shutdown(Shutdown::Read);
    }

    /// Makes the trouble. Whether it goes on after that.
    fn act(&mut self, connection: &Connection) -> bool {
        let Some(fault) = self.fault.take() else { return true };
        match fault.act {
            Act::Cut => connection.cut.store(true, Ordering::SeqCst),
            Act::Reset => {
                sys::reset_on_close(&self.from);
                sys::reset_on_close(&self.to);
                connection.cut.store(true, Ordering::SeqCst);
            }
            Act::HalfClose | Act::Stall => {
                if fault.act == Act::HalfClose {
                    let _ = self.to.shutdown(Shutdown::Write);
                }
                while !connection.cut.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            Act::Delay(time) => thread::sleep(time),
            Act::Split => self.split = true,
        }
        !connection.cut.load(Ordering::SeqCst)
    }

    fn pass(&self, bytes: &[u8]) -> bool {
        let step = if self.split { 1 } else { bytes.len() };
        bytes.chunks(step).all(|part| self.to.as_ref().write_all(part).is_ok())
    }

    fn record(&mut self, connection: &Connection, bytes: &[u8]) {
        const KEPT: usize = 1 << 20;
        self.passed += bytes.len();
        let mut passed = connection.passed.lock().unwrap();
        let kept = match self.way {
            Way::Up => &mut passed.up,
            Way::Down => &mut passed.down,
        };
        let room = KEPT.saturating_sub(kept.len()).min(bytes.len());
        kept.extend_from_slice(&bytes[..room]);
        if self.way == Way::Down {
            passed.down_count += bytes.len();
        }
    }
}

/// The head of an HTTP message, and what follows it.
pub(crate) fn after_head(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
    bytes.split_at(end)
}

/// What a client has sent in frames, without its masks.
pub(crate) fn unmasked_payloads(mut frames: &[u8]) -> Vec<u8> {
    let mut payloads = Vec::new();
    while let [_, second, rest @ ..] = frames {
        let (length, rest) = match second & 0x7f {
            126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
            127 => {
                let length = u64::from_be_bytes(*rest.first_chunk().unwrap());
                (usize::try_from(length).unwrap(), &rest[8..])
            }
            short => (usize::from(short), rest),
        };
        let (mask, rest) = rest.split_at(4);
        let (payload, rest) = rest.split_at(length);
        payloads.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frames = rest;
    }
    payloads
}
