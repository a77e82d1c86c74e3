//! How much may hang, and how much may wait for it.

use std::time::Duration;

use serde_json::json;

use super::hung::{Hung, WRITE, all_else_works, assert_hanging};
use super::{content, merged, path};
use crate::support::{base64, procfs};

const LIMIT: &str = "CELL_TA_EXEC_LIMIT";

/// They cost a thread each, so there is a limit; it is this connection's alone.
#[test]
fn more_requests_than_may_hang_are_no_matter_of_another_connections() {
    const NAME: &str = "more_requests_than_may_hang_are_no_matter_of_another_connections";
    let Some(hung) = Hung::mount(NAME, "stopped") else { return };
    let server = hung.setup().listen();
    let mut peer = server.connect();
    let mut other = server.connect();
    let _woken = hung.woken_first();
    let pid = other.server_pid();
    let file = hung.inside("f");
    let ids: Vec<_> = (0..2000).map(|_| peer.request("fs/readFile", &path(&file))).collect();
    peer.ping();
    peer.sh("true").assert_success();
    all_else_works(&mut other, &hung.dir, "other");
    assert!(procfs::threads(pid) < 600, "{} threads", procfs::threads(pid));
    // Nobody is left to guess: what finds no place any more is refused.
    let elsewhere = peer.request("fs/readFile", &path("/proc/version"));
    if let Err(error) = peer.answer_within(&elsewhere, WRITE) {
        assert_eq!(error.data_code(), LIMIT, "{error:?}");
    }
    hung.end();
    for id in &ids {
        let error = peer.answer_within(id, Duration::from_secs(20)).unwrap_err();
        assert!(!error.data_code().is_empty(), "{error:?}");
    }
    all_else_works(&mut peer, &hung.dir, "same");
}

/// 160 MiB sent behind a change that hangs: each part is written or refused, and none is kept in
/// memory without a bound.
#[test]
fn content_that_waits_for_a_change_that_hangs_is_bounded() {
    const NAME: &str = "content_that_waits_for_a_change_that_hangs_is_bounded";
    const PART: usize = 4 << 20;
    let Some(hung) = Hung::mount(NAME, "stopped") else { return };
    let server = hung.setup().listen();
    let mut peer = server.connect();
    let _woken = hung.woken_first();
    let pid = peer.server_pid();
    let first = [peer.request("fs/writeFile", &content(hung.inside("f"), "x"))];
    assert_hanging(&mut peer, &first);
    let before = procfs::resident_kib(pid);
    let mut params = merged(content(hung.dir.join("f"), ""), &json!({"append": true}));
    params["dataBase64"] = json!(base64(vec![b'x'; PART]));
    let ids: Vec<_> = (0..40).map(|_| peer.request("fs/writeFile", &params)).collect();
    let peak = procfs::peak_kib(pid, Duration::from_millis(500));
    assert!(peak < before + 140 * 1024, "from {before} to {peak} KiB");
    let mut written = 0;
    for id in &ids {
        match peer.answer_within(id, Duration::from_secs(30)) {
            Ok(result) => {
                written += PART;
                assert_eq!(result["size"], json!(written));
            }
            Err(error) => assert_eq!(error.data_code(), LIMIT, "{error:?}"),
        }
    }
    assert!(written >= PART, "nothing was written");
    assert_eq!(std::fs::metadata(hung.dir.join("f")).unwrap().len(), written as u64);
}
