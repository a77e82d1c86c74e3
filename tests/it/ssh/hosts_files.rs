//! `ta hosts`: what Include names, and files that are none to read.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use super::hosts::{Home, said};
use crate::support::{binary, lacks, skipped};

#[test]
fn include_has_the_forms_of_ssh_config() {
    let home = Home::with("");
    let absolute = home.write("absolute", "Host absolute\n");
    for (file, name) in [
        ("relative", "relative"),
        ("in home", "tilde"),
        ("conf.d/b.conf", "b"),
        ("conf.d/a.conf", "a"),
        ("conf.d/.hidden.conf", "hidden"),
        ("conf.d/other", "other"),
        ("by variable", "variable"),
        ("star*", "star"),
        ("starred", "starred"),
    ] {
        home.write(file, format!("Host {name}\n"));
    }
    home.write(
        "config",
        format!(
            "Include relative \"~/.ssh/in home\" conf.d/*.conf\nINCLUDE = {}\n\
             include \"${{TA_DIR}}/by variable\" nothing/* nothing star\\*\nHost end\n",
            absolute.display()
        ),
    );
    let mut command = home.command(&[]);
    command.env("TA_DIR", home.file(""));
    let said = said(command);
    assert_eq!(said.stderr, "");
    let names: Vec<_> = said.stdout.lines().collect();
    let expected = ["relative", "tilde", "a", "b", "absolute", "variable", "star", "end"];
    assert_eq!(names, expected);
}

#[test]
fn include_knows_the_home_of_another_user() {
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let line = accounts.lines().next().unwrap();
    let fields: Vec<_> = line.split(':').collect();
    // Nothing is read there: it is enough to see which place is meant.
    let home = Home::with(format!(
        "Include ~{}/../no-such-directory-of-ta/x* ~nobody-of-this-name/x\n",
        fields[0]
    ));
    let warnings = home.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("nobody-of-this-name"), "{warnings:?}");
    let directory = Path::new(fields[5]);
    let Some(name) = home.path().strip_prefix("/").ok().and_then(Path::to_str) else { return };
    let up = "../".repeat(directory.components().count().saturating_sub(1));
    home.write("x", "Host found\n");
    home.write("config", format!("Include ~{}/{up}{name}/.ssh/x\n", fields[0]));
    assert_eq!(home.names(), ["found"]);
}

#[test]
fn an_included_file_counts_where_the_section_around_it_does() {
    let home = Home::with("Host a\n Include inner\n User outer\nHost b\n");
    home.write("inner", "Port 1\nHost b\n Port 2\nHost *\n ProxyJump j\n");
    assert_eq!(home.names(), ["a", "b"]);
    let (a, b) = (home.host("a"), home.host("b"));
    assert_eq!(
        (&a["port"], &a["proxyJump"][0], &a["user"]),
        (&1.into(), &"j".into(), &"outer".into())
    );
    assert_eq!((&b["port"], &b["proxyJump"]), (&22.into(), &serde_json::json!([])));
}

#[test]
fn files_include_files_down_to_the_sixteenth_level() {
    let home = Home::with("Include level1\n");
    for level in 1..=20 {
        let text = format!("Host h{level}\nInclude level{}\n", level + 1);
        home.write(&format!("level{level}"), text);
    }
    let names = home.names();
    assert_eq!(names.last().unwrap(), "h16");
    assert!(home.warnings()[0].contains("more than 16 levels"), "{:?}", home.warnings());
}

#[test]
fn a_cycle_is_a_warning() {
    let home = Home::with("Host a\nInclude other\nHost d\n");
    home.write("other", "Host b\nInclude config link\nHost c\n");
    symlink("other", home.file("link")).unwrap();
    assert_eq!(home.names(), ["a", "b", "c", "d"]);
    let warnings = home.warnings();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings.iter().all(|text| text.starts_with("2: cannot include")), "{warnings:?}");
}

#[test]
fn files_that_multiply_come_to_an_end() {
    let home = Home::with("Include level1 level1 level1\nHost last\n");
    for level in 1..=15 {
        let next = format!("level{}", level + 1);
        home.write(
            &format!("level{level}"),
            format!("Include {next} {next} {next}\nHost h{level}\n"),
        );
    }
    home.write("level16", "Host deepest\n");
    let names = home.names();
    assert!(names.contains(&"deepest".to_owned()) && names.last().unwrap() == "last", "{names:?}");
    let warnings = home.warnings();
    assert!(warnings.iter().any(|text| text.contains("files")), "{warnings:?}");
}

#[test]
fn arguments_without_number_come_to_an_end() {
    let home = Home::with(format!("Include{}\nHost last\n", " /*/%n".repeat(200_000)));
    assert_eq!(home.names(), ["last"]);
    let home = Home::with(format!("Include{}\nHost last\n", " conf.d/*".repeat(100_000)));
    home.write("conf.d/a", "Host a\n");
    assert_eq!(home.names(), ["a", "last"]);
    assert!(home.warnings()[0].contains("more than"), "{:?}", home.warnings());
}

#[test]
fn what_is_no_regular_file_is_not_opened() {
    let home = Home::with("Host a\nInclude conf.d/*\nInclude conf.d/directory /dev/null\nHost z\n");
    home.write("conf.d/1", "Host one\n");
    fs::create_dir(home.file("conf.d/directory")).unwrap();
    let fifo = home.file("conf.d/fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(home.file("conf.d/socket")).unwrap();
    symlink("/dev/zero", home.file("conf.d/zero")).unwrap();
    symlink("nowhere", home.file("conf.d/dangling")).unwrap();
    home.write("conf.d/zz", "Host two\n");
    assert_eq!(home.names(), ["a", "one", "two", "z"]);
    let warnings = home.warnings();
    for what in ["a FIFO", "a socket", "a device", "is a directory"] {
        let named = warnings.iter().filter(|text| text.contains(what)).count();
        assert_eq!(named, 1, "{what}: {warnings:?}");
    }
    // (And that ssh refuses /dev/null here; a link to nowhere is no more to it than a missing file.)
    assert_eq!(warnings.len(), 5, "{warnings:?}");
}

#[test]
fn what_a_file_that_is_not_read_may_set_is_null() {
    let home = Home::with("Host a\n User u\nHost *\n Port 1\n Include fifo\n User all\nHost b\n");
    assert!(Command::new("mkfifo").arg(home.file("fifo")).status().unwrap().success());
    let (a, b) = (home.host("a"), home.host("b"));
    assert_eq!((&a["user"], &a["port"]), (&"u".into(), &1.into()));
    assert_eq!((&b["user"], &b["port"]), (&serde_json::Value::Null, &1.into()));
    assert_eq!(
        (&a["hostName"], &a["proxyJump"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
}

#[test]
fn a_file_of_a_hundred_megabytes_is_a_warning() {
    let home = Home::with("Host a\nInclude huge\nHost b\n");
    let huge = fs::File::create(home.file("huge")).unwrap();
    huge.set_len(100 << 20).unwrap();
    assert_eq!(home.names(), ["a", "b"]);
    assert!(home.warnings()[0].contains("more than 4 MiB"), "{:?}", home.warnings());
}

#[test]
fn hosts_that_would_take_for_ever_are_listed_and_no_more() {
    let mut config = String::new();
    for number in 0..40_000 {
        config += &format!("Host host{number} {}*z\n User x\n", "*a".repeat(30));
    }
    let home = Home::with(config);
    let report = home.report();
    let hosts = report["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 40_000);
    assert_eq!(hosts[0]["user"], "x");
    assert_eq!(hosts[39_999]["port"], serde_json::Value::Null);
    let warning = &report["warnings"][0];
    assert!(warning["message"].as_str().unwrap().contains("too many"), "{warning}");
}

#[test]
fn a_file_of_rubbish_has_a_bounded_number_of_warnings() {
    let home = Home::with("Port x\n".repeat(20_000) + "Host a\n");
    assert_eq!(home.names(), ["a"]);
    assert_eq!(home.warnings().len(), 101);
}

#[test]
fn a_file_that_everybody_may_write_to_is_listed_with_a_warning() {
    let home = Home::with("Include shared\n");
    let shared = home.write("shared", "Host a\n");
    fs::set_permissions(shared, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(home.names(), ["a"]);
    assert!(home.warnings()[0].contains("everybody may write"), "{:?}", home.warnings());
}

#[test]
fn a_file_that_may_not_be_read_is_a_warning() {
    const NAME: &str = "a_file_that_may_not_be_read_is_a_warning";
    if lacks(NAME, "setpriv") {
        return;
    }
    let home = Home::with("Host a\nInclude secret closed/x\nHost b\n");
    let secret = home.write("secret", "Host s\n");
    home.write("closed/x", "Host x\n");
    let close =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    close(&secret, 0);
    close(&home.file("closed"), 0);
    // Root may read everything.
    let mut command = home.command(&[]);
    if super::hosts::user() == "root" {
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary());
        command.args(["hosts", "-F"]).arg(home.file("config")).env("HOME", home.path());
        let mut probe = Command::new("setpriv");
        probe.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(binary()).arg("-V");
        if !probe.output().is_ok_and(|output| output.status.success()) {
            skipped(NAME, "another user may not run the program here");
            return;
        }
    }
    let said = said(command);
    close(&home.file("closed"), 0o700);
    assert_eq!(said.stdout, "a\nb\n");
    let denied = said.stderr.matches("permission denied").count();
    assert_eq!(denied, 2, "{}", said.stderr);
}

/// The files of ssh itself, in a mount namespace: as ssh, home is what the user database says.
#[test]
fn the_users_own_list_takes_defaults_and_no_names_from_the_system() {
    const NAME: &str = "the_users_own_list_takes_defaults_and_no_names_from_the_system";
    let home = Home::with("Host mine\n Port 1\n");
    let system =
        home.write("system/ssh_config", "Include ssh_config.d/*.conf\nHost theirs\n Port 9\n");
    home.write("system/ssh_config.d/x.conf", "Host *\n User common\n Port 5\n");
    let id =
        fs::metadata(home.path()).map(|metadata| std::os::unix::fs::MetadataExt::uid(&metadata));
    // In a namespace of an ordinary user that user is root.
    assert!(id.is_ok());
    let accounts =
        home.write("passwd", format!("somebody:x:0:0::{}:/bin/sh\n", home.path().display()));
    let script = "mount --bind \"$1\" /etc/passwd && mount --bind \"$2\" /etc/ssh && shift 2 && \
                  HOME=/nowhere exec \"$@\"";
    let command = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["-rm", "sh", "-c", script, "sh"])
            .arg(&accounts)
            .arg(system.parent().unwrap());
        command.args(args);
        command
    };
    if !command(&["true"]).output().is_ok_and(|output| output.status.success()) {
        skipped(NAME, "no mount namespaces, or no /etc/ssh, here");
        return;
    }
    let program = binary();
    let program = program.to_str().unwrap();
    let mine = said(command(&[program, "hosts", "-l"]));
    assert_eq!((mine.stdout.as_str(), mine.stderr.as_str()), ("mine  common@mine:1\n", ""));
    fs::remove_file(home.file("config")).unwrap();
    let none = said(command(&[program, "hosts"]));
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    assert!(none.stderr.contains("there is no file"), "{}", none.stderr);
    let fifo = home.file("config");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let odd = said(command(&[program, "hosts"]));
    assert_eq!((odd.code, odd.stdout.as_str()), (Some(0), ""));
    assert!(odd.stderr.contains("it is a FIFO"), "{}", odd.stderr);
}
