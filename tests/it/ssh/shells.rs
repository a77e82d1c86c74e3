//! Login shells of every kind, with start files that say things nobody has asked for.

use std::path::Path;

use super::daemon::{Host, Setup};
use crate::support::lacks;

/// Noise of every kind that start files make: on both streams, with CRs, without an end of line, with
/// what looks like the protocol.
const NOISE: &str = "echo noise; printf 'progress 1%%\\r\\033[2Kdone\\r\\n'; echo '{\"id\":0}'; \
                     echo complaint 1>&2; printf 'no end of line'\n";

/// The shell at one of these paths.
fn at<'a>(test: &str, paths: &[&'a str]) -> Option<&'a str> {
    let found = paths.iter().copied().find(|path| Path::new(path).exists());
    if found.is_none() {
        // (It says so.)
        let name = Path::new(paths[0]).file_name().unwrap().to_str().unwrap();
        assert!(lacks(test, name));
    }
    found
}

/// A first use, a later one, and one over a new login.
fn assert_works(host: &Host, of_profile: &str) {
    for login in 0..2 {
        for time in 0..2 {
            let done = host.run(&["-c", "printf '%s|%s\\n' \"$PATH\" \"$MARKED\""]);
            assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{login}.{time}: {done:?}");
            let text = done.text();
            assert!(text.starts_with("/marked:"), "{login}.{time}: {text:?}");
            assert!(text.ends_with(&format!("|{of_profile}\n")), "{login}.{time}: {text:?}");
        }
        host.log_out();
    }
    assert_eq!(host.servers().len(), 1);
}

/// With each of these start files, `login` being the one of login shells.
fn assert_shell(test: &str, paths: &[&str], login: &str, others: &[&str], set: &str) {
    let Some(shell) = at(test, paths) else { return };
    let mut setup = Setup::new().shell(shell).home_file(login, &format!("{NOISE}{set}"));
    for other in others {
        setup = setup.home_file(other, NOISE);
    }
    let Some(host) = setup.start(test) else { return };
    assert_works(&host, "yes, it is");
}

const SH: &str = "export PATH=/marked:$PATH; export MARKED='yes, it is'\n";
const CSH: &str = "setenv PATH /marked:$PATH\nsetenv MARKED 'yes, it is'\n";

#[test]
fn bash() {
    let test = "ssh::shells::bash";
    assert_shell(test, &["/bin/bash"], ".bash_profile", &[".bashrc"], SH);
}

#[test]
fn zsh() {
    let test = "ssh::shells::zsh";
    assert_shell(test, &["/usr/bin/zsh", "/bin/zsh"], ".zprofile", &[".zshenv", ".zshrc"], SH);
}

#[test]
fn fish() {
    let set = "set -x PATH /marked $PATH\nset -x MARKED 'yes, it is'\n";
    let test = "ssh::shells::fish";
    let file = ".config/fish/config.fish";
    assert_shell(test, &["/usr/bin/fish"], file, &[".bashrc"], set);
}

#[test]
fn tcsh() {
    let noise = "echo noise\nprintf 'no end of line'\n";
    let Some(shell) = at("ssh::shells::tcsh", &["/usr/bin/tcsh", "/bin/tcsh"]) else { return };
    let setup = Setup::new().shell(shell).home_file(".tcshrc", noise);
    let setup = setup.home_file(".login", &format!("{noise}{CSH}"));
    let Some(host) = setup.start("ssh::shells::tcsh") else { return };
    assert_works(&host, "yes, it is");
}

#[test]
fn csh() {
    let noise = "echo noise\nprintf 'no end of line'\n";
    let Some(shell) = at("ssh::shells::csh", &["/bin/bsd-csh", "/bin/csh"]) else { return };
    let setup = Setup::new().shell(shell).home_file(".cshrc", &format!("{noise}{CSH}"));
    let Some(host) = setup.home_file(".login", noise).start("ssh::shells::csh") else { return };
    let done = host.run(&["-c", "printf '%s\\n' \"$MARKED\""]);
    done.assert(0, "yes, it is\n", "");
    assert_works(&host, "yes, it is");
}

#[test]
fn dash() {
    assert_shell("ssh::shells::dash", &["/bin/dash"], ".profile", &[], SH);
}

#[test]
fn busybox_ash() {
    let test = "ssh::shells::busybox_ash";
    let Some(busybox) = at(test, &["/bin/busybox", "/usr/bin/busybox"]) else { return };
    // (It is called by its name, as on Alpine, where it is /bin/sh too.)
    let setup = Setup::new().home_file(".profile", &format!("{NOISE}{SH}"));
    let setup = setup.prepare(&format!(
        "mkdir $D/bin; cp {busybox} $D/bin/ash; sed -i s,:/bin/bash,:$D/bin/ash, $D/passwd; \
         mount --bind $D/bin/ash /bin/sh"
    ));
    let Some(host) = setup.start(test) else { return };
    assert_works(&host, "yes, it is");
}

#[test]
fn a_start_file_that_becomes_another_shell() {
    let test = "a_start_file_that_becomes_another_shell";
    if at(test, &["/bin/dash"]).is_none() {
        return;
    }
    let setup = Setup::new().shell("/bin/bash");
    let setup = setup.home_file(".bash_profile", "[ -n \"$OTHER\" ] || OTHER=1 exec dash -l\n");
    let Some(host) = setup.home_file(".profile", SH).start(test) else { return };
    assert_works(&host, "yes, it is");
}

/// It is worked with as far as that goes: the environment is that of the session then.
#[test]
fn a_login_shell_that_fails_is_done_without() {
    let test = "a_login_shell_that_fails_is_done_without";
    let setup = Setup::new().home_file(".bash_profile", "echo broken >&2; exit 1\n");
    let Some(host) = setup.start(test) else { return };
    host.run(&["-c", "echo fine"]).assert(0, "fine\n", "");
    host.run(&["-c", "echo fine"]).assert(0, "fine\n", "");
}

#[test]
fn nologin_is_told_of() {
    let Some(nologin) = at("nologin_is_told_of", &["/usr/sbin/nologin", "/sbin/nologin"]) else {
        return;
    };
    let Some(host) = Setup::new().shell(nologin).start("nologin_is_told_of") else { return };
    let done = host.run(&["true"]);
    done.assert_failed(125, "has no shell to work in");
    assert!(done.stderr.contains("currently not available"), "{done:?}");
}

#[test]
fn a_banner_and_a_message_of_the_day_are_not_heard() {
    let test = "a_banner_and_a_message_of_the_day_are_not_heard";
    let setup = Setup::new().prepare("printf 'Welcome\\r\\n***\\n' > $D/banner");
    let setup = setup.server("PrintMotd yes").server("Banner /etc/passwd");
    let Some(host) = setup.start(test) else { return };
    host.run(&["echo", "x"]).assert(0, "x\n", "");
}
