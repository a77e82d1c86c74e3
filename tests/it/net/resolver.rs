//! Names, with a resolver of the test's own: the server runs where /etc/resolv.conf names it.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{ClosedPort, accept, listen};
use crate::support::{
    DEADLINE, Peer, Setup, TempDir, eventually, lacks, over_both_with, procfs, skipped, sys,
};

/// What a resolver answers to a question for IPv4 addresses.
#[derive(Clone)]
enum Answer {
    Silence,
    NoSuchName,
    Addresses(Vec<Ipv4Addr>),
}

/// A resolver on an address of its own, since its port is fixed. Stopped when it is dropped.
struct Resolver {
    files: TempDir,
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Resolver {
    fn start(answer: Answer) -> Option<Self> {
        let number = u16::try_from(std::process::id() % 60_000).unwrap();
        let [high, low] = number.to_be_bytes();
        let free = (1..250).find_map(|last| {
            let address = Ipv4Addr::new(127, high, low, last);
            Some((address, UdpSocket::bind((address, 53)).ok()?))
        });
        let (address, socket) = free?;
        let files = TempDir::new();
        let settings = format!("nameserver {address}\noptions timeout:30 attempts:1\n");
        files.write("resolv.conf", settings);
        files.write("nsswitch.conf", "hosts: files dns\n");
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let flags = (Arc::clone(&stop), Arc::clone(&asked));
        let serve = move || {
            let mut question = [0; 512];
            while !flags.0.load(Ordering::Acquire) {
                if let Ok((size, from)) = socket.recv_from(&mut question) {
                    flags.1.store(true, Ordering::Release);
                    if let Some(reply) = reply_to(&question[..size], &answer) {
                        socket.send_to(&reply, from).unwrap();
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("resolver".into()).spawn(serve).unwrap();
        Some(Self { files, stop, asked, thread: Some(thread) })
    }

    /// A server that asks this resolver.
    fn setup(&self) -> Setup {
        let mount = |name: &str| {
            let file = self.files.join(name);
            format!("{{ [ ! -e /etc/{name} ] || mount --bind {} /etc/{name}; }}", file.display())
        };
        let script =
            format!("{} && {} && exec \"$0\" \"$@\"", mount("resolv.conf"), mount("nsswitch.conf"));
        Setup::new().under(&["unshare", "-m", "sh", "-c", &script])
    }

    fn await_asked(&self) {
        eventually(DEADLINE, "the resolver is asked", || self.asked.load(Ordering::Acquire));
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.thread.take().unwrap().join();
    }
}

/// A message of RFC 1035, section 4, to a question in one.
fn reply_to(question: &[u8], answer: &Answer) -> Option<Vec<u8>> {
    let name_end = question[12..].iter().position(|byte| *byte == 0)? + 13;
    let asked = question.get(..name_end + 4)?;
    let is_ipv4 = asked[name_end..name_end + 2] == [0, 1];
    let (code, addresses): (u8, &[Ipv4Addr]) = match answer {
        Answer::Silence => return None,
        Answer::NoSuchName => (3, &[]),
        Answer::Addresses(addresses) if is_ipv4 => (0, addresses),
        Answer::Addresses(_) => (0, &[]),
    };
    let count = u8::try_from(addresses.len()).unwrap();
    let mut reply = asked.to_vec();
    reply[2..12].copy_from_slice(&[0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]);
    for address in addresses {
        reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        reply.extend_from_slice(&address.octets());
    }
    Some(reply)
}

fn with_resolver(test: &str, answer: &Answer, body: impl Fn(&Resolver, &mut Peer) + Sync) {
    if !sys::is_root() {
        skipped(test, "a mount namespace needs root");
        return;
    }
    if lacks(test, "unshare") || lacks(test, "mount") {
        return;
    }
    let Some(resolver) = Resolver::start(answer.clone()) else {
        skipped(test, "no address of loopback has port 53 free");
        return;
    };
    over_both_with(|| resolver.setup(), |peer| body(&resolver, peer));
}

#[test]
fn a_name_that_does_not_exist_is_enoent() {
    const NAME: &str = "a_name_that_does_not_exist_is_enoent";
    with_resolver(NAME, &Answer::NoSuchName, |_, peer| {
        let error = peer.connect_error(json!({"host": "no.such.name.example", "port": 80}));
        assert_eq!((error.code, error.data_code()), (-32000, "ENOENT"), "{error:?}");
        error.assert_names("no.such.name.example:80");
    });
}

#[test]
fn every_address_of_a_name_is_tried() {
    const NAME: &str = "every_address_of_a_name_is_tried";
    let addresses = [Ipv4Addr::new(127, 0, 0, 9), Ipv4Addr::LOCALHOST];
    with_resolver(NAME, &Answer::Addresses(addresses.to_vec()), |_, peer| {
        let (listener, port) = listen();
        let params = json!({"host": "two.example", "port": port});
        let (connection, remote) = peer.connect_to(params);
        assert_eq!(remote, format!("127.0.0.1:{port}"));
        drop(accept(&listener));
        peer.await_end_of_data(&connection);
        let closed = ClosedPort::new();
        let error = peer.connect_error(json!({"host": "two.example", "port": closed.port}));
        assert_eq!(error.data_code(), "ECONNREFUSED", "{error:?}");
        error.assert_names(&format!("two.example:{}", closed.port));
        error.assert_names("127.0.0.");
    });
}

#[test]
fn a_look_up_that_hangs_delays_nothing_and_is_given_up_in_time() {
    const NAME: &str = "a_look_up_that_hangs_delays_nothing_and_is_given_up_in_time";
    with_resolver(NAME, &Answer::Silence, |resolver, peer| {
        let pid = peer.server_pid();
        let since = Instant::now();
        let patient = json!({"host": "slow.example", "port": 80, "timeoutMs": 60_000});
        let hasty = json!({"host": "slow.example", "port": 80, "timeoutMs": 300});
        let (patient, connection) = peer.begin_connect(patient);
        let (hasty, _) = peer.begin_connect(hasty);
        resolver.await_asked();
        peer.ping();
        peer.sh("true").assert_success();
        let error = peer.answer(&hasty).unwrap_err();
        assert_eq!(error.data_code(), "ETIMEDOUT", "{error:?}");
        error.assert_names("slow.example:80");
        assert!(!peer.has_answer(&patient));
        assert!(peer.net_close(&connection));
        let error = peer.answer(&patient).unwrap_err();
        assert_eq!(error.data_code(), "ECONNABORTED", "{error:?}");
        assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
        // Nor is the end of the host held up, nor that of the server.
        assert!(procfs::threads(pid) > 3, "the look-ups have ended");
        peer.begin_connect(json!({"host": "slow.example", "port": 80, "timeoutMs": 60_000}));
        let since = Instant::now();
        peer.hang_up();
        peer.closed(DEADLINE);
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    });
}
