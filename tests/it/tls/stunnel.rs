//! Through stunnel, which passes bytes on as they are: what TLS itself has to stand.

use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use ta_exec::ErrorKind;
use ta_exec::protocol::{ExecParams, ReadFileParams, SpawnParams, WirePath, WriteFileParams};

use super::authority::Authority;
use super::front::{Front, Kind};
use super::{client, command, options};
use crate::client::{finish, within};
use crate::support::proxy::{Act, Fault, Passed, Proxy, Way};
use crate::support::{DEADLINE, Server, TOKEN, TempDir, eventually};

const KIND: Kind = Kind::Stunnel;

struct Site {
    authority: Authority,
    _server: Server,
    front: Front,
}

impl Site {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(changes: &[(&str, &str)]) -> Self {
        let (authority, server) = (Authority::new(), Server::start());
        let certificate = authority.certify("DNS:localhost");
        let front = Front::start_with(KIND, server.address, &certificate, changes);
        Self { authority, _server: server, front }
    }

    /// A way through a proxy that makes trouble.
    fn proxied(&self) -> (Proxy, String) {
        let proxy = Proxy::to(self.front.address);
        let url = format!("wss://localhost:{}/exec", proxy.address.port());
        (proxy, url)
    }
}

/// Bytes that differ everywhere.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 7_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..size).map(|_| next()).collect()
}

/// Both directions at once, each more than all buffers between take, with either version of TLS.
#[test]
fn what_goes_in_comes_out_both_ways_at_once() {
    if KIND.is_missing("what_goes_in_comes_out_both_ways_at_once") {
        return;
    }
    for version in ["TLSv1.2", "TLSv1.3"] {
        let line = format!("pid =\nsslVersion = {version}\n");
        let site = Site::with(&[("pid =\n", &line)]);
        let input = noise(32 << 20);
        let mut command = command("run", &site.front.url(), site.authority.file(), &["-i", "cat"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let given = input.clone();
        let feed = move || stdin.write_all(&given).unwrap();
        let feeding = thread::Builder::new().name("feed".into()).spawn(feed).unwrap();
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        feeding.join().unwrap();
        assert!(child.wait().unwrap().success());
        assert!(output == input, "{version}: {} bytes came", output.len());
    }
}

/// As long as a message may be, in one piece.
#[test]
fn a_message_of_64_mib_goes_through_each_way() {
    if KIND.is_missing("a_message_of_64_mib_goes_through_each_way") {
        return;
    }
    let site = Site::new();
    let client = client(&site.front.url(), &site.authority);
    let dir = TempDir::new();
    let path = WirePath::try_from(dir.join("long")).unwrap();
    // In base64 this is 64 MiB but for some bytes.
    let content = noise((64 << 20) / 4 * 3 - 3000);
    client.write_file(&WriteFileParams::new(path.clone(), content.clone())).unwrap();
    let read = client.read_file(&ReadFileParams::whole(path)).unwrap();
    assert!(read.data_base64.0 == content, "another content");
}

/// Many threads on one connection, each with short and long messages.
#[test]
fn threads_that_share_a_connection_do_not_mix_its_records() {
    if KIND.is_missing("threads_that_share_a_connection_do_not_mix_its_records") {
        return;
    }
    let site = Site::new();
    let client = client(&site.front.url(), &site.authority);
    thread::scope(|scope| {
        for number in 0..8 {
            let client = &client;
            let work = move || {
                for round in 0..20 {
                    client.ping().unwrap();
                    let size = 1000 * (number + 1) * (round + 1);
                    let line = format!("head -c {size} /dev/zero; exit {number}");
                    let mut process = client.exec(&ExecParams::new(line)).unwrap();
                    let (output, exit) = finish(&mut process).unwrap();
                    assert_eq!((output.len(), exit.exit_code), (size, i32::try_from(number).ok()));
                }
            };
            thread::Builder::new().spawn_scoped(scope, work).unwrap();
        }
    });
}

/// A command through the proxy, on a connection of its own. Whether it came to its end.
fn ran(site: &Site, proxy: &Proxy, url: &str, fault: Option<Fault>) -> bool {
    if let Some(fault) = fault {
        proxy.fault_next(fault);
    }
    let options = options(&site.authority)
        .reconnect_within(Duration::from_secs(3))
        .peer_timeout(Duration::from_millis(1500));
    let run = || {
        let client = options.websocket(url, Some(TOKEN))?;
        finish(&mut client.exec(&ExecParams::new("seq 5000"))?)
    };
    match within(DEADLINE + Duration::from_secs(5), run) {
        Ok((output, _)) => {
            assert!(output.ends_with(b"\n5000\n"), "{fault:?}");
            true
        }
        Err(error) => {
            let kinds = [ErrorKind::ConnectionLost, ErrorKind::Unreachable];
            assert!(kinds.contains(error.kind()), "{fault:?}: {error}");
            false
        }
    }
}

/// Wherever it breaks, in the handshakes, in a record or between two: never a wrong byte, never a
/// wait without an end.
#[test]
fn a_connection_that_breaks_at_any_byte_is_told_to_be_lost() {
    if KIND.is_missing("a_connection_that_breaks_at_any_byte_is_told_to_be_lost") {
        return;
    }
    let site = Site::new();
    let (proxy, url) = site.proxied();
    assert!(ran(&site, &proxy, &url, None));
    let Passed { up, down, .. } = proxy.passed(0);
    for (way, length) in [(Way::Up, up.len()), (Way::Down, down.len())] {
        for act in [Act::Cut, Act::Reset, Act::HalfClose] {
            for part in 0..6 {
                let fault = Fault { way, at: length * part / 6 + part, act };
                assert!(!ran(&site, &proxy, &url, Some(fault)), "{fault:?}");
            }
        }
        let stalled = Fault { way, at: length * 4 / 5, act: Act::Stall };
        assert!(!ran(&site, &proxy, &url, Some(stalled)), "{stalled:?}");
    }
    // (Up it is stunnel that makes nothing of a record that comes byte by byte.)
    let split = Fault { way: Way::Down, at: 0, act: Act::Split };
    assert!(ran(&site, &proxy, &url, Some(split)));
}

/// The goodbye of TLS is said, after that of the WebSocket.
#[test]
fn a_client_says_goodbye() {
    if KIND.is_missing("a_client_says_goodbye") {
        return;
    }
    let site = Site::with(&[("pid =\n", "pid =\ndebug = 7\n")]);
    let client = client(&site.front.url(), &site.authority);
    client.ping().unwrap();
    client.close();
    eventually(DEADLINE, "stunnel hears a close_notify", || {
        site.front.said().contains("TLS closed (SSL_read)")
    });
}

/// Whoever does not believe the certificate says so, in the alert that TLS has for that.
#[test]
fn a_certificate_that_is_refused_is_told_to_the_other_end() {
    if KIND.is_missing("a_certificate_that_is_refused_is_told_to_the_other_end") {
        return;
    }
    let site = Site::new();
    let stranger = Authority::new();
    assert!(options(&stranger).websocket(&site.front.url(), Some(TOKEN)).is_err());
    eventually(DEADLINE, "stunnel hears the alert", || {
        site.front.said().contains("alert unknown ca")
    });
}

/// stunnel stops in the middle: what was running is lost, and told so.
#[test]
fn the_end_of_what_stands_in_front_is_a_lost_connection() {
    if KIND.is_missing("the_end_of_what_stands_in_front_is_a_lost_connection") {
        return;
    }
    let Site { authority, _server, front } = Site::new();
    let client = client(&front.url(), &authority);
    let mut process = client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
    drop(front);
    let error = within(DEADLINE, || finish(&mut process)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
}
