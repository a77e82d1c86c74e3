//! Servers give up who is silent, and clients too.

use std::thread;
use std::time::{Duration, Instant};

use ta_exec::ErrorKind;
use ta_exec::client::{ClientOptions, ExecClient};
use ta_exec::environment::ProcessEvent;
use ta_exec::protocol::SpawnParams;

use super::{Host, TOKEN, finish, impatient, within};
use crate::support::proxy::{Act, Fault, Way};
use crate::support::{DEADLINE, Setup, binary};

/// A process that lives on a connection outlives the silence its server allows, whether it says
/// something all the time or nothing at all. (Nothing is acknowledged: only pings go to the server.)
#[track_caller]
fn assert_outlives(client: &ExecClient) {
    let processes = ["while :; do echo x; sleep 0.05; done", "exec sleep 60"].map(|script| {
        let mut params = SpawnParams::new("sh").arg("-c").arg(script);
        params.window = None;
        client.spawn(&params).unwrap()
    });
    let end = Instant::now() + Duration::from_secs(5);
    for mut process in processes {
        while let Some(event) = process.next(Some(end)).unwrap() {
            assert!(matches!(event, ProcessEvent::Output(..)), "{event:?}");
        }
        assert!(process.control().kill("KILL", None).unwrap());
        finish(&mut process).unwrap();
    }
}

fn pinging() -> ClientOptions {
    ClientOptions::new().peer_timeout(Duration::from_secs(2))
}

#[test]
fn a_websocket_lives_however_much_or_little_is_said() {
    let server = Setup::new().args(["--peer-timeout", "2"]).listen();
    let url = format!("ws://{}/exec", server.address);
    assert_outlives(&pinging().websocket(&url, Some(TOKEN)).unwrap());
}

#[test]
fn a_pipe_lives_however_much_or_little_is_said() {
    let program = binary();
    let program = program.to_str().unwrap();
    let words = [program, "exec-server", "--stdio", "--peer-timeout", "2"];
    thread::scope(|scope| {
        let both = || assert_outlives(&pinging().stdio(&words).unwrap());
        // Nothing at all is said on this one.
        let silent = || {
            let client = pinging().stdio(&words).unwrap();
            let mut process = client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
            let end = Instant::now() + Duration::from_secs(5);
            assert!(process.next(Some(end)).unwrap().is_none());
            client.ping().unwrap();
            assert!(process.control().kill("KILL", None).unwrap());
        };
        thread::Builder::new().spawn_scoped(scope, both).unwrap();
        thread::Builder::new().spawn_scoped(scope, silent).unwrap();
    });
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let host = Host::new(impatient());
    host.lose_connection();
    // Some way behind what it answers to the same on the first connection: there are only pongs.
    let at = host.proxy.passed(0).down.len() + 3;
    host.proxy.fault_next(Fault { way: Way::Down, at, act: Act::Stall });
    let mut process = host.client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
    let error = within(DEADLINE, || finish(&mut process)).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    assert!(error.message().contains("silent"), "{error}");
}

#[test]
fn a_program_that_says_nothing_is_given_up_too() {
    let options = impatient().epoch(None);
    let client = options.stdio(&["sh", "-c", "while read line; do :; done"]).unwrap();
    let error = within(DEADLINE, || client.ping()).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    assert!(error.message().contains("silent"), "{error}");
}
