//! What ssh asks, and who answers.

use std::fs;
use std::path::Path;
use std::process::Command;

use ta_exec::client::ExecClient;
use ta_exec::ssh::{Question, QuestionKind, SshHost};

use super::daemon::{Host, PASSWORD, Setup, keygen, program};
use crate::run::pty::Pty;
use crate::run::{Done, Running};
use crate::support::{DEADLINE, alone, eventually};

/// `ta run` at a terminal.
fn at_terminal(host: &Host, args: &[&str]) -> (Pty, Running) {
    let pty = Pty::new(200, 24);
    let running = pty.start(host.ta("run", args));
    (pty, running)
}

#[test]
fn a_password_is_asked_for_once_and_not_shown() {
    let test = "a_password_is_asked_for_once_and_not_shown";
    let Some(host) = Setup::new().by_password().start(test) else { return };
    let (pty, mut running) = at_terminal(&host, &["echo", "it", "runs"]);
    let before = pty.mode();
    pty.screen.wait_for("password: ");
    pty.write(&format!("{PASSWORD}\r"));
    assert_eq!(running.wait(), 0, "{}", pty.screen.text());
    pty.screen.wait_for("it runs");
    assert!(!pty.screen.text().contains(PASSWORD), "{}", pty.screen.text());
    // Nobody is asked as long as the login stands, with or without a terminal.
    host.run(&["echo", "again"]).assert(0, "again\n", "");
    assert_eq!(host.logins(), 1);
    assert!(!before.is_raw());
}

#[test]
fn a_wrong_password_is_asked_for_three_times() {
    let test = "a_wrong_password_is_asked_for_three_times";
    let Some(host) = Setup::new().by_password().start(test) else { return };
    let (pty, mut running) = at_terminal(&host, &["true"]);
    for time in 1..=3 {
        eventually(DEADLINE, "it is asked for", || {
            pty.screen.text().matches("password: ").count() == time
        });
        pty.write("wrong\r");
    }
    assert_eq!(running.wait(), 125);
    pty.screen.wait_for("cannot log in to box");
    // What ssh says on the way is shown before the next question.
    let text = pty.screen.text();
    let again = text.find("Permission denied, please try again.").unwrap();
    assert!(again < text.rfind("password: ").unwrap(), "{text}");
    assert_eq!(pty.screen.text().matches("password: ").count(), 3);
}

#[test]
fn a_password_that_is_not_given_ends_it_and_leaves_nothing() {
    let test = "a_password_that_is_not_given_ends_it_and_leaves_nothing";
    let Some(host) = Setup::new().by_password().start(test) else { return };
    let (pty, mut running) = at_terminal(&host, &["true"]);
    let before = Pty::new(80, 24).mode();
    pty.screen.wait_for("password: ");
    pty.write("half\u{3}");
    assert_eq!(running.wait(), 130, "{}", pty.screen.text());
    assert_eq!(pty.mode(), before, "the terminal is as it was");
    eventually(DEADLINE, "no ssh is left", || host.clients().is_empty());
    // The end of input is an answer too.
    let (pty, mut running) = at_terminal(&host, &["true"]);
    pty.screen.wait_for("password: ");
    pty.write("\u{4}");
    assert_eq!(running.wait(), 125, "{}", pty.screen.text());
    pty.screen.wait_for("the login to box was given up");
    assert_eq!(pty.mode(), before, "the terminal is as it was");
    // SIGTERM, while it is asked.
    let (pty, mut running) = at_terminal(&host, &["true"]);
    pty.screen.wait_for("password: ");
    running.signal(libc::SIGTERM);
    assert_eq!(running.wait(), 143);
    assert_eq!(pty.mode(), before, "the terminal is as it was");
    eventually(DEADLINE, "no ssh is left", || host.clients().is_empty());
    assert_eq!(host.logins(), 0);
}

#[test]
fn without_a_terminal_nobody_is_asked_and_that_is_said() {
    let test = "without_a_terminal_nobody_is_asked_and_that_is_said";
    let Some(host) = Setup::new().by_password().start(test) else { return };
    let mut ta = host.ta("run", &["true"]);
    let done = Done::of(without_terminal(&mut ta));
    done.assert_failed(125, "there is nobody to answer");
    assert!(done.stderr.contains("password"), "{done:?}");
}

/// The same command in a session of its own.
fn without_terminal(ta: &mut Command) -> Command {
    let mut setsid = Command::new("setsid");
    setsid.args(["-w"]).arg(ta.get_program()).args(ta.get_args());
    for (name, value) in ta.get_envs() {
        match value {
            Some(value) => setsid.env(name, value),
            None => setsid.env_remove(name),
        };
    }
    setsid.stdin(std::process::Stdio::null());
    setsid
}

#[test]
fn the_passphrase_of_a_key_is_asked_for() {
    let Some(host) = Setup::new().start("the_passphrase_of_a_key_is_asked_for") else { return };
    for name in ["user", "user.pub"] {
        fs::remove_file(host.dir.join(name)).unwrap();
    }
    keygen(&host.dir.join("user"), "the passphrase");
    let (pty, mut running) = at_terminal(&host, &["echo", "it", "runs"]);
    pty.screen.wait_for("Enter passphrase for key");
    pty.write("wrong\r");
    eventually(DEADLINE, "it is asked for again", || {
        pty.screen.text().matches("Enter passphrase").count() == 2
    });
    pty.write("the passphrase\r");
    assert_eq!(running.wait(), 0, "{}", pty.screen.text());
    pty.screen.wait_for("it runs");
}

/// The host's key has to be accepted by somebody.
fn asks_about_keys(host: &Host) {
    let config = fs::read_to_string(host.dir.join("config")).unwrap();
    let config = config.replace("StrictHostKeyChecking no", "StrictHostKeyChecking ask");
    fs::write(host.dir.join("config"), config).unwrap();
}

#[test]
fn an_unknown_host_is_asked_about_and_only_yes_is_yes() {
    let test = "an_unknown_host_is_asked_about_and_only_yes_is_yes";
    let Some(host) = Setup::new().by_password().start(test) else { return };
    asks_about_keys(&host);
    let known = host.dir.join("known");
    // Without anybody to say yes it is no.
    let done = Done::of(without_terminal(&mut host.ta("run", &["true"])));
    done.assert_failed(125, "there is nobody to answer");
    assert!(!known.exists());
    for answer in ["no\r", "\r", &format!("{PASSWORD}\r")] {
        let (pty, mut running) = at_terminal(&host, &["true"]);
        pty.screen.wait_for("(yes/no/[fingerprint])? ");
        pty.write(answer);
        assert_eq!(running.wait(), 125, "{answer:?}: {}", pty.screen.text());
        assert!(!known.exists(), "{answer:?}");
        assert!(!pty.screen.text().contains("password: "), "{answer:?}");
    }
    let (pty, mut running) = at_terminal(&host, &["true"]);
    pty.screen.wait_for("(yes/no/[fingerprint])? ");
    pty.write("yes\r");
    pty.screen.wait_for("password: ");
    pty.write(&format!("{PASSWORD}\r"));
    assert_eq!(running.wait(), 0, "{}", pty.screen.text());
    assert!(known.exists());
}

#[test]
fn a_changed_key_is_refused_and_nobody_is_asked() {
    let test = "a_changed_key_is_refused_and_nobody_is_asked";
    let Some(host) = Setup::new().start(test) else { return };
    asks_about_keys(&host);
    keygen(&host.dir.join("other"), "");
    let other = fs::read_to_string(host.dir.join("other.pub")).unwrap();
    host.dir.write("known", format!("[127.0.0.1]:{} {other}", host.port));
    let done = host.run(&["true"]);
    done.assert_failed(125, "its key has changed");
    assert!(done.stderr.contains("known:1") && done.stderr.contains("ssh-keygen -R"), "{done:?}");
    assert_eq!(host.logins(), 0);
}

/// An ssh that asks what a test tells it to, by its askpass program, as every ssh does.
fn asking_ssh(dir: &Path, version: &str, script: &str) {
    let path = dir.join("bin/ssh");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in *' -V '*) echo '{version}' >&2; exit 0;; *' -G '*) exit 1;; \
         esac\n{script}\n"
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

fn with_ssh_of(host: &Host, mut ta: Command) -> Command {
    let path = std::env::var("PATH").unwrap();
    ta.env("PATH", format!("{}:{path}", host.dir.join("bin").display()));
    ta
}

#[test]
fn a_one_time_code_is_a_secret_and_a_touch_a_notice() {
    let test = "a_one_time_code_is_a_secret_and_a_touch_a_notice";
    let Some(host) = Setup::new().start(test) else { return };
    let script = "case \" $* \" in *' -M '*)
    SSH_ASKPASS_PROMPT=none \"$SSH_ASKPASS\" 'Confirm user presence for key'
    code=$(\"$SSH_ASKPASS\" 'Verification code: ') || exit 255
    [ \"$code\" = 123456 ] || { echo 'u@h: Permission denied (keyboard-interactive).' >&2; exit 255; }
    SSH_ASKPASS_PROMPT=confirm \"$SSH_ASKPASS\" 'Allow use of key?' || exit 255
    esac
    exec /usr/bin/ssh \"$@\"";
    asking_ssh(host.dir.path(), "OpenSSH_9.2p1", script);
    let pty = Pty::new(100, 24);
    let mut running = pty.start(with_ssh_of(&host, host.ta("run", &["echo", "it", "runs"])));
    pty.screen.wait_for("Confirm user presence for key\r\n");
    pty.screen.wait_for("Verification code: ");
    pty.write("123456\r");
    pty.screen.wait_for("Allow use of key?");
    pty.write("yes\r");
    assert_eq!(running.wait(), 0, "{}", pty.screen.text());
    pty.screen.wait_for("it runs");
    assert!(!pty.screen.text().contains("123456"));
}

/// It has no SSH_ASKPASS_REQUIRE: it asks its askpass program where it has no terminal and there is a
/// display.
#[test]
fn an_ssh_before_8_4_asks_too() {
    let test = "an_ssh_before_8_4_asks_too";
    let Some(host) = Setup::new().by_password().start(test) else { return };
    let script = "[ -n \"$DISPLAY\" ] || { echo 'no display' >&2; exit 255; }
    (: </dev/tty) 2>/dev/null && { echo 'it has a terminal' >&2; exit 255; }
    unset SSH_ASKPASS_REQUIRE
    exec /usr/bin/ssh \"$@\"";
    asking_ssh(host.dir.path(), "OpenSSH_8.2p1 Ubuntu-4ubuntu0.5", script);
    let pty = Pty::new(100, 24);
    let mut ta = with_ssh_of(&host, host.ta("run", &["echo", "it", "runs"]));
    ta.env_remove("DISPLAY");
    let mut running = pty.start(ta);
    pty.screen.wait_for("password: ");
    pty.write(&format!("{PASSWORD}\r"));
    assert_eq!(running.wait(), 0, "{}", pty.screen.text());
    pty.screen.wait_for("it runs");
}

#[test]
fn a_login_that_ends_while_somebody_types_gives_the_terminal_back() {
    let test = "a_login_that_ends_while_somebody_types_gives_the_terminal_back";
    let Some(host) = Setup::new().start(test) else { return };
    let go = host.dir.join("go");
    let script = format!(
        "(\"$SSH_ASKPASS\" 'Verification code: ' >/dev/null 2>&1 &)
    while [ ! -e '{}' ]; do sleep 0.05; done
    echo 'Connection closed by remote host' >&2; exit 255",
        go.display()
    );
    asking_ssh(host.dir.path(), "OpenSSH_9.2p1", &script);
    let pty = Pty::new(100, 24);
    let before = pty.mode();
    let mut running = pty.start(with_ssh_of(&host, host.ta("run", &["true"])));
    pty.screen.wait_for("Verification code: ");
    eventually(DEADLINE, "it is not shown", || pty.mode() != before);
    fs::write(go, "").unwrap();
    assert_eq!(running.wait(), 125, "{}", pty.screen.text());
    pty.screen.wait_for("cannot log in to box: Connection closed by remote host");
    assert_eq!(pty.mode(), before);
}

/// What the library asks its caller.
#[test]
fn a_library_is_asked_what_kind_of_answer_is_wanted() {
    let test = "a_library_is_asked_what_kind_of_answer_is_wanted";
    let Some(host) = Setup::new().by_password().start(test) else { return };
    asks_about_keys(&host);
    let run = host.dir.join("run").display().to_string();
    let config = host.dir.join("config").display().to_string();
    let variables = [("XDG_RUNTIME_DIR", run.as_str()), ("TA_IT_CONFIG", &config)];
    if !alone("ssh::prompts::the_library_asks", &variables) {
        assert_eq!(host.logins(), 1);
    }
}

#[test]
fn the_library_asks() {
    let Some(config) = std::env::var_os("TA_IT_CONFIG") else { return };
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = std::sync::Arc::clone(&asked);
    let named = || SshHost::new("box").unwrap().config(&config).program(program());
    let host = named().asking(move |question: &Question| {
        told.lock().unwrap().push(question.kind);
        Some(match question.kind {
            QuestionKind::YesOrNo => "yes".to_owned(),
            _ => PASSWORD.to_owned(),
        })
    });
    let refused = named().asking(|_| None);
    let refused = ExecClient::ssh(refused).err().unwrap();
    assert_eq!(refused.kind(), &ta_exec::ErrorKind::Refused, "{refused:?}");
    let client = ExecClient::ssh(host).unwrap();
    assert_eq!(client.initialize().unwrap().server_name, "ta");
    assert_eq!(*asked.lock().unwrap(), [QuestionKind::YesOrNo, QuestionKind::Secret]);
}
