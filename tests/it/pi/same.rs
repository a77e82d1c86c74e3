//! A session in the environment and the same session here, without the extension: what the model is
//! told is the same, and it takes about as long.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::there::There;
use super::{Here, Model, Pi, Sent, asked, bash, call, finish};
use crate::support::lacks;

/// The one and the other have the same directory, by the same name.
fn fill(cwd: &Path) {
    let write = |name: &str, content: String| {
        let path = cwd.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    for number in 0..120 {
        let lines = (0..40).map(|line| format!("fn f{line}() {{ {} }}\n", number * line));
        write(&format!("src/m{}/f{number}.rs", number % 7), lines.collect());
    }
    write(".gitignore", "out\n*.log\n".into());
    write("out/f.rs", "fn f1() { }\n".into());
    write("a.log", "fn f1() { }\n".into());
    write("crlf.txt", "\u{feff}one\r\ntwo fn\r\nthree\r\n".into());
    write("long.txt", (1..=3000).map(|line| format!("line {line}\n")).collect());
    write("wide.txt", format!("{} needle\n", "wide ".repeat(200)));
}

fn script() -> Vec<Vec<Value>> {
    let edit = |path: &str, edits: Value| call("edit", json!({"path": path, "edits": edits}));
    vec![
        vec![bash("pwd; ls src"), bash("exit 5"), bash("printf 'no end'"), bash("true")],
        vec![call("write", json!({"path": "new/deep/file.txt", "content": "alpha\nbeta\n"}))],
        vec![
            edit("new/deep/file.txt", json!([{"oldText": "beta", "newText": "BETA\nGAMMA"}])),
            edit("crlf.txt", json!([{"oldText": "two fn\nthree", "newText": "2\n3"}])),
            edit("long.txt", json!([{"oldText": "line", "newText": "x"}])),
        ],
        vec![
            call("read", json!({"path": "new/deep/file.txt"})),
            call("read", json!({"path": "crlf.txt"})),
            call("read", json!({"path": "long.txt"})),
            call("read", json!({"path": "long.txt", "offset": 2500, "limit": 10})),
            call("ls", json!({})),
            call("ls", json!({"path": "src/m1"})),
            call("ls", json!({"path": "none"})),
        ],
        vec![
            call("find", json!({"pattern": "*.rs", "path": "src/m3"})),
            call("find", json!({"pattern": "src/m2/*.rs"})),
            call("grep", json!({"pattern": "f3[0-9]\\(\\) \\{ 0", "path": "src"})),
            call(
                "grep",
                json!({"pattern": "f2()", "literal": true, "glob": "**/f11*.rs", "context": 2}),
            ),
            call("grep", json!({"pattern": "F7\\(", "ignoreCase": true, "path": "src/m1/f1.rs"})),
            call("grep", json!({"pattern": "needle"})),
            call("grep", json!({"pattern": "nothing of the kind"})),
        ],
        vec![bash("seq 1 4000 | sed 's/$/ line/'"), bash("cat marker.txt; false")],
    ]
}

const FD: &str = r#"#!/bin/sh
for word; do
    shift
    [ "$word" = --no-require-git ] || set -- "$@" "$word"
done
exec fdfind "$@"
"#;

struct Both {
    here: Here,
    there: There,
    pi: Pi,
}

impl Both {
    fn new(test: &str, pi: Pi) -> Option<Self> {
        if ["rg", "fdfind"].iter().any(|program| lacks(test, program)) {
            return None;
        }
        let here = Here::new();
        let there = There::start_in(test, here.cwd.to_str().unwrap())?;
        // pi looks for fd by its own name, beside its settings; Debian's does not know one option.
        std::fs::create_dir(here.dir.join("agent/bin")).unwrap();
        here.dir.program("agent/bin/fd", FD);
        Some(Self { here, there, pi })
    }

    fn local(&self) -> (Sent, Duration) {
        self.fresh(&self.here.cwd);
        let model = Model::that(&script());
        let mut command = self.here.plain(&self.pi, &model);
        asked(&mut command);
        let took = finish(command).took;
        (model.sent(), took)
    }

    fn remote(&self) -> (Sent, Duration) {
        self.fresh(&self.there.path(self.here.cwd.to_str().unwrap()));
        let model = Model::that(&script());
        let took = finish(self.here.session(&self.pi, &model, &self.there)).took;
        (model.sent(), took)
    }

    fn fresh(&self, cwd: &Path) {
        std::fs::remove_dir_all(cwd).unwrap();
        std::fs::create_dir(cwd).unwrap();
        fill(cwd);
        std::fs::write(cwd.join("marker.txt"), "a marker\n").unwrap();
    }
}

#[test]
fn the_model_is_told_the_same_as_here() {
    const NAME: &str = "the_model_is_told_the_same_as_here";
    let Some(versions) = Pi::all(NAME) else { return };
    for pi in versions {
        let Some(both) = Both::new(NAME, pi) else { return };
        let (there, here) = (both.remote().0.answers(), both.local().0.answers());
        let calls: Vec<_> = script().concat();
        assert_eq!((there.len(), here.len()), (calls.len(), calls.len()));
        for ((there, here), call) in there.iter().zip(&here).zip(&calls) {
            assert_eq!(plain(there), plain(here), "{}: {call}", both.pi.version);
        }
    }
}

/// Without what is in no order, and without the number in the name of a file.
fn plain(answer: &str) -> Vec<String> {
    let mut lines: Vec<_> = answer.lines().map(str::to_owned).collect();
    if let Some(last) = lines.iter_mut().find(|line| line.contains("Full output: ")) {
        last.truncate(last.find("Full output: ").unwrap());
    } else {
        lines.sort();
    }
    lines
}

#[test]
fn a_session_takes_about_as_long_as_here() {
    const NAME: &str = "a_session_takes_about_as_long_as_here";
    let Some(pi) = Pi::new(NAME) else { return };
    let Some(both) = Both::new(NAME, pi) else { return };
    let (mut here, mut there) = (Duration::MAX, Duration::MAX);
    // By turns, and the best of each: the machine may be busy at any time.
    for round in 1..=8 {
        here = here.min(both.local().1);
        there = there.min(both.remote().1);
        let ratio = there.as_secs_f64() / here.as_secs_f64();
        println!("a session: {here:?} here, {there:?} there, {ratio:.2} times as long");
        if round >= 2 && ratio <= 1.2 {
            return;
        }
    }
    panic!(
        "a session takes {there:?} in the environment and {here:?} here, 1.2 times that allowed"
    );
}
