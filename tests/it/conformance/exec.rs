//! Command lines: what goes in and what comes out.

use std::path::Path;

use ta_exec::protocol::{Base64, EnvDelta, ExecParams};
use ta_exec::{ErrorKind, StartStep};

use super::{finish, over_all, run, shell, told};

fn env(changes: &[(&str, Option<&str>)]) -> Option<EnvDelta> {
    let mut delta = EnvDelta::new();
    for (name, value) in changes {
        delta.insert((*name).to_owned(), value.map(str::to_owned)).unwrap();
    }
    Some(delta)
}

#[test]
fn each_stream_comes_in_order_and_whole() {
    over_all(|environment| {
        let ran = shell(environment, "seq 20000; seq 20000 >&2; printf '\\377'");
        let numbers: String = (1..=20_000).map(|number| format!("{number}\n")).collect();
        assert!(ran.stdout == format!("{numbers}\u{fffd}") && ran.stderr == numbers);
        ran
    });
}

#[test]
fn bytes_are_counted() {
    over_all(|environment| {
        let ran = shell(environment, "printf abc; printf wxyz >&2");
        assert_eq!((ran.exit.stdout_bytes, ran.exit.stderr_bytes), (3, 4));
        ran
    });
}

#[test]
fn an_exit_code_is_the_command_s() {
    over_all(|environment| [0, 1, 42, 255].map(|code| shell(environment, &format!("exit {code}"))));
}

#[test]
fn a_signal_that_ended_it_has_a_name() {
    over_all(|environment| {
        let ran = shell(environment, "kill -SEGV $$");
        assert_eq!((ran.exit.exit_code, ran.exit.signal.as_deref()), (None, Some("SIGSEGV")));
        ran
    });
}

#[test]
fn stdin_is_fed_and_closed_and_empty_without_it() {
    over_all(|environment| {
        let bytes = b"many words\n".repeat(100_000);
        let mut params = ExecParams::new("wc -c | tr -d ' '");
        params.stdin = Some(Base64(bytes));
        assert_eq!(run(environment, &params).stdout, "1100000\n");
        shell(environment, "wc -c | tr -d ' '")
    });
}

#[test]
fn its_stdin_is_closed_to_writes() {
    over_all(|environment| {
        let process = environment.exec(&ExecParams::new("sleep 0.3")).unwrap();
        let refused = told(environment, process.control().write(b"x", false));
        finish(process).unwrap();
        let kind = refused.kind;
        (kind, refused.step)
    });
}

#[test]
fn merged_streams_come_as_they_were_written() {
    over_all(|environment| {
        let line = "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done";
        let mut params = ExecParams::new(line);
        params.merge_stderr = Some(true);
        let ran = run(environment, &params);
        assert_eq!(ran.stderr, "");
        ran
    });
}

#[test]
fn variables_are_set_and_removed_and_the_others_stay() {
    over_all(|environment| {
        let mut params =
            ExecParams::new("echo \"$NEW ${HOME+home} ${PATH:+path} ${TA_OLD-unset}\"");
        params.env = env(&[("NEW", Some("a b=c")), ("HOME", None), ("TA_OLD", None)]);
        let ran = run(environment, &params);
        assert_eq!(ran.stdout, "a b=c  path unset\n");
        ran
    });
}

#[test]
fn it_runs_where_it_is_told_to() {
    over_all(|environment| {
        std::fs::create_dir(environment.cwd().join("below")).unwrap();
        let pwd = |cwd: Option<&Path>| {
            let mut params = ExecParams::new("pwd");
            params.cwd = cwd.map(|cwd| cwd.to_str().unwrap().to_owned());
            run(environment, &params).stdout
        };
        let here = environment.cwd().to_str().unwrap();
        assert_eq!(pwd(None), format!("{here}\n"));
        assert_eq!(pwd(Some(Path::new("below"))), format!("{here}/below\n"));
        assert_eq!(pwd(Some(&environment.cwd().join("below"))), format!("{here}/below\n"));
        pwd(Some(Path::new("/")))
    });
}

#[test]
fn a_directory_that_is_missing_is_told_with_the_step() {
    over_all(|environment| {
        std::fs::write(environment.cwd().join("file"), "").unwrap();
        ["nope", "/nope/nope", "file"].map(|cwd| {
            let mut params = ExecParams::new("true");
            params.cwd = Some(cwd.to_owned());
            let told = told(environment, finish(environment.exec(&params).unwrap()));
            assert_eq!(told.step, Some(StartStep::Cwd));
            told
        })
    });
}

#[test]
fn what_is_wrong_with_the_params_is_told_by_the_first_event() {
    over_all(|environment| {
        let of = |change: &dyn Fn(&mut ExecParams)| {
            let mut params = ExecParams::new("true");
            change(&mut params);
            told(environment, finish(environment.exec(&params).unwrap()))
        };
        let all = [
            of(&|params| params.command = "a\0b".to_owned()),
            of(&|params| params.shell = Some(String::new())),
            of(&|params| params.shell = Some("/nope/sh".to_owned())),
            of(&|params| params.shell = Some("no-such-shell".to_owned())),
            of(&|params| params.cwd = Some("a\0b".to_owned())),
            of(&|params| params.env = env(&[("BIG", Some(&"x".repeat(200_000)))])),
        ];
        assert_eq!(all[0].kind, ErrorKind::InvalidParams);
        all
    });
}
