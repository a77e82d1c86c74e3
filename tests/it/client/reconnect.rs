//! The next call finds the way again, or says in time that there is none.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ta_exec::ErrorKind;
use ta_exec::client::ClientOptions;
use ta_exec::protocol::{ExecParams, SpawnParams};

use super::{Host, finish, impatient, within};
use crate::support::proxy::{Act, Fault, Way};
use crate::support::{DEADLINE, Setup, Victim};

/// Calls from many threads at once.
fn call_from_16(host: &Host) -> Vec<Result<(), ta_exec::Error>> {
    let barrier = Barrier::new(16);
    thread::scope(|scope| {
        let call = || {
            barrier.wait();
            host.client.ping()
        };
        let threads = [(); 16].map(|()| thread::Builder::new().spawn_scoped(scope, call).unwrap());
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn one_new_connection_is_made_for_all_who_call() {
    let host = Host::new(impatient());
    for round in 1..=3 {
        host.lose_connection();
        let slow = Act::Delay(Duration::from_millis(300));
        host.proxy.fault_next(Fault { way: Way::Down, at: 0, act: slow });
        for answer in call_from_16(&host) {
            answer.unwrap();
        }
        assert_eq!(host.proxy.count(), 1 + round);
    }
}

#[test]
fn attempts_that_fail_come_more_and_more_slowly_and_end_in_time() {
    let host = Host::new(impatient().reconnect_within(Duration::from_secs(2)));
    host.lose_connection();
    host.proxy.refuse(true);
    for answer in within(Duration::from_secs(6), || call_from_16(&host)) {
        let error = answer.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Unreachable, "{error}");
    }
    // 50 ms, 100 ms, 200 ms, … apart, whoever makes them.
    let attempts = host.proxy.count() - 1;
    assert!((3..=8).contains(&attempts), "{attempts} attempts");
    host.proxy.refuse(false);
    host.client.ping().unwrap();
}

#[test]
fn where_nobody_listens_the_deadline_is_kept() {
    let Host { client, proxy, server } = Host::new(impatient());
    drop(server);
    thread::sleep(Duration::from_millis(50));
    let error = within(DEADLINE, || {
        loop {
            match client.ping() {
                Err(error) if *error.kind() == ErrorKind::Unreachable => return error,
                Err(error) => assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}"),
                Ok(()) => panic!("nobody answers"),
            }
        }
    });
    assert!(error.message().contains(&proxy.address.to_string()), "{error}");
}

#[test]
fn an_answer_to_the_upgrade_that_does_not_come_is_not_waited_for_longer_than_said() {
    let host = Host::new(impatient().reconnect_within(Duration::from_millis(700)));
    host.lose_connection();
    host.proxy.fault_next(Fault { way: Way::Down, at: 0, act: Act::Stall });
    let error = within(Duration::from_secs(3), || host.client.ping()).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unreachable, "{error}");
    host.client.ping().unwrap();
}

#[test]
fn a_server_that_comes_again_on_its_port_is_found_again() {
    let server = Setup::new().listen();
    let address = server.address;
    let options = ClientOptions::new().reconnect_within(2 * DEADLINE);
    let client = options.websocket(&format!("ws://{address}/exec"), Some(super::TOKEN)).unwrap();
    let mut process = client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
    drop(server);
    let error = finish(&mut process).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    let again = client.clone();
    let call = thread::Builder::new().spawn(move || again.ping()).unwrap();
    thread::sleep(Duration::from_millis(300));
    let _server = Setup::new().port(address.port()).listen();
    call.join().unwrap().unwrap();
    finish(&mut client.exec(&ExecParams::new("true")).unwrap()).unwrap();
}

#[test]
fn what_ran_on_the_lost_connection_has_ended_and_is_told_so() {
    let host = Host::new(impatient());
    let victim = Victim::new();
    let line = format!("setsid {} & sleep 60", victim.command());
    let mut exec = host.client.exec(&ExecParams::new(line)).unwrap();
    let mut spawn = host.client.spawn(&SpawnParams::new("sleep").arg(victim.argument())).unwrap();
    victim.await_count(2);
    host.proxy.cut();
    for process in [&mut exec, &mut spawn] {
        let error = finish(process).unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    }
    victim.await_gone();
    // On the new connection they are not known; nothing of theirs is sent there.
    host.client.ping().unwrap();
    let error = exec.control().kill("KILL", None).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
    let error = spawn.control().write(b"x", true).unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
}

#[test]
fn whoever_is_refused_does_not_ask_again() {
    let host = Host::new(impatient());
    host.lose_connection();
    let other = Setup::new().token("another-token").listen();
    host.proxy.lead_to(other.address);
    let start = Instant::now();
    let error = host.client.ping().unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.message().contains("401"), "{error}");
    assert!(!error.message().contains(super::TOKEN), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(host.proxy.count(), 2);
    // Those who wait for an attempt are refused with it.
    let slow = Act::Delay(Duration::from_millis(500));
    thread::sleep(Duration::from_millis(100));
    host.proxy.fault_next(Fault { way: Way::Down, at: 0, act: slow });
    for answer in call_from_16(&host) {
        assert_eq!(*answer.unwrap_err().kind(), ErrorKind::Refused);
    }
    assert_eq!(host.proxy.count(), 3);
    // The next call does ask, and is let in by whoever knows it.
    host.proxy.lead_to(host.server.address);
    host.client.ping().unwrap();
}

#[test]
fn whoever_closes_it_has_closed_it_for_good() {
    let host = Host::new(impatient());
    let mut process = host.client.spawn(&SpawnParams::new("sleep").arg("60")).unwrap();
    let clone = host.client.clone();
    host.client.close();
    for error in [
        finish(&mut process).unwrap_err(),
        clone.ping().unwrap_err(),
        clone.exec(&ExecParams::new("true")).err().unwrap(),
    ] {
        assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{error}");
        assert!(error.message().contains("closed from this side"), "{error}");
    }
    assert_eq!(host.proxy.count(), 1);
}

#[test]
fn closing_it_ends_the_wait_for_a_new_connection() {
    let host = Host::new(impatient().reconnect_within(2 * DEADLINE));
    host.lose_connection();
    host.proxy.refuse(true);
    let client = host.client.clone();
    let call = thread::Builder::new().spawn(move || client.ping()).unwrap();
    thread::sleep(Duration::from_millis(400));
    host.client.close();
    let error = within(Duration::from_secs(3), || call.join().unwrap()).unwrap_err();
    assert!(error.message().contains("closed from this side"), "{error}");
}

#[test]
fn whoever_is_as_patient_or_as_impatient_as_can_be_is_served_too() {
    let patient = ClientOptions::new().reconnect_within(Duration::MAX).peer_timeout(Duration::MAX);
    let hasty = ClientOptions::new().reconnect_within(Duration::ZERO).peer_timeout(Duration::ZERO);
    for options in [patient, hasty] {
        let host = Host::new(options);
        host.lose_connection();
        // (No time at all may be too little.)
        let _ = within(DEADLINE, || host.client.ping());
    }
}
