//! The memory of a search is that of its answer, whatever the tree.

use serde_json::json;

use super::{below, found, matches};
use crate::support::{DEADLINE, Setup, TempDir, procfs};

/// KiB that a server may have more at its highest than before: some megabytes of tables for each
/// thread, and the answer.
const MORE: u64 = 48 * 1024;

#[test]
fn a_directory_of_very_many_files_is_never_held_whole() {
    let dir = TempDir::new();
    // (Names are cheap where they are links of one file; a file has 65,000 of them on ext4.)
    for number in 0..4 {
        let first = dir.write(&format!("{number}-0"), "a line\n");
        for other in 1..40_000 {
            std::fs::hard_link(&first, dir.join(&format!("{number}-{other}"))).unwrap();
        }
    }
    let server = Setup::new().listen();
    let mut peer = server.connect();
    found(&mut peer, dir.path(), &json!({"pattern": "none", "maxDepth": 1}));
    let before = procfs::highest_kib(server.pid());
    let (paths, truncated) = found(&mut peer, dir.path(), &json!({"pattern": "*-9*", "limit": 10}));
    assert_eq!((paths.len(), truncated), (10, true));
    assert_eq!(paths[0], "0-9");
    let more = procfs::highest_kib(server.pid()) - before;
    assert!(more < 4 * 1024, "{more} KiB more for names");
    let request =
        peer.request("fs/grep", &below(dir.path(), &json!({"pattern": "line", "limit": 10})));
    let result = peer.answer_within(&request, DEADLINE * 6).unwrap();
    assert_eq!(result["matches"].as_array().unwrap().len(), 10);
    let more = procfs::highest_kib(server.pid()) - before;
    assert!(more < MORE, "{more} KiB more for lines");
}

#[test]
fn an_answer_is_cut_where_a_message_ends() {
    let dir = TempDir::new();
    dir.write("long", format!("{}\n", "\u{1}".repeat(1900)).repeat(2000));
    for number in 0..3000 {
        dir.write(&format!("{}{number:04}", "n".repeat(200)), "");
    }
    let server = Setup::new().args(["--max-message-bytes", "100000"]).listen();
    let mut peer = server.connect();
    let (lines, truncated) =
        matches(&mut peer, dir.path(), &json!({"pattern": ".", "limit": 100_000}));
    assert!(truncated && lines.len() > 5, "{} lines", lines.len());
    assert!(lines[0].starts_with("long:1:"));
    let (paths, truncated) = found(&mut peer, dir.path(), &json!({"limit": 100_000}));
    assert!(truncated && paths.len() > 100, "{} paths", paths.len());
}

/// What ripgrep would hold as one line is passed over, and told of.
#[test]
fn a_line_of_a_gibibyte_is_not_held() {
    let dir = TempDir::new();
    let mut file = std::fs::File::create(dir.join("huge")).unwrap();
    let piece = vec![b'a'; 1 << 20];
    for _ in 0..200 {
        std::io::Write::write_all(&mut file, &piece).unwrap();
    }
    dir.write("z", "needle\n");
    let server = Setup::new().listen();
    let mut peer = server.connect();
    matches(&mut peer, dir.join("z"), &json!({"pattern": "needle"}));
    let before = procfs::highest_kib(server.pid());
    let (lines, truncated) = matches(&mut peer, dir.path(), &json!({"pattern": "needle"}));
    assert_eq!(lines, ["z:1:needle"]);
    assert!(truncated, "it was not searched whole");
    let more = procfs::highest_kib(server.pid()) - before;
    assert!(more < 2 * MORE, "{more} KiB more");
}
