//! Callers read from the connection in turns, and a thread of its own where none of them does.

use std::io::Write as _;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use ta_exec::ErrorKind;
use ta_exec::client::{Answer, ClientOptions, ExecClient};
use ta_exec::environment::LocalExecEnvironment;
use ta_exec::protocol::{Empty, ExecParams, SpawnParams, method};

use tungstenite::Message;

use super::{finish, within};
use crate::support::fake;
use crate::support::{DEADLINE, Server, TOKEN, binary, eventually, procfs};

/// A client by each of the ways there are, and what its server is.
fn every_way(run: impl Fn(&ExecClient)) {
    let server = Server::start();
    let options = || ClientOptions::new().epoch(None);
    let url = format!("ws://{}/exec", server.address);
    run(&options().websocket(&url, Some(TOKEN)).unwrap());
    let program = binary().into_os_string();
    run(&options().stdio(&[program, "exec-server".into(), "--stdio".into()]).unwrap());
    run(&options().in_memory(&LocalExecEnvironment::new(None).unwrap()).unwrap());
}

#[test]
fn whoever_waits_is_served_whoever_reads() {
    every_way(|client| {
        thread::scope(|scope| {
            let start = |job: Box<dyn FnOnce() + Send>| {
                thread::Builder::new().spawn_scoped(scope, job).unwrap();
            };
            // One that waits all the time, one to whom much comes, and some who call.
            let mut silent = client.spawn(&SpawnParams::new("cat")).unwrap();
            let end = silent.control();
            start(Box::new(move || {
                let (output, exit) = finish(&mut silent).unwrap();
                assert_eq!((output.as_slice(), exit.exit_code), (&b"done"[..], Some(0)));
            }));
            start(Box::new(|| {
                let line = ExecParams::new("head -c 20000000 /dev/zero; exit 3");
                let (output, exit) = finish(&mut client.exec(&line).unwrap()).unwrap();
                assert_eq!((output.len(), exit.exit_code), (20_000_000, Some(3)));
            }));
            let callers = [(); 4].map(|()| {
                let call = || {
                    for number in 0..100 {
                        client.ping().unwrap();
                        let echo = SpawnParams::new("echo").arg(number.to_string());
                        let (output, _) = finish(&mut client.spawn(&echo).unwrap()).unwrap();
                        assert_eq!(output, format!("{number}\n").into_bytes());
                    }
                };
                thread::Builder::new().spawn_scoped(scope, call).unwrap()
            });
            callers.into_iter().for_each(|caller| caller.join().unwrap());
            end.write(b"done", true).unwrap();
        });
        // And again one alone.
        (0..100).for_each(|_| client.ping().unwrap());
    });
}

#[test]
fn who_reads_keeps_his_deadline() {
    every_way(|client| {
        let mut silent = client.spawn(&SpawnParams::new("cat")).unwrap();
        for patience in [0, 1, 100].map(Duration::from_millis) {
            let start = Instant::now();
            assert!(silent.next(Some(start + patience)).unwrap().is_none());
            let kept = patience..patience + Duration::from_secs(3);
            assert!(kept.contains(&start.elapsed()), "{:?}", start.elapsed());
        }
        // What he has not waited for is there all the same.
        silent.control().write(b"late", true).unwrap();
        assert_eq!(finish(&mut silent).unwrap().0, b"late");
    });
}

/// A pong, and a fragment with nothing in it: a stream of them is never empty, and nothing comes of it.
#[test]
fn who_reads_keeps_his_deadline_though_frames_without_a_message_never_end() {
    for (first, more) in [(&b""[..], &b"\x8a\0"[..]), (b"\x01\x01{", b"\0\0")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ws://{}/exec", listener.local_addr().unwrap());
        let flood = move || {
            let mut socket = tungstenite::accept(listener.accept().unwrap().0).unwrap();
            loop {
                let Message::Text(text) = socket.read().unwrap() else { continue };
                let request = serde_json::from_str(&text).unwrap();
                if fake::method(&request) == method::PING {
                    break;
                }
                let answer = fake::answer(&request, &json!({}));
                socket.send(Message::text(answer)).unwrap();
            }
            let mut stream = socket.get_ref();
            // Until nobody reads it any more.
            stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
            stream.write_all(first).unwrap();
            let more = more.repeat(100_000);
            while stream.write_all(&more).is_ok() {}
        };
        let flooding = thread::Builder::new().spawn(flood).unwrap();
        let client = ClientOptions::new().epoch(None).websocket(&url, Some(TOKEN)).unwrap();
        let answer: Answer<Empty> = client.begin(method::PING, &Empty {}).unwrap();
        let patience = Duration::from_millis(300);
        let start = Instant::now();
        assert!(answer.wait_until(start + patience).unwrap().is_none());
        assert!((patience..DEADLINE).contains(&start.elapsed()), "{:?}", start.elapsed());
        // Whoever waits for ever learns of the end, and nobody goes on reading.
        let answer: Answer<Empty> = client.begin(method::PING, &Empty {}).unwrap();
        let waiting = thread::Builder::new().spawn(move || answer.wait()).unwrap();
        within(DEADLINE, || client.close());
        let error = within(DEADLINE, || waiting.join().unwrap()).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
        drop(client);
        within(DEADLINE, || flooding.join().unwrap());
    }
}

#[test]
fn closing_it_ends_the_wait_of_who_reads() {
    every_way(|client| {
        let mut silent = client.spawn(&SpawnParams::new("cat")).unwrap();
        let wait = move || silent.next(None).map(|event| format!("{event:?}"));
        let waiting = thread::Builder::new().spawn(wait).unwrap();
        // (Whether he reads already or is about to.)
        client.ping().unwrap();
        client.close();
        let error = within(Duration::from_secs(3), || waiting.join().unwrap()).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    });
}

#[test]
fn answers_come_though_nobody_waits_for_them_yet() {
    every_way(|client| {
        let ask = |_| client.begin(method::PING, &Empty {}).unwrap();
        let answers: Vec<Answer<Empty>> = (0..100).map(ask).collect();
        for answer in answers {
            let is_there = || matches!(answer.wait_until(Instant::now()), Ok(Some(Empty {})));
            eventually(DEADLINE, "the answer is there", is_there);
        }
    });
}

/// What nobody takes does not keep what comes behind it from those who wait.
#[test]
fn output_that_is_not_taken_holds_up_no_caller() {
    every_way(|client| {
        let unread = client.spawn(&SpawnParams::new("yes")).unwrap();
        procfs::await_stalled(&[u32::try_from(unread.pid().unwrap()).unwrap()]);
        within(DEADLINE, || (0..100).for_each(|_| client.ping().unwrap()));
        unread.control().abort();
    });
}

/// The server has gone right after a caller has read, when nobody watches the connection for a moment:
/// the next call is not sent into the void.
#[test]
fn the_end_is_known_before_the_next_call_is_sent() {
    let ends = |_| {
        let server = Server::start();
        let url = format!("ws://{}/exec", server.address);
        let options = ClientOptions::new().reconnect_within(Duration::ZERO);
        let client = options.websocket(&url, Some(TOKEN)).unwrap();
        client.ping().unwrap();
        drop(server);
        let error = client.ping().unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Unreachable, "{error}");
    };
    (0..5).for_each(ends);
}
