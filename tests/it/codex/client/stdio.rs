//! The environment as a child of Codex: on this machine, and through the real ssh.

use std::fs;
use std::path::Path;

use crate::codex::here::Here;
use crate::codex::model::{Model, Step, exec};
use crate::ssh::daemon;
use crate::support::{binary, eventually, procfs};

const SERVE: [&str; 4] = ["exec-server", "--stdio", "--dialect", "codex"];

fn steps() -> [Step; 3] {
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** End Patch";
    [
        exec("tr '\\0' ' ' </proc/$PPID/cmdline; id -u; pwd; exit 4"),
        Step::Patch(patch.to_owned()),
        exec("cat new.txt"),
    ]
}

#[track_caller]
fn assert_done(here: &Here, model: &Model, uid: u32) {
    let came = model.answers();
    let cwd = here.cwd.display();
    assert!(came[0].contains("Process exited with code 4"), "{came:#?}");
    assert!(came[0].ends_with(&format!("--dialect codex {uid}\n{cwd}\n")), "{came:#?}");
    assert!(came[1].contains("Success"), "{came:#?}");
    assert!(came[2].ends_with("Output:\nhello\n"), "{came:#?}");
    assert_eq!(fs::read_to_string(here.path("new.txt")).unwrap(), "hello\n");
}

#[test]
fn a_server_on_stdio_is_all_that_is_needed() {
    const NAME: &str = "a_server_on_stdio_is_all_that_is_needed";
    let Some(here) = Here::new(NAME) else { return };
    here.reached_by(&binary(), &SERVE);
    let model = Model::that(&steps());
    here.session(&model).finish();
    let uid = fs::metadata(&here.cwd).map(|found| std::os::unix::fs::MetadataExt::uid(&found));
    assert_done(&here, &model, uid.unwrap());
}

#[test]
fn a_server_is_reached_by_a_command_that_reaches_one() {
    const NAME: &str = "a_server_is_reached_by_a_command_that_reaches_one";
    let Some(here) = Here::new(NAME) else { return };
    let via = format!("'{}' {}", binary().display(), SERVE.join(" "));
    here.reached_by(&binary(), &["connect", "--via", &via]);
    let model = Model::that(&steps());
    here.session(&model).finish();
    let uid = fs::metadata(&here.cwd).map(|found| std::os::unix::fs::MetadataExt::uid(&found));
    assert_done(&here, &model, uid.unwrap());
}

#[test]
fn a_server_is_reached_through_the_real_ssh() {
    const NAME: &str = "a_server_is_reached_through_the_real_ssh";
    let Some(here) = Here::new(NAME) else { return };
    let Some(host) = daemon::Setup::new().start(NAME) else { return };
    let ta = host.home().join("ta");
    crate::support::rootfs::copy_program(&daemon::program(), &ta);
    daemon::own_all(&host.home(), host.uid);
    let config = host.dir.join("config").to_str().unwrap().to_owned();
    let mut words = vec!["-F", config.as_str(), "box", ta.to_str().unwrap()];
    words.extend(SERVE);
    here.reached_by(Path::new("ssh"), &words);
    let model = Model::that(&steps());
    here.session(&model).finish();
    assert_done(&here, &model, host.uid);
    eventually(crate::support::DEADLINE, "nothing is left there", || {
        let running = |pid: &u32| procfs::state(*pid) != "Z";
        !host.processes().iter().any(running)
    });
}
