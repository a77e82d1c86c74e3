//! systemd and its like: readiness, sockets that are open already, and what is not for children.

use std::io::{BufRead, BufReader, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt::set_socket_passcred,
};

use crate::support::{
    DEADLINE, Peer, Server, Setup, TempDir, describe, http, lacks, procfs, sys, unique,
};

/// The supervisor's end.
struct Listener {
    socket: UnixDatagram,
    name: String,
    _dir: TempDir,
}

impl Listener {
    fn by_path() -> Self {
        let dir = TempDir::new();
        let path = dir.join("notify");
        Self::new(UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned(), dir)
    }

    fn by_abstract_name() -> Self {
        let name = format!("ta-it-{}", unique());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        Self::new(socket, format!("@{name}"), TempDir::new())
    }

    fn new(socket: UnixDatagram, name: String, dir: TempDir) -> Self {
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        set_socket_passcred(&socket, true).unwrap();
        Self { socket, name, _dir: dir }
    }

    /// A server that is to tell us.
    fn setup(&self) -> Setup {
        Setup::new().env("NOTIFY_SOCKET", &self.name)
    }

    /// The next message, and the process that sent it.
    fn next(&self) -> (String, u32) {
        let mut bytes = [0; 256];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut told = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let got = recvmsg(&self.socket, &mut parts, &mut told, RecvFlags::empty());
        let count = got.expect("a message comes").bytes;
        let sender = told.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(who) => Some(who.pid.as_raw_nonzero().get()),
            _ => None,
        });
        let sender = u32::try_from(sender.expect("credentials come along")).unwrap();
        (String::from_utf8(bytes[..count].to_vec()).unwrap(), sender)
    }
}

/// systemd believes the process that it has started, and no other.
#[test]
fn the_started_process_tells_that_it_is_ready_and_that_it_stops() {
    for listener in [Listener::by_path(), Listener::by_abstract_name()] {
        let mut server = listener.setup().listen();
        assert_eq!(listener.next(), ("READY=1".to_owned(), server.guardian()));
        server.connect().ping();
        server.signal(libc::SIGTERM);
        assert_eq!(listener.next(), ("STOPPING=1".to_owned(), server.guardian()));
        server.wait(DEADLINE);
    }
}

#[test]
fn over_stdio_it_tells_too() {
    let listener = Listener::by_path();
    let mut peer = listener.setup().stdio();
    let guardian = peer.pipes().guardian();
    assert_eq!(listener.next(), ("READY=1".to_owned(), guardian));
    peer.hang_up();
    assert_eq!(listener.next(), ("STOPPING=1".to_owned(), guardian));
}

#[test]
fn a_supervisor_that_is_not_there_harms_nobody() {
    for name in ["/no/such/socket", "@no-such-name", "vsock:2:1", "x", ""] {
        let mut server = Setup::new().env("NOTIFY_SOCKET", name).listen();
        server.connect().ping();
        server.signal(libc::SIGTERM);
        let status = server.wait(DEADLINE);
        assert_eq!(status.code(), Some(0), "{name:?}: {}", describe(status));
    }
}

const VARIABLES: [(&str, &str); 6] = [
    ("NOTIFY_SOCKET", "@nobody-listens"),
    ("LISTEN_PID", "1"),
    ("LISTEN_FDS", "1"),
    ("LISTEN_FDNAMES", "exec"),
    ("WATCHDOG_USEC", "3000000"),
    ("WATCHDOG_PID", "1"),
];

fn assert_not_passed_on(peer: &mut Peer) {
    let shown = peer.sh("env").text();
    for (name, _) in VARIABLES {
        assert!(!shown.contains(&format!("{name}=")), "{name} is passed on");
    }
}

#[test]
fn what_is_meant_for_another_process_is_ignored_and_not_passed_on() {
    let setup =
        || VARIABLES.iter().fold(Setup::new(), |setup, (name, value)| setup.env(name, value));
    let server = setup().listen();
    assert_not_passed_on(&mut server.connect());
    assert_not_passed_on(&mut setup().stdio());
}

/// Opens what the first argument makes, passes it as systemd would, and becomes the server.
const ACTIVATOR: &str = "import os, socket, sys
s = socket
def tcp(family, host): return s.create_server((host, 0), family=family)
made = eval(sys.argv[1])
high = [os.dup(m.fileno() if hasattr(m, 'fileno') else m) + 0 for m in made]
high = [__import__('fcntl').fcntl(h, 0, 100) for h in high]
os.closerange(3, 100)
for n, h in enumerate(high): os.dup2(h, 3 + n)
os.closerange(100, 200)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(made)), LISTEN_FDNAMES='a')
os.execv(sys.argv[2], sys.argv[2:])";

fn activated(sockets: &str) -> Setup {
    Setup::new().under(&["python3", "-c", ACTIVATOR, sockets])
}

const BOTH: &str = "[tcp(s.AF_INET, '127.0.0.1'), tcp(s.AF_INET6, '::1')]";

/// All addresses that the server has told.
fn addresses(server: &Server, count: usize) -> Vec<std::net::SocketAddr> {
    let told = || -> Vec<_> {
        let log = server.log.text();
        let lines = log.lines().filter_map(|line| line.split_once("ws://"));
        lines.filter_map(|(_, rest)| rest.split_once("/exec")?.0.parse().ok()).collect()
    };
    crate::support::eventually(DEADLINE, "all addresses are told", || told().len() == count);
    told()
}

#[test]
fn every_socket_that_is_passed_is_served() {
    if lacks("every_socket_that_is_passed_is_served", "python3") {
        return;
    }
    let mut server = activated(BOTH).listen();
    let addresses = addresses(&server, 2);
    assert!(addresses[0].is_ipv4() && addresses[1].is_ipv6(), "{addresses:?}");
    for address in &addresses {
        assert_eq!(http::get(*address, "/healthz").status, 200, "{address}");
    }
    let mut peer = server.connect();
    assert_not_passed_on(&mut peer);
    let open = peer.sh("ls /proc/self/fd | wc -l").text();
    assert_eq!(open.trim(), "4", "0, 1, 2 and that of ls");
    assert_eq!(procfs::descriptors(server.guardian()), 1);
    // They are free when both processes have gone.
    sys::signal(server.pid(), libc::SIGKILL).unwrap();
    server.wait(DEADLINE);
    for address in addresses {
        std::net::TcpListener::bind(address).unwrap();
    }
}

#[test]
fn sockets_are_nothing_to_a_stdio_server() {
    if lacks("sockets_are_nothing_to_a_stdio_server", "python3") {
        return;
    }
    let mut peer = activated(BOTH).stdio();
    assert_not_passed_on(&mut peer);
    let mut peer = activated("os.pipe()").stdio();
    peer.ping();
}

#[test]
fn what_is_no_listening_tcp_socket_is_a_configuration_error_that_names_it() {
    if lacks("what_is_no_listening_tcp_socket_is_a_configuration_error", "python3") {
        return;
    }
    let good = "tcp(s.AF_INET, '127.0.0.1')";
    for bad in [
        "os.pipe()[0]",
        "s.socket(s.AF_INET, s.SOCK_DGRAM)",
        "s.socket(s.AF_INET, s.SOCK_STREAM)",
        "s.socketpair()[0]",
        "(lambda u: (u.bind(b'\\0ta-it-%d' % os.getpid()), u.listen(), u)[2])(s.socket(s.AF_UNIX))",
    ] {
        let refusal = activated(&format!("[{good}, {bad}]")).refused();
        assert_eq!(refusal.status.code(), Some(2), "{bad}: {}", refusal.stderr);
        assert!(refusal.stderr.contains("descriptor 4"), "{bad}: {}", refusal.stderr);
    }
    let missing = ACTIVATOR.replace("str(len(made))", "'2'");
    let setup = Setup::new().under(&["python3", "-c", &missing, &format!("[{good}]")]);
    let refusal = setup.refused();
    assert_eq!(refusal.status.code(), Some(2), "{}", refusal.stderr);
    assert!(refusal.stderr.contains("descriptor 4"), "{}", refusal.stderr);
}

#[test]
fn without_a_token_a_passed_socket_must_be_a_loopback_one() {
    if lacks("without_a_token_a_passed_socket_must_be_a_loopback_one", "python3") {
        return;
    }
    let server = activated(BOTH).without_token().listen();
    server.connect().ping();
    // (It is bound for a moment, and nobody listens behind it.)
    let open = "[tcp(s.AF_INET, '127.0.0.1'), tcp(s.AF_INET, '')]";
    let refusal = activated(open).without_token().refused();
    assert_eq!(refusal.status.code(), Some(2), "{}", refusal.stderr);
    assert!(refusal.stderr.contains("0.0.0.0"), "{}", refusal.stderr);
}

/// What a user of systemd has at hand to try it out. It takes no port 0.
#[test]
fn systemd_socket_activate_works() {
    if lacks("systemd_socket_activate_works", "systemd-socket-activate") {
        return;
    }
    // Somebody may take the port that was free a moment ago.
    let started = (0..5).find_map(|_| activate_by_systemd()).expect("a free port");
    let (mut child, address, _its_stderr) = started;
    let status = http::get(address, "/healthz").status;
    crate::support::stop(&mut child);
    assert_eq!(status, 200);
}

fn activate_by_systemd() -> Option<(Child, std::net::SocketAddr, impl BufRead)> {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut child = Command::new("systemd-socket-activate")
        .args(["-l", &address.to_string(), "--"])
        .arg(crate::support::binary())
        .arg("exec-server")
        .env_remove("TA_EXEC_TOKEN")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    if line.starts_with("Listening on") {
        return Some((child, address, stderr));
    }
    child.wait().unwrap();
    None
}

/// Both are on their way when the guardian learns that the server has gone.
#[test]
fn a_server_that_is_gone_at_once_has_told_all_there_was() {
    for _ in 0..20 {
        let listener = Listener::by_path();
        let mut peer = listener.setup().stdio();
        peer.hang_up();
        assert!(peer.pipes().wait(DEADLINE).is_some());
        assert_eq!(listener.next().0, "READY=1");
        assert_eq!(listener.next().0, "STOPPING=1");
    }
}
