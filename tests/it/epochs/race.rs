//! Many hosts at once.

use std::sync::Barrier;

use serde_json::json;

use super::{STALE, assert_fenced};
use crate::support::{DEADLINE, Server, Setup, TempDir, Victim};

/// Hosts with growing epochs, all at once: the highest stays, all others are closed as fenced, and
/// nothing of theirs runs.
#[test]
fn of_hosts_that_race_the_newest_wins() {
    const HOSTS: u64 = 12;
    let dir = TempDir::new();
    let file = dir.join("epoch");
    for setup in [Setup::new(), Setup::new().args(["--epoch-file", file.to_str().unwrap()])] {
        let server = setup.listen();
        for round in 0..4 {
            let ready = Barrier::new(usize::try_from(HOSTS).unwrap());
            let victims: Vec<_> = (0..HOSTS).map(|_| Victim::new()).collect();
            std::thread::scope(|scope| {
                for n in 0..HOSTS {
                    let (ready, server, victims) = (&ready, &server, &victims);
                    let newest = n == HOSTS - 1;
                    let host = move || {
                        ready.wait();
                        let mut peer = server.connect_of(round * HOSTS + n + 1);
                        let victim = &victims[usize::try_from(n).unwrap()];
                        let args = json!({"processId": "p", "command": "sleep",
                            "args": [victim.argument()]});
                        let sent = peer.try_send(
                            &json!({"id": 1, "method": "process/spawn", "params": args})
                                .to_string(),
                        );
                        if !newest {
                            return assert_fenced(&mut peer);
                        }
                        sent.unwrap();
                        peer.reply().outcome.unwrap();
                        let old = &victims[..usize::try_from(n).unwrap()];
                        assert!(old.iter().all(|victim| victim.count() == 0));
                        victim.await_alive();
                        peer.ping();
                    };
                    std::thread::Builder::new().spawn_scoped(scope, host).unwrap();
                }
            });
        }
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), "48\n");
}

/// A host that waits for an older one is fenced by a newer one meanwhile.
#[test]
fn a_chain_of_hosts_ends_with_the_last() {
    let server = Server::start();
    let mut first = server.connect_of(1);
    first.start_exec(json!({"command": "sleep 60"}));
    let mut others: Vec<_> = (2..40).map(|epoch| server.connect_of(epoch)).collect();
    let mut last = others.pop().unwrap();
    last.ping();
    for peer in &mut others {
        let closing = peer.closed(DEADLINE);
        assert_eq!((closing.code, closing.reason.as_str()), (Some(4409), STALE));
    }
    assert_fenced(&mut first);
}
