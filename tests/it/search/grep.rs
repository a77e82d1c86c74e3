//! `fs/grep`.

use serde_json::{Value, json};

use super::{below, files, matches};
use crate::support::{Peer, TempDir, over_both};

#[track_caller]
fn finds(peer: &mut Peer, dir: &TempDir, params: &Value, expected: &[&str]) {
    let (found, truncated) = matches(peer, dir.path(), params);
    assert_eq!(found, expected, "{params}");
    assert!(!truncated, "{params}");
}

#[test]
fn lines_are_found_by_expression_by_text_and_in_either_case() {
    over_both(|peer| {
        let dir = TempDir::new();
        files(&dir, &[("b/two", "a.c\nabc\r\nABC\n"), ("a", "nothing\nabc"), (".h", "abc\n")]);
        finds(
            peer,
            &dir,
            &json!({"pattern": "a.c"}),
            &[".h:1:abc", "a:2:abc", "b/two:1:a.c", "b/two:2:abc"],
        );
        finds(peer, &dir, &json!({"pattern": "a.c", "literal": true}), &["b/two:1:a.c"]);
        finds(
            peer,
            &dir,
            &json!({"pattern": "^abc$", "ignoreCase": true, "hidden": false}),
            &["a:2:abc", "b/two:3:ABC"],
        );
        finds(peer, &dir, &json!({"pattern": "abc", "glob": "t*"}), &["b/two:2:abc"]);
        finds(peer, &dir, &json!({"pattern": "abc", "glob": "!b"}), &[".h:1:abc", "a:2:abc"]);
        finds(peer, &dir, &json!({"pattern": "abc", "glob": "b/*"}), &["b/two:2:abc"]);
    });
}

#[test]
fn each_match_has_the_lines_around_it() {
    over_both(|peer| {
        let dir = TempDir::new();
        let text: String = (1..=12)
            .map(|n| {
                if [2, 4, 5, 11].contains(&n) {
                    format!("hit {n}\n")
                } else {
                    format!("line {n}\n")
                }
            })
            .collect();
        files(&dir, &[("f", &text)]);
        let result =
            peer.ok("fs/grep", &below(dir.path(), &json!({"pattern": "hit", "context": 2})));
        let expected = json!([
            {"path": "f", "line": 2, "text": "hit 2", "before": ["line 1"], "after": ["line 3", "hit 4"]},
            {"path": "f", "line": 4, "text": "hit 4", "before": ["hit 2", "line 3"], "after": ["hit 5", "line 6"]},
            {"path": "f", "line": 5, "text": "hit 5", "before": ["line 3", "hit 4"], "after": ["line 6", "line 7"]},
            {"path": "f", "line": 11, "text": "hit 11", "before": ["line 9", "line 10"], "after": ["line 12"]},
        ]);
        assert_eq!(result["matches"], expected);
        // The last one that is answered has its lines too, where more match.
        let some = json!({"pattern": "hit", "context": 2, "limit": 2});
        let result = peer.ok("fs/grep", &below(dir.path(), &some));
        assert_eq!(result["matches"], json!([expected[0], expected[1]]));
        assert_eq!(result["truncated"], json!(true));
    });
}

#[test]
fn the_first_ones_in_order_are_answered() {
    over_both(|peer| {
        let dir = TempDir::new();
        for number in (0..200).rev() {
            files(&dir, &[(&format!("{}/f{number:03}", number % 7), "x\ny\nx\n")]);
        }
        let (all, truncated) = matches(peer, dir.path(), &json!({"pattern": "x", "limit": 400}));
        assert_eq!((all.len(), truncated), (400, false));
        for limit in [1, 2, 3, 100, 399] {
            let params = json!({"pattern": "x", "limit": limit});
            let (some, truncated) = matches(peer, dir.path(), &params);
            assert_eq!(some, all[..limit]);
            assert!(truncated, "{limit}");
        }
    });
}

#[test]
fn a_long_line_is_told_in_part_and_what_is_not_utf_8_is_replaced() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("long", format!("{}needle\n", "a".repeat(5000)));
        dir.write("latin", b"needle \xe4\n");
        let result = peer.ok("fs/grep", &below(dir.path(), &json!({"pattern": "needle"})));
        let expected = json!([
            {"path": "latin", "line": 1, "text": "needle \u{fffd}"},
            {"path": "long", "line": 1, "text": "a".repeat(2000), "cut": true},
        ]);
        assert_eq!(result["matches"], expected);
    });
}

#[test]
fn binary_files_are_skipped_and_utf_16_is_read() {
    over_both(|peer| {
        let dir = TempDir::new();
        dir.write("binary", b"\0\x01needle\n");
        dir.write("text", "needle\n");
        let wide =
            "\u{feff}a needle\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        dir.write("wide", wide);
        finds(peer, &dir, &json!({"pattern": "needle"}), &["text:1:needle", "wide:1:a needle"]);
    });
}

#[test]
fn one_file_is_searched_by_its_name_whatever_ignores_it() {
    over_both(|peer| {
        let dir = TempDir::new();
        files(&dir, &[(".gitignore", "*.log\n"), ("a.log", "x\nneedle\n")]);
        finds(peer, &dir, &json!({"pattern": "needle"}), &[]);
        finds(peer, &dir, &json!({"pattern": "needle", "gitignore": false}), &["a.log:2:needle"]);
        let (found, _) = matches(peer, dir.join("a.log"), &json!({"pattern": "needle"}));
        assert_eq!(found, ["a.log:2:needle"]);
        let (found, _) = matches(peer, "/proc/self/status", &json!({"pattern": "^Name:"}));
        assert!(found[0].starts_with("status:1:Name:"), "{found:?}");
    });
}

#[test]
fn what_is_no_pattern_and_what_is_no_file_are_refused() {
    over_both(|peer| {
        let dir = TempDir::new();
        files(&dir, &[("f", "x\n")]);
        for (wrong, named) in [
            (json!({"pattern": "a("}), "unclosed group"),
            (json!({"pattern": "a\nb"}), "pattern"),
            (json!({"pattern": "x{1000}{1000}{1000}"}), "pattern"),
            (json!({"pattern": "(".repeat(300)}), "pattern"),
            (json!({"pattern": "x", "glob": "[a"}), "glob"),
            (json!({"pattern": "x", "context": 1001}), "context"),
            (json!({"pattern": "x", "limit": 0}), "limit"),
            (json!({}), "pattern"),
        ] {
            let error = peer.error("fs/grep", &below(dir.path(), &wrong));
            assert_eq!(error.code, -32602, "{wrong:.100}: {error:?}");
            assert!(error.message.contains(named), "{wrong:.100}: {error:?}");
        }
        super::mkfifo(&dir.join("fifo"));
        for (path, code) in [("nowhere", "ENOENT"), ("fifo", "CELL_TA_EXEC_NOT_A_FILE")] {
            let error = peer.error("fs/grep", &below(dir.join(path), &json!({"pattern": "x"})));
            assert_eq!(error.data_code(), code, "{error:?}");
        }
        // A FIFO that is met on the way holds nothing up.
        finds(peer, &dir, &json!({"pattern": "x"}), &["f:1:x"]);
    });
}
