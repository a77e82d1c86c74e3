//! Who asks first is answered first, where there is not room for all answers at a time.

use std::time::Duration;

use serde_json::json;

use super::{bytes, noise, path};
use crate::support::{DEADLINE, TempDir, eventually, over_both, procfs};

const SMALL: usize = 150_000;
const BIG: usize = 20_000_000;

/// A large answer waits for more room than a small one. Those behind it must not take it for ever.
#[test]
fn a_large_read_is_not_overtaken_by_all_small_ones() {
    over_both(|peer| {
        let dir = TempDir::new();
        let (big, small) = (dir.write("big", noise(BIG, 1)), dir.write("small", noise(SMALL, 2)));
        let before: Vec<_> = (0..20).map(|_| peer.request("fs/readFile", &path(&small))).collect();
        let large = peer.request("fs/readFile", &path(&big));
        let after: Vec<_> = (0..500).map(|_| peer.request("fs/readFile", &path(&small))).collect();
        let answered = |peer: &crate::support::Peer| peer.has_answer(&large);
        peer.wait_until(6 * DEADLINE, "an answer to the large read", answered);
        let overtook = after.iter().filter(|id| peer.has_answer(id)).count();
        assert!(overtook < 150, "{overtook} of 500 that were asked for later came first");
        assert!(bytes(&peer.answer(&large).unwrap()) == noise(BIG, 1));
        for id in before.iter().chain(&after) {
            let result = peer.answer_within(id, Duration::from_secs(60)).unwrap();
            assert_eq!(result["size"], SMALL);
        }
    });
}

/// The answers to these are made ahead, while none can be written: as many as their sizes admit. (One
/// that took itself for longer than its share waited for all others to be gone.)
#[test]
fn parts_that_are_asked_for_ahead_are_read_ahead() {
    const PART: usize = 1 << 20;
    const AHEAD: usize = 8;
    over_both(|peer| {
        let dir = TempDir::new();
        let file = dir.write("file", noise(PART, 3));
        let pid = peer.server_pid();
        peer.spawn(json!({"command": "yes"}));
        procfs::await_stalled(&[pid]);
        let before = procfs::bytes_read(pid);
        let parts: Vec<_> = (0..AHEAD).map(|_| peer.request("fs/readFile", &path(&file))).collect();
        eventually(DEADLINE, "all are read", || {
            procfs::bytes_read(pid) >= before + (AHEAD * PART) as u64
        });
        for part in parts {
            assert!(bytes(&peer.answer(&part).unwrap()) == noise(PART, 3));
        }
    });
}
