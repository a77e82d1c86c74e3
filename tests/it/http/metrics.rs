//! `GET /metrics`: what is counted, as a real parser reads it, and who may see it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{
    DEADLINE, Server, Setup, TOKEN, TempDir, binary, eventually, http, lacks, python, skipped, sys,
};

/// The numbers, by name and labels.
type Numbers = BTreeMap<String, f64>;

/// A line for each sample, by the parser of Prometheus' own library for Python.
const PARSE: &str = "
import sys
from prometheus_client.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.documentation and family.type != 'unknown', family
    for sample in family.samples:
        labels = ','.join(name + '=' + value for name, value in sorted(sample.labels.items()))
        print(sample.name, labels or '-', family.type, sample.value)
";

/// Where tests/real.sh has put that library; nothing where the test is skipped.
fn modules(test: &str) -> Option<PathBuf> {
    let test_binary = std::env::current_exe().unwrap();
    let all = test_binary.ancestors().map(|directory| directory.join("real-python"));
    let found = all.into_iter().find(|modules| modules.join("packages").is_file());
    if found.is_none() {
        skipped(test, "the parser from PyPI is not there (make test-tools installs it)");
    }
    found
}

fn numbers(server: &Server) -> Numbers {
    let answer = http::get(server.address, "/metrics");
    assert_eq!(answer.status, 200, "{answer:?}");
    plain(&answer.body)
}

/// The same by hand, which is enough where the page has been shown to be right.
fn plain(page: &str) -> Numbers {
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    let pairs = samples.map(|line| line.rsplit_once(' ').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// Waits until a number is this.
#[track_caller]
fn await_number(server: &Server, name: &str, value: f64) {
    let mut seen = None;
    let is_it = || {
        seen = numbers(server).get(name).copied();
        seen == Some(value)
    };
    eventually(DEADLINE, &format!("{name} is {value}"), is_it);
}

#[test]
fn a_real_parser_reads_the_page() {
    let Some(modules) = modules("a_real_parser_reads_the_page") else { return };
    let server = Server::start();
    let mut peer = server.connect();
    peer.sh("exit 3");
    let answer = http::get(server.address, "/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8"),
        "{answer:?}"
    );
    let mut parser = Command::new(python())
        .args(["-c", PARSE])
        .env("PYTHONPATH", modules)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    parser.stdin.take().unwrap().write_all(answer.body.as_bytes()).unwrap();
    let done = parser.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", answer.body);
    let parsed = String::from_utf8(done.stdout).unwrap();
    for line in [
        &format!("ta_build_info version={} gauge 1.0", env!("CARGO_PKG_VERSION")),
        "ta_connections - gauge 1.0",
        "ta_connections_total transport=websocket counter 1.0",
        "ta_connections_fenced_total - counter 0.0",
        "ta_refused_total reason=401 counter 0.0",
        "ta_refused_total reason=descriptors counter 0.0",
        "ta_processes_started_total kind=exec counter 1.0",
        "ta_process_start_failures_total kind=spawn counter 0.0",
        "ta_processes_ended_total how=timed_out counter 0.0",
    ] {
        assert!(parsed.lines().any(|found| found == line), "{line} is not in {parsed}");
    }
    let samples = answer.body.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(parsed.lines().count(), samples, "{parsed}");
}

#[test]
fn processes_are_counted_by_kind_and_by_how_they_ended() {
    let server = Server::start();
    let mut peer = server.connect();
    let cat = peer.spawn(json!({"command": "cat"}));
    let other = peer.spawn(json!({"command": "cat"}));
    await_number(&server, "ta_processes", 2.0);
    assert!(peer.kill(&cat));
    assert_eq!(peer.exit(&cat).signal(), Some("SIGKILL"));
    peer.sh("exit 3");
    peer.sh("kill -9 $$");
    let timed = peer.start_exec(json!({"command": "sleep 60", "timeoutMs": 50}));
    assert!(peer.finish(&timed).is("timedOut"));
    let missing = peer.call("process/spawn", &json!({"processId": "m", "command": "/no/such"}));
    assert_eq!(missing.unwrap_err().data_code(), "ENOENT");
    let in_use = json!({"processId": other, "command": "true"});
    assert!(peer.call("process/exec", &in_use).is_err());
    let now = numbers(&server);
    for (name, value) in [
        ("ta_processes", 1.0),
        ("ta_processes_started_total{kind=\"exec\"}", 3.0),
        ("ta_processes_started_total{kind=\"spawn\"}", 2.0),
        ("ta_process_start_failures_total{kind=\"exec\"}", 1.0),
        ("ta_process_start_failures_total{kind=\"spawn\"}", 1.0),
        ("ta_processes_ended_total{how=\"exited\"}", 1.0),
        ("ta_processes_ended_total{how=\"signalled\"}", 1.0),
        ("ta_processes_ended_total{how=\"timed_out\"}", 1.0),
        ("ta_processes_ended_total{how=\"killed\"}", 1.0),
    ] {
        assert_eq!(now.get(name), Some(&value), "{name}: {now:?}");
    }
    peer.hang_up();
    await_number(&server, "ta_processes_ended_total{how=\"disconnected\"}", 1.0);
    await_number(&server, "ta_processes", 0.0);
}

#[test]
fn connections_and_bytes_are_counted_while_they_are_open_and_after() {
    let server = Server::start();
    let mut peer = server.connect();
    let _other = server.connect();
    await_number(&server, "ta_connections", 2.0);
    let before = numbers(&server);
    // 100,000 bytes are 133,336 of base64, and come back as two of output.
    let bytes = crate::support::base64(vec![b'x'; 100_000]);
    peer.ok("process/exec", &json!({"processId": "p", "command": "cat", "stdin": bytes}));
    let open = numbers(&server);
    let since = |now: &Numbers, name: &str| now[name] - before[name];
    for name in ["ta_received_bytes_total", "ta_sent_bytes_total"] {
        let more = since(&open, name);
        assert!((133_336.0..140_000.0).contains(&more), "{name}: {more}");
    }
    peer.hang_up();
    await_number(&server, "ta_connections", 1.0);
    let closed = numbers(&server);
    assert_eq!(closed["ta_connections_total{transport=\"websocket\"}"], 2.0);
    for name in ["ta_received_bytes_total", "ta_sent_bytes_total"] {
        assert!(closed[name] >= open[name], "{name} of those that are closed stays");
    }
    assert!(closed["process_start_time_seconds"] > 1_600_000_000.0);
}

#[test]
fn who_is_fenced_and_who_is_refused_is_counted() {
    let server = Setup::new().args(["--max-connections", "2"]).listen();
    let address = server.address;
    let mut old = server.connect_of(5);
    old.ping();
    let new = server.connect_of(6);
    await_number(&server, "ta_connections_fenced_total", 1.0);
    await_number(&server, "ta_connections", 1.0);
    let _second = server.connect();
    let right = format!("/exec?token={TOKEN}");
    assert_eq!(http::upgrade_status(address, &right, &[]), 503);
    assert_eq!(http::upgrade_status(address, "/exec", &[]), 401);
    assert_eq!(http::upgrade_status(address, &right, &["Origin: https://x"]), 403);
    assert_eq!(http::get(address, "/nope").status, 404);
    assert_eq!(http::talk(address, "HEAD /metrics HTTP/1.1\r\n\r\n").status, 405);
    assert_eq!(http::get(address, "/exec").status, 426);
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(20_000));
    assert_eq!(http::talk(address, long).status, 431);
    assert_eq!(http::talk(address, "GET\r\n\r\n").status, 400);
    assert_eq!(http::get(address, "/healthz").status, 200);
    let now = numbers(&server);
    for (reason, count) in [
        ("400", 1.0),
        ("401", 1.0),
        ("403", 1.0),
        ("404", 1.0),
        ("405", 1.0),
        ("426", 1.0),
        ("431", 1.0),
        ("connections", 1.0),
        ("descriptors", 0.0),
        ("epoch", 0.0),
    ] {
        let name = format!("ta_refused_total{{reason=\"{reason}\"}}");
        assert_eq!(now.get(&name), Some(&count), "{name}");
    }
    drop(new);
}

/// Behind a proxy on the same machine everybody comes from a loopback address.
#[test]
fn on_loopback_no_token_is_needed_unless_a_proxy_or_another_name_is_in_between() {
    let server = Server::start();
    let ask = |target: &str, headers: &str| {
        let request = format!("GET {target} HTTP/1.1\r\n{headers}\r\n");
        http::talk(server.address, request).status
    };
    let bearer = server.authorization().unwrap();
    assert_eq!(ask("/metrics", "Host: localhost:4200\r\n"), 200);
    for header in
        ["Host: evil.example", "X-Forwarded-For: 1.2.3.4", "Via: 1.1 p", "Forwarded: for=x"]
    {
        assert_eq!(ask("/metrics", &format!("{header}\r\n")), 401, "{header}");
        assert_eq!(ask("/metrics", &format!("{header}\r\n{bearer}\r\n")), 200, "{header}");
        assert_eq!(ask(&format!("/metrics?token={TOKEN}"), &format!("{header}\r\n")), 200);
    }
    assert_eq!(ask("/metrics", "Origin: http://localhost\r\n"), 403);
    assert_eq!(ask("/metrics?token=wrong", ""), 401, "a wrong one is not overlooked");
    for method in ["HEAD", "POST", "OPTIONS"] {
        let answer = http::talk(server.address, format!("{method} /metrics HTTP/1.1\r\n\r\n"));
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET")), "{method}");
    }
}

/// In a network namespace of its own, so that nothing is open to the outside even for a moment.
#[test]
fn from_elsewhere_the_token_is_needed() {
    const NAME: &str = "from_elsewhere_the_token_is_needed";
    const ASK: &str = "
import sys, urllib.error, urllib.request
base, token = sys.argv[1:]
for path in ['/metrics', '/healthz', '/metrics?token=' + token]:
    try: print(urllib.request.urlopen(base + path).status)
    except urllib.error.HTTPError as error: print(error.code)
";
    if lacks(NAME, "ip")
        || lacks(NAME, "unshare")
        || (!sys::is_root() && skipped(NAME, "a network of its own needs root"))
    {
        return;
    }
    let script = "ip link set lo up && ip addr add 192.0.2.1/32 dev lo || exit 9
        $0 exec-server --host 192.0.2.1 --port 4200 2>$1 &
        until $0 healthcheck http://192.0.2.1:4200 2>/dev/null; do
            n=$((n+1)); [ $n -lt 200 ] || exit 8
            sleep 0.05
        done
        $2 -c \"$3\" http://192.0.2.1:4200 $TA_EXEC_TOKEN; kill $!; wait $!";
    let dir = TempDir::new();
    let log = dir.join("log");
    let done = Command::new("unshare")
        .args(["-n", "sh", "-c", script])
        .args([binary().as_os_str(), log.as_os_str()])
        .args([python(), ASK])
        .env("TA_EXEC_TOKEN", "s3cret")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&done.stdout);
    assert_eq!(stdout, "401\n200\n200\n", "{done:?}");
}
