//! `wss://`, through the real programs that stand in front of a server: nginx, Caddy and stunnel, with
//! the configurations of docs/deploy.

pub(crate) mod authority;
mod caddy;
mod certificates;
mod exposure;
pub(crate) mod front;
mod heads;
mod keys;
mod nginx;
mod stunnel;

use std::path::Path;
use std::process::{Command, Output};

use ta_exec::client::{ClientOptions, ExecClient};

use crate::support::{TOKEN, ta};
use authority::Authority;

/// `ta SUBCOMMAND --exec URL --ca-file FILE ARGS…`, with the token.
fn command(subcommand: &str, url: &str, ca: &Path, args: &[&str]) -> Command {
    let mut command = ta(&[subcommand, "--exec", url, "--ca-file", ca.to_str().unwrap()]);
    command.args(args).env("TA_EXEC_TOKEN", TOKEN);
    command
}

fn run(url: &str, ca: &Path, args: &[&str]) -> Output {
    command("run", url, ca, args).output().unwrap()
}

/// It has done what it was to do, and said nothing else.
#[track_caller]
fn assert_says(output: &Output, stdout: &str) {
    let said = (output.status.code(), text(&output.stdout), text(&output.stderr));
    assert_eq!(said, (Some(0), stdout.to_owned(), String::new()));
}

/// It has failed, and its one line names all of these.
#[track_caller]
fn assert_failed(output: &Output, words: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!((output.status.code(), stderr.lines().count()), (Some(125), 1), "{stderr}");
    for word in words {
        assert!(stderr.contains(word), "{word:?} is not in {stderr}");
    }
    assert!(!stderr.contains(TOKEN), "{stderr}");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn options(authority: &Authority) -> ClientOptions {
    ClientOptions::new().ca_file(authority.file())
}

fn client(url: &str, authority: &Authority) -> ExecClient {
    options(authority).websocket(url, Some(TOKEN)).unwrap()
}
