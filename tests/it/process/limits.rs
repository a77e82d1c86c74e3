//! Ids that are taken, and how many processes there may be.

use serde_json::json;

use crate::support::{Server, Setup, Victim, over_both, over_both_with};

#[test]
fn an_id_in_use_is_refused_whatever_kind_the_two_are() {
    over_both(|peer| {
        for first_is_exec in [true, false] {
            let victim = Victim::new();
            let params = json!({"processId": "twin", "command": victim.command()});
            if first_is_exec {
                peer.start_exec(params);
            } else {
                let args = [victim.argument()];
                peer.spawn(json!({"processId": "twin", "command": "sleep", "args": args}));
            }
            victim.await_alive();
            for method in ["process/exec", "process/spawn"] {
                let second = json!({"processId": "twin", "command": "true"});
                let error = peer.error(method, &second);
                let found = (error.code, error.data_code());
                assert_eq!(found, (-32000, "CELL_TA_EXEC_DUPLICATE_ID"), "{error:?}");
                error.assert_names("twin");
            }
            victim.assert_alive();
            assert!(peer.kill("twin"));
            if first_is_exec {
                peer.wait_until(crate::support::DEADLINE, "the end", |peer| peer.is_over("twin"));
            } else {
                peer.exit("twin");
            }
        }
    });
}

#[test]
fn two_connections_may_use_the_same_id() {
    let server = Server::start();
    let (mut one, mut other) = (server.connect(), server.connect());
    let params = json!({"processId": "same", "command": "sleep 0.2; echo $IT", "env": {"IT": "1"}});
    let first = one.start_exec(params);
    let params = json!({"processId": "same", "command": "echo $IT", "env": {"IT": "2"}});
    assert_eq!(other.exec(params).text(), "2\n");
    assert_eq!(one.finish(&first).text(), "1\n");
}

#[test]
fn more_than_max_processes_is_refused_until_one_ends() {
    over_both_with(
        || Setup::new().args(["--max-processes", "2"]),
        |peer| {
            let victim = Victim::new();
            let first = victim.spawn(peer);
            let second = peer.start_exec(json!({"command": victim.command()}));
            victim.await_count(2);
            for method in ["process/exec", "process/spawn"] {
                let error = peer.error(method, &json!({"processId": "third", "command": "true"}));
                let found = (error.code, error.data_code());
                assert_eq!(found, (-32000, "CELL_TA_EXEC_LIMIT"), "{error:?}");
                error.assert_names("2");
            }
            peer.kill(&first);
            peer.exit(&first);
            peer.exec(json!({"processId": "third", "command": "true"})).assert_success();
            peer.kill(&second.process);
            peer.finish(&second);
            for _ in 0..10 {
                peer.sh("true").assert_success();
            }
            // A start that fails takes no place for good.
            for _ in 0..5 {
                peer.error("process/spawn", &json!({"processId": "x", "command": "/nope"}));
            }
            peer.sh("true").assert_success();
        },
    );
}

#[test]
fn the_limit_is_one_connections_own() {
    let server = Setup::new().args(["--max-processes", "1"]).listen();
    let (mut one, mut other) = (server.connect(), server.connect());
    let victim = Victim::new();
    victim.spawn(&mut one);
    other.sh("true").assert_success();
    let error = one.error("process/exec", &json!({"processId": "x", "command": "true"}));
    assert_eq!(error.data_code(), "CELL_TA_EXEC_LIMIT");
}
