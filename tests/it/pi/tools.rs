//! Every tool, and every way in which it fails.

use serde_json::json;

use super::there::{PROJECT, There};
use super::{Pi, answers, bash, call};

#[test]
fn every_tool_works_there_and_leaves_this_machine_alone() {
    const NAME: &str = "every_tool_works_there_and_leaves_this_machine_alone";
    let Some(versions) = Pi::all(NAME) else { return };
    for pi in versions {
        let Some(there) = There::start(NAME) else { return };
        there.write("a.txt", "eins\r\nzwei\r\n");
        there.write("ignored/b.txt", "zwei\n");
        there.write(".gitignore", "ignored\n");
        there.write("/there/at-home.txt", "of the home there\n");
        let edit = |path: &str, old: &str, new: &str| {
            call("edit", json!({"path": path, "edits": [{"oldText": old, "newText": new}]}))
        };
        let steps = [
            vec![bash("pwd; cat marker.txt; echo of stderr >&2; hostname >/dev/null; id -u")],
            vec![call("write", json!({"path": "sub/dir/new.txt", "content": "alpha\nbeta\n"}))],
            vec![call("read", json!({"path": "sub/dir/new.txt"}))],
            vec![
                edit("@sub/dir/new.txt", "beta", "BETA"),
                edit("a.txt", "zwei", "drei"),
                edit("a.txt", "eins", "eins!"),
            ],
            vec![
                call("ls", json!({})),
                call("find", json!({"pattern": "*.txt"})),
                call("grep", json!({"pattern": "BETA|drei"})),
                call("read", json!({"path": "marker.txt"})),
                call("read", json!({"path": "~/at-home.txt"})),
                call("read", json!({"path": format!("file://{PROJECT}/marker.txt")})),
                call("ls", json!({"path": "~"})),
            ],
            vec![call("write", json!({"path": "~/written.txt", "content": "ü\n"}))],
        ];
        let came = answers(&pi, &there, &steps);
        let version = pi.version;
        assert!(
            came[0].starts_with(&format!("{PROJECT}\nthe environment's\n")),
            "{version}: {}",
            came[0]
        );
        assert!(came[0].contains("of stderr\n"), "{version}: {}", came[0]);
        assert!(came[1].starts_with("Successfully wrote"), "{version}: {}", came[1]);
        assert!(came[1].ends_with("to sub/dir/new.txt"), "{version}: {}", came[1]);
        assert_eq!(came[2], "alpha\nbeta\n", "{version}");
        assert_eq!(came[3], "Successfully replaced 1 block(s) in @sub/dir/new.txt.", "{version}");
        assert_eq!(came[6], ".gitignore\na.txt\nignored/\nmarker.txt\nsub/", "{version}");
        assert_eq!(came[7], "a.txt\nmarker.txt\nsub/dir/new.txt", "{version}");
        assert_eq!(came[8], "a.txt:2: drei\nsub/dir/new.txt:2: BETA", "{version}");
        assert_eq!(came[9], "the environment's\n", "{version}");
        assert_eq!(came[10], "of the home there\n", "{version}");
        assert_eq!(came[11], "the environment's\n", "{version}");
        assert_eq!(came[12], "at-home.txt\nproject/", "{version}");
        assert_eq!(there.read("sub/dir/new.txt"), "alpha\nBETA\n", "{version}");
        assert_eq!(there.read("a.txt"), "eins!\r\ndrei\r\n", "{version}");
        assert_eq!(there.read("/there/written.txt"), "ü\n", "{version}");
    }
}

#[test]
fn what_fails_says_why_in_paths_of_the_environment() {
    const NAME: &str = "what_fails_says_why_in_paths_of_the_environment";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    there.write("file", "x\n");
    let edits = json!([{"oldText": "nope", "newText": "y"}]);
    for pi in versions {
        let steps = [vec![
            call("read", json!({"path": "no/such"})),
            call("read", json!({"path": "."})),
            call("read", json!({"path": "file", "offset": 9})),
            call("write", json!({"path": "file/below", "content": "x"})),
            call("edit", json!({"path": "no/such", "edits": edits})),
            call("edit", json!({"path": "file", "edits": edits})),
            call("ls", json!({"path": "no/such"})),
            call("ls", json!({"path": "file"})),
            call("ls", json!({"path": "file/below"})),
            call("find", json!({"pattern": "*", "path": "no/such"})),
            call("find", json!({"pattern": "nothing-has-this-name"})),
            call("grep", json!({"pattern": "x", "path": "no/such"})),
            call("grep", json!({"pattern": "("})),
            call("grep", json!({"pattern": "nothing has this"})),
            call("ls", json!({"path": "/proc/self/fdinfo/.."})),
        ]];
        let came = answers(&pi, &there, &steps);
        let [none, file, below] =
            ["no/such", "file", "file/below"].map(|name| format!("{PROJECT}/{name}"));
        let expected = [
            (0, vec!["ENOENT", none.as_str()]),
            (1, vec!["EISDIR", PROJECT]),
            (2, vec!["Offset 9 is beyond end of file (2 lines total)"]),
            (3, vec!["ENOTDIR", &file]),
            (4, vec!["Could not edit file: no/such. Error code: ENOENT."]),
            (5, vec!["Could not find the exact text in file"]),
            (6, vec!["Path not found: ", none.as_str()]),
            (7, vec!["Not a directory: ", &file]),
            (8, vec!["Path not found: ", &below]),
            (9, vec!["Path not found: ", none.as_str()]),
            (10, vec!["No files found matching pattern"]),
            (11, vec!["Path not found: ", none.as_str()]),
            (12, vec!["pattern", "unclosed group"]),
            (13, vec!["No matches found"]),
        ];
        for (answer, parts) in expected {
            for part in parts {
                let text = &came[answer];
                assert!(text.contains(part), "{}: {answer}: no {part} in {text}", pi.version);
            }
        }
        assert!(came.iter().all(|text| !text.contains("/dev/null")), "{came:#?}");
        assert_eq!(there.read("file"), "x\n");
    }
}

#[test]
fn reads_are_cut_as_pi_cuts_them_and_images_are_known_by_their_content() {
    const NAME: &str = "reads_are_cut_as_pi_cuts_them_and_images_are_known_by_their_content";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    let numbers: String = (1..=5000).map(|number| format!("{number}\n")).collect();
    there.write("long", &numbers);
    // More than is asked for at once.
    there.write("huge", "0123456789abcdef\n".repeat(600_000));
    there.write("picture.txt", PIXEL);
    for pi in versions {
        let steps = [vec![
            call("read", json!({"path": "long"})),
            call("read", json!({"path": "long", "offset": 4998, "limit": 2})),
            call("read", json!({"path": "huge", "offset": 600_000})),
            call("read", json!({"path": "picture.txt"})),
            call("read", json!({"path": "/proc/self/status", "limit": 1})),
        ]];
        let came = answers(&pi, &there, &steps);
        assert!(came[0].starts_with("1\n2\n"), "{}", came[0]);
        assert!(came[0].contains("[Showing lines 1-2000 of 5001. Use offset=2001"), "{}", came[0]);
        assert!(came[1].starts_with("4998\n4999"), "{}", came[1]);
        assert_eq!(came[2], "0123456789abcdef\n");
        assert!(came[3].contains("[image/png]"), "{}", came[3]);
        assert!(came[4].starts_with("Name:\tta\n"), "{}", came[4]);
    }
}

/// One pixel, PNG.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 13, b'I', b'D', b'A', b'T',
    0x78, 0x9c, 0x62, 0, 1, 0, 0, 5, 0, 1, 0x0d, 0x0a, 0x2d, 0xb4, 0, 0, 0, 0, b'I', b'E', b'N',
    b'D', 0xae, 0x42, 0x60, 0x82,
];

/// Links, names with blanks and odd characters, many entries, and the marks of a directory.
#[test]
fn lists_have_what_pi_lists_and_searches_their_limits() {
    const NAME: &str = "lists_have_what_pi_lists_and_searches_their_limits";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    there.write("list/B", "");
    there.write("list/a b", "");
    there.write("list/dir/x", "");
    let list = there.path(&format!("{PROJECT}/list"));
    for (target, name) in [("dir", "to-dir"), ("B", "to-file"), ("nowhere", "broken")] {
        std::os::unix::fs::symlink(target, list.join(name)).unwrap();
    }
    for number in 0..600 {
        there.write(&format!("many/{number:03}"), format!("needle {number}\n").repeat(2));
    }
    there.write("long-line", format!("{}needle\n", "x".repeat(600)));
    for pi in versions {
        let steps = [vec![
            call("ls", json!({"path": "list"})),
            call("ls", json!({"path": "many"})),
            call("find", json!({"pattern": "**/*", "path": "many", "limit": 5})),
            call("grep", json!({"pattern": "needle", "path": "many", "limit": 3})),
            call("grep", json!({"pattern": "needle", "path": "many/007", "context": 1})),
            call("grep", json!({"pattern": "XNEEDLE", "ignoreCase": true, "path": "long-line"})),
            call("grep", json!({"pattern": ".", "literal": true, "path": "many"})),
            call("grep", json!({"pattern": "needle", "glob": "./many/00*", "limit": 30})),
        ]];
        let came = answers(&pi, &there, &steps);
        assert_eq!(came[0], "a b\nB\ndir/\nto-dir/\nto-file");
        assert_eq!(came[1].lines().take_while(|line| !line.is_empty()).count(), 500);
        assert!(came[1].ends_with("[500 entries limit reached. Use limit=1000 for more]"));
        assert!(came[2].starts_with("000\n001\n002\n003\n004\n\n[5 results limit"), "{}", came[2]);
        let limit = "[3 matches limit reached. Use limit=6 for more, or refine pattern]";
        let first = format!("000:1: needle 0\n000:2: needle 0\n001:1: needle 1\n\n{limit}");
        assert_eq!(came[3], first);
        assert_eq!(came[4], "007:1: needle 7\n007:2: needle 7");
        assert!(came[5].starts_with(&format!("long-line:1: {}", "x".repeat(500))), "{}", came[5]);
        assert!(came[5].contains("Some lines truncated to 500 chars."), "{}", came[5]);
        assert_eq!(came[6], "No matches found");
        assert_eq!(came[7].lines().count(), 20, "{}", came[7]);
    }
}
