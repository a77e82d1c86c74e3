//! The bash tool: how commands end, and what of their output the model is shown.

use std::time::{Duration, Instant};

use serde_json::json;

use super::there::{PROJECT, There};
use super::{Pi, answers, bash, call};
use crate::support::Victim;

#[test]
fn commands_end_as_they_do_here() {
    const NAME: &str = "commands_end_as_they_do_here";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    for pi in versions {
        let (timed, held) = (Victim::new(), Victim::new());
        let timeout = |command: String, seconds: f64| {
            call("bash", json!({"command": command, "timeout": seconds}))
        };
        let steps = [
            vec![
                bash("echo before; exit 3"),
                bash("kill -9 $$"),
                bash("kill -SEGV $$"),
                bash("no-such-program-anywhere"),
                bash("true"),
                bash("cat; echo read to the end"),
                bash(&format!("{} & echo at once", held.command())),
                timeout(format!("echo before; {} & wait", timed.command()), 0.5),
                timeout("echo no".to_owned(), -1.0),
            ],
            vec![bash("printf '\\342\\202'; sleep 0.2; printf x >&2; sleep 0.2; printf '\\254'")],
            vec![bash("tr a-z A-Z <<< 'it is bash'")],
        ];
        let start = Instant::now();
        let came = answers(&pi, &there, &steps);
        // (Of a command without output the two versions say the same in other words.)
        let expected = [
            "before\n\n\nCommand exited with code 3",
            "Command exited with code 137",
            "Command exited with code 139",
            "Command exited with code 127",
            "(no output)",
            "read to the end\n",
            "at once\n",
            "before\n\n\nCommand timed out after 0.5 seconds",
            "Invalid timeout: must be a finite number of seconds",
            "x\u{20ac}",
            "IT IS BASH\n",
        ];
        for (answer, expected) in came.iter().zip(expected) {
            assert!(answer.ends_with(expected), "{}: {answer:?}, not {expected:?}", pi.version);
        }
        timed.await_gone();
        held.await_gone();
        assert!(start.elapsed() < Duration::from_secs(50), "nothing was waited for");
    }
}

#[test]
fn the_variables_are_the_environments_own_and_those_of_pi() {
    const NAME: &str = "the_variables_are_the_environments_own_and_those_of_pi";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    for pi in versions {
        let came = answers(&pi, &there, &[vec![bash("env")]]);
        let value = |name: &str| {
            let start = format!("{name}=");
            came[0].lines().find_map(|line| line.strip_prefix(&start))
        };
        assert_eq!(value("HOME"), Some("/there"));
        assert_eq!(value("TMPDIR"), Some("/tmp"));
        assert_eq!(value("PI_CODING_AGENT"), Some("true"));
        assert_eq!(value("A_SECRET_OF_THE_HOST"), None);
        assert!(!came[0].contains("TA_EXEC"), "{}", came[0]);
        if !pi.is_old() {
            assert_eq!(value("AI_AGENT"), Some("pi"));
            assert_eq!(value("PI_MODEL"), Some("mock"));
            assert!(value("PI_SESSION_ID").is_some_and(|id| !id.is_empty()));
        }
    }
}

#[test]
fn long_output_is_kept_where_read_can_open_it() {
    const NAME: &str = "long_output_is_kept_where_read_can_open_it";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    for pi in versions {
        let kept = || {
            let tmp = std::fs::read_dir(there.path("/tmp")).unwrap();
            let paths = tmp.map(|entry| entry.unwrap().path());
            let mut kept: Vec<_> = paths.filter(|path| path.extension().is_some()).collect();
            kept.sort_by_key(|path| path.metadata().unwrap().len());
            kept
        };
        let steps = [
            vec![bash("seq 1 5000"), bash("seq 1 300000; echo to stderr >&2; exit 7")],
            vec![bash("head -c 200000 /dev/zero | tr '\\0' y")],
            // What `read` makes of each of them.
            vec![bash("ls -l /tmp/pi-bash-*.log; wc -l /tmp/pi-bash-*.log")],
        ];
        let came = answers(&pi, &there, &steps);
        // (The older one counts the end as a line.)
        let first = if pi.is_old() { "3002\n3003\n" } else { "3001\n3002\n" };
        let last = 5000 + usize::from(pi.is_old());
        let footer = format!("[Showing lines {}-{last} of {last}. Full output: /tmp/", last - 1999);
        assert!(came[0].starts_with(first), "{:.100}", came[0]);
        assert!(came[0].contains(&footer) && came[0].ends_with(".log]"), "{}", tail(&came[0]));
        assert!(came[1].contains("300000\n"), "{}", tail(&came[1]));
        assert!(came[1].contains(". Full output: /tmp/pi-bash-"), "{}", tail(&came[1]));
        assert!(came[1].ends_with(".log]\n\nCommand exited with code 7"), "{}", tail(&came[1]));
        let line = "[Showing last 50.0KB of line 1 (line is 195.3KB). Full output: /tmp/";
        assert!(came[2].contains(line), "{}", tail(&came[2]));
        assert!(came[3].contains("-rw-------"), "{}", came[3]);

        let files = kept();
        let sizes: Vec<_> = files.iter().map(|file| file.metadata().unwrap().len()).collect();
        let of_seq =
            |last: usize| (1..=last).map(|it| it.to_string().len() as u64 + 1).sum::<u64>();
        assert_eq!(sizes, [of_seq(5000), 200_000, of_seq(300_000) + 10], "{files:?}");
        let name = |path: &std::path::Path| {
            format!("/tmp/{}", path.file_name().unwrap().to_str().unwrap())
        };
        assert!(came[0].contains(&name(&files[0])), "{}", tail(&came[0]));
        let read = call("read", json!({"path": name(&files[0]), "offset": 1, "limit": 2}));
        assert!(answers(&pi, &there, &[vec![read]])[0].starts_with("1\n2\n"));
        files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }
}

fn tail(text: &str) -> &str {
    let start = text.char_indices().rev().nth(300).map_or(0, |(at, _)| at);
    &text[start..]
}

#[test]
fn calls_of_one_message_run_side_by_side() {
    const NAME: &str = "calls_of_one_message_run_side_by_side";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    for pi in versions {
        // Each waits for the other.
        let meet = |own: &str, other: &str| {
            bash(&format!(
                "mkfifo {own} {other} 2>/dev/null; echo x >{own} & read -t 20 y <{other} && echo met"
            ))
        };
        let steps = [vec![
            meet("one", "two"),
            meet("two", "one"),
            call("write", json!({"path": "beside", "content": "x"})),
            call("read", json!({"path": "marker.txt"})),
        ]];
        let came = answers(&pi, &there, &steps);
        assert_eq!(&came[..2], ["met\n", "met\n"], "{}", pi.version);
        assert_eq!(came[3], "the environment's\n");
    }
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    const NAME: &str = "a_directory_that_is_not_there_is_named";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    let project = there.path(PROJECT);
    for pi in versions {
        let steps = [vec![bash("rm -r ../project")], vec![bash("echo no")]];
        let came = answers(&pi, &there, &steps);
        let expected = format!("Working directory does not exist: {PROJECT}\n");
        assert!(came[1].starts_with(&expected), "{}", came[1]);
        std::fs::create_dir_all(&project).unwrap();
    }
}
