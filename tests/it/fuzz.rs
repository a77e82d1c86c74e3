//! Random requests against the real server. It must live, and answer a ping at the end.
//!
//! `TA_FUZZ_SEED=N` repeats a run, `TA_FUZZ_SECONDS=N` makes it longer.

use std::net::TcpListener;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use crate::support::frames::{BINARY, CONTINUATION, FIN, Frames, PING, PONG, TEXT, masked};
use crate::support::random::Random;
use crate::support::{DEADLINE, Peer, Server, Setup, TempDir, procfs};

/// Runs the body with a seed that is told when the body fails.
fn seeded(body: impl FnOnce(&mut Random, Duration)) {
    struct Tell(u64);
    impl Drop for Tell {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("--- repeat with TA_FUZZ_SEED={}", self.0);
            }
        }
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let clock = u64::from(now.subsec_nanos()) << 32 | now.as_secs() & 0xFFFF_FFFF;
    let seed = number("TA_FUZZ_SEED").unwrap_or(clock).max(1);
    let seconds = number("TA_FUZZ_SECONDS").unwrap_or(2);
    let tell = Tell(seed);
    body(&mut Random(seed), Duration::from_secs(seconds));
    drop(tell);
}

const METHODS: [&str; 23] = [
    "initialize",
    "ping",
    "process/exec",
    "process/spawn",
    "process/write",
    "process/kill",
    "process/resize",
    "process/ack",
    "net/connect",
    "net/write",
    "net/close",
    "net/ack",
    "fs/readFile",
    "fs/writeFile",
    "fs/stat",
    "fs/readdir",
    "fs/mkdir",
    "fs/remove",
    "fs/rename",
    "fs/copy",
    "fs/realpath",
    "process/nope",
    "",
];

/// Whom the server connects to: nobody who would mind.
static FAR_END: LazyLock<TcpListener> =
    LazyLock::new(|| TcpListener::bind(("127.0.0.1", 0)).unwrap());

/// Nothing here can harm the machine that runs the tests.
const COMMANDS: [&str; 4] = ["true", "echo hi", "cat", "sleep 0.01"];
const PROGRAMS: [&str; 4] = ["true", "echo", "cat", "/no/such/program"];
/// In the server's directory, which is a test's own. (No random value leads out of it either.)
const PATHS: [&str; 6] = ["f", "d", "d/f", "d/e", "d/e/f", "ä\n"];
const IDS: [&str; 4] = ["a", "b", "c", "d"];
const MEMBERS: [&str; 32] = [
    "processId",
    "command",
    "shell",
    "cwd",
    "env",
    "timeoutMs",
    "graceMs",
    "stdin",
    "mergeStderr",
    "window",
    "args",
    "pty",
    "cols",
    "rows",
    "chunk",
    "eof",
    "signal",
    "bytes",
    "path",
    "from",
    "to",
    "dataBase64",
    "append",
    "mode",
    "createParents",
    "ifVersion",
    "sync",
    "offset",
    "length",
    "recursive",
    "force",
    "followSymlinks",
];

fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 7 } else { 9 }) {
        0 => Value::Null,
        1 => json!(random.one_in(2)),
        2 => json!(random.pick(&[0_i64, 1, -1, 80, 65_535, 65_536, i64::MAX, i64::MIN])),
        3 => json!(random.pick(&[0.5, -0.0, 1e300, 1e-300, 4_294_967_296.5])),
        4 => json!(random.next()),
        5 => json!(random.pick(&["", "a", "aGk=", "SIGTERM", "é\u{0}\u{1F600}", "%%%", "-1"])),
        6 => json!("x".repeat(random.below(300))),
        7 => (0..random.below(4)).map(|_| value(random, depth - 1)).collect(),
        _ => {
            let mut object = Map::new();
            for _ in 0..random.below(4) {
                let key = (*random.pick(&["a", "", "cols", "rows", "base64", "A=B"])).to_owned();
                object.insert(key, value(random, depth - 1));
            }
            Value::Object(object)
        }
    }
}

/// Params that are right, or nearly.
fn params(random: &mut Random, method: &str) -> Value {
    let mut params = json!({"processId": random.pick(&IDS), "connectionId": random.pick(&IDS)});
    match method {
        "net/connect" if random.one_in(4) => params["path"] = json!("/no/such/socket"),
        "net/connect" => {
            params["host"] = json!(random.pick(&["127.0.0.1", "localhost", "::1"]));
            params["port"] = json!(FAR_END.local_addr().unwrap().port());
        }
        "process/exec" => params["command"] = json!(random.pick(&COMMANDS)),
        "process/spawn" => {
            params["command"] = json!(random.pick(&PROGRAMS));
            if random.one_in(4) {
                params["pty"] = json!({"cols": 1 + random.below(200), "rows": 1});
            }
        }
        "process/write" | "net/write" => {
            params["chunk"] = json!(random.pick(&["", "aGkK", "AA=="]))
        }
        "process/resize" => params["cols"] = json!(80),
        "fs/rename" | "fs/copy" => {
            params["from"] = json!(random.pick(&PATHS));
            params["to"] = json!(random.pick(&PATHS));
            params["recursive"] = json!(random.one_in(2));
        }
        name if name.starts_with("fs/") => {
            params["path"] = json!(random.pick(&PATHS));
            params["recursive"] = json!(random.one_in(2));
            params["dataBase64"] = json!(random.pick(&["", "aGkK", "AA=="]));
        }
        "process/ack" | "net/ack" => params["bytes"] = json!(random.next() >> random.below(64)),
        _ => (),
    }
    for _ in 0..random.below(3) {
        let member = *random.pick(&MEMBERS);
        // A random shell or program could be anything; these two stay harmless.
        if member == "shell" || member == "command" {
            continue;
        }
        params[member] = value(random, 2);
    }
    if params["timeoutMs"].is_null() && random.one_in(2) {
        params["timeoutMs"] = json!(1 + random.below(50));
    }
    params
}

fn message(random: &mut Random) -> String {
    let method = *random.pick(&METHODS);
    let mut message = json!({
        "jsonrpc": "2.0", "id": random.below(20), "method": method, "params": params(random, method),
    });
    match random.below(12) {
        0 => drop(message.as_object_mut().unwrap().remove("id")),
        1 => message["id"] = value(random, 1),
        2 => message["params"] = value(random, 2),
        3 => message["jsonrpc"] = value(random, 0),
        4 => message["method"] = value(random, 1),
        5 => message["result"] = value(random, 1),
        6 => message = value(random, 4),
        7 => return nested(random),
        _ => (),
    }
    message.to_string()
}

fn nested(random: &mut Random) -> String {
    let depth = random.below(3000);
    let (open, close) = *random.pick(&[("[", "]"), ("{\"a\":", "}"), ("{\"params\":", "}")]);
    let missing = random.below(2);
    format!("{}1{}", open.repeat(depth), close.repeat(depth - missing.min(depth)))
}

/// Changes some bytes of a message. Quotes and letters of a command could make another command, so
/// a mutated exec or spawn is sent only if it is no longer JSON.
fn mutated(random: &mut Random) -> Vec<u8> {
    let mut bytes = message(random).into_bytes();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, *random.pick(b"\"{}[],:\\\x00\xff\xe2")),
            3 => bytes.truncate(at),
            _ => bytes.rotate_left(at),
        }
    }
    let runs = |value: &Value| value.get("method").is_some();
    if serde_json::from_slice(&bytes).is_ok_and(|value: Value| runs(&value)) {
        return b"{".to_vec();
    }
    bytes
}

#[test]
fn the_server_outlives_random_requests_over_a_websocket() {
    seeded(|random, time| {
        let dir = TempDir::new();
        let server = in_directory(&dir).listen();
        let mut watcher = server.connect();
        let pid = watcher.server_pid();
        let end = Instant::now() + time;
        while Instant::now() < end {
            let mut frames = Frames::connect(&server);
            for _ in 0..random.below(200) {
                let bytes =
                    if random.one_in(3) { mutated(random) } else { message(random).into_bytes() };
                // The server may have closed for the one before; that is its right.
                if std::io::Write::write_all(&mut frames.stream, &frame(random, &bytes)).is_err() {
                    break;
                }
            }
        }
        assert_lives(&server, &mut watcher, pid);
    });
}

fn in_directory(dir: &TempDir) -> Setup {
    Setup::new().args(["--cwd", dir.path().to_str().unwrap()])
}

/// Mostly a whole text frame; sometimes another opcode, a fragment, or a broken head.
fn frame(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    match random.below(200) {
        0 => masked(FIN | BINARY, bytes),
        1 => masked(TEXT, bytes),
        2 => masked(FIN | CONTINUATION, bytes),
        3 => masked(u8::try_from(random.below(256)).unwrap(), bytes),
        4..10 => masked(FIN | PING, &bytes[..bytes.len().min(125)]),
        10..20 => masked(FIN | PONG, &bytes[..bytes.len().min(125)]),
        20 => bytes.to_vec(),
        _ => masked(FIN | TEXT, String::from_utf8_lossy(bytes).as_bytes()),
    }
}

#[track_caller]
fn assert_lives(server: &Server, watcher: &mut Peer, pid: u32) {
    watcher.ping();
    assert_eq!(watcher.server_pid(), pid, "it is still the same process");
    assert_eq!(server.connect().sh("echo lives").text(), "lives\n");
    assert!(!server.log.text().contains("panicked"), "a thread has panicked");
    let reaped = || procfs::zombies_of(pid).is_empty();
    crate::support::eventually(DEADLINE, "no zombie is left", reaped);
}

#[test]
fn the_server_outlives_random_lines_over_stdio() {
    seeded(|random, time| {
        let dir = TempDir::new();
        let mut peer = in_directory(&dir).stdio();
        let pid = peer.server_pid();
        let end = Instant::now() + time;
        while Instant::now() < end {
            for _ in 0..20 {
                let mut line =
                    if random.one_in(3) { mutated(random) } else { message(random).into_bytes() };
                line.push(b'\n');
                peer.pipes().write(&line, DEADLINE).unwrap();
            }
            peer.skim(Duration::from_millis(1));
        }
        let ping = r#"{"jsonrpc":"2.0","id":"the last","method":"ping"}"#;
        peer.send(ping);
        let end = Instant::now() + DEADLINE;
        while !peer.skim(Duration::from_millis(50)).contains("\"the last\"") {
            assert!(Instant::now() < end, "the last ping is not answered");
        }
        assert_eq!(procfs::serving(peer.pipes().guardian()), pid);
        assert!(!peer.log.text().contains("panicked"), "a thread has panicked");
    });
}

#[test]
fn the_server_outlives_random_heads() {
    seeded(|random, time| {
        let server = Server::start();
        let mut watcher = server.connect();
        let pid = watcher.server_pid();
        let whole = crate::support::http::upgrade_request(
            "/exec?token=x&epoch=1",
            &["Authorization: Bearer x".to_owned(), "Origin: null".to_owned()],
        );
        let end = Instant::now() + time.min(Duration::from_secs(1));
        while Instant::now() < end {
            let mut bytes = whole.clone().into_bytes();
            for _ in 0..random.below(6) {
                if bytes.is_empty() {
                    break;
                }
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
                    1 => drop(bytes.remove(at)),
                    2 => bytes.insert(at, *random.pick(b"\r\n :%?&=\x00\xff")),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            let mut stream = crate::support::http::connect(server.address);
            let _ = std::io::Write::write_all(&mut stream, &bytes);
        }
        assert_lives(&server, &mut watcher, pid);
    });
}
