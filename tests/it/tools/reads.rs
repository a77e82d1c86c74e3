//! `read`.

use serde_json::json;
use ta_exec::tools::{Content, Tool};

use super::{outcome, over_all, shown};

#[test]
fn a_file_is_shown_as_it_is_and_from_a_line_on() {
    over_all(|tools, dir| {
        dir.write("a", "\u{feff}one\r\ntwo\nthr\u{e9}\u{e9}\n");
        let read = |arguments| shown(tools, Tool::Read, &arguments);
        let whole = read(json!({"path": "a"}));
        assert_eq!(whole.as_deref(), Ok("one\r\ntwo\nthr\u{e9}\u{e9}\n"));
        let url = format!("file://{}/a", dir.path().display());
        assert_eq!(read(json!({"path": url})), whole);
        assert_eq!(read(json!({"path": "@a"})), whole);
        let part = read(json!({"path": "a", "offset": 2, "limit": 1}));
        assert_eq!(part.as_deref(), Ok("two\n\n[lines 2-2 of 3; go on with offset=3]"));
        let none = read(json!({"path": "a", "offset": 4}));
        assert_eq!(none, Err("a has 3 lines, none at offset 4".to_owned()));
        [read(json!({"path": "."})), read(json!({"path": "none"})), read(json!({"path": "~"}))]
            .map(|failed| failed.unwrap_err())
    });
}

#[test]
fn what_is_too_long_is_cut_and_told_how_to_go_on() {
    over_all(|tools, dir| {
        let many: String = (1..=3000).map(|line| format!("line {line}\n")).collect();
        dir.write("many", &many);
        let first = shown(tools, Tool::Read, &json!({"path": "many"})).unwrap();
        assert!(first.ends_with("line 2000\n\n[lines 1-2000 of 3000; go on with offset=2001]"));
        let rest = shown(tools, Tool::Read, &json!({"path": "many", "offset": 2001})).unwrap();
        assert!(rest.starts_with("line 2001\n") && rest.ends_with("line 3000\n"));
        dir.write("wide", format!("{}\nend\n", "\u{20ac}".repeat(100_000)));
        let wide = shown(tools, Tool::Read, &json!({"path": "wide"})).unwrap();
        assert!(wide.len() < 51 * 1024 + 200 && !wide.contains('\u{fffd}'), "{}", wide.len());
        assert!(
            wide.ends_with("this is its beginning; go on with offset=2]"),
            "{}",
            &wide[51_000..]
        );
    });
}

/// It is longer than what one answer has: parts of it are, whatever lines they are cut in.
#[test]
fn a_long_file_is_read_in_parts() {
    over_all(|tools, dir| {
        let lines: String = (1..=400_000).map(|line| format!("{line:07}\n")).collect();
        dir.write("long", &lines);
        let at = |offset: u32, limit: u32| {
            shown(tools, Tool::Read, &json!({"path": "long", "offset": offset, "limit": limit}))
        };
        let first = at(1, 1).unwrap();
        assert_eq!(first, "0000001\n\n[lines 1-1 of a file of 3 MB; go on with offset=2]");
        assert!(at(262_144, 2).unwrap().starts_with("0262144\n0262145\n"));
        assert_eq!(at(400_000, 5).as_deref(), Ok("0400000\n"));
        let behind = at(400_001, 5).unwrap_err();
        assert_eq!(behind, "long has 400000 lines, none at offset 400001");
    });
}

#[test]
fn a_file_whose_size_is_not_told_is_read_to_its_end() {
    over_all(|tools, _| {
        let status = shown(tools, Tool::Read, &json!({"path": "/proc/self/status"})).unwrap();
        assert!(status.contains("\nPid:\t"), "{status}");
    });
}

#[test]
fn an_image_is_known_by_its_content_and_comes_whole() {
    over_all(|tools, dir| {
        let mut image = b"\x89PNG\r\n\x1a\n".to_vec();
        image.extend((0..2_000_000_u32).map(|number| number.to_le_bytes()[0]));
        dir.write("picture.txt", &image);
        let seen = outcome(tools, Tool::Read, &json!({"path": "picture.txt"}));
        assert!(!seen.is_error);
        let text = Content::Text("picture.txt: image/png, 1.9 MB".to_owned());
        assert!(seen.content == [text, Content::Image(image.clone(), "image/png")]);
        image.resize(6 << 20, 0);
        dir.write("huge.png", &image);
        shown(tools, Tool::Read, &json!({"path": "huge.png"})).unwrap_err()
    });
}
