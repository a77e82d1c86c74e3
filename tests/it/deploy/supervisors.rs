//! s6, runit and supervisord, for real: what they start serves, is started again when it was killed,
//! and is stopped with all that it has started.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ta_exec::client::ExecClient;
use ta_exec::environment::Process;
use ta_exec::protocol::SpawnParams;

use super::{changed, install};
use crate::support::{
    DEADLINE, TOKEN, TempDir, Victim, eventually, lacks, procfs, skipped, stop, sys,
};

/// How long a supervisor may take to notice and to start it again.
const AGAIN: Duration = Duration::from_secs(20);

struct Supervisor {
    child: Child,
    log: PathBuf,
    _dir: TempDir,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        stop(&mut self.child);
        if std::thread::panicking() {
            eprintln!("--- the log\n{}", self.text());
        }
    }
}

impl Supervisor {
    fn start(dir: TempDir, command: &mut Command) -> Self {
        let log = dir.join("log");
        let file = std::fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"TA_") {
                command.env_remove(name);
            }
        }
        Self { child: command.spawn().unwrap(), log, _dir: dir }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The URL of the server that has been started for the so-manieth time.
    #[track_caller]
    fn url(&self, time: usize) -> String {
        let mut found = None;
        eventually(AGAIN, "the server listens", || {
            let text = self.text();
            let line = text.lines().filter(|line| line.contains("listening on ws://")).nth(time);
            found = line.map(|line| line.split_whitespace().last().unwrap().to_owned());
            found.is_some()
        });
        found.unwrap()
    }

    fn server(&self) -> u32 {
        procfs::children(self.child.id())[0]
    }
}

/// Starts what lives on, out of its group and session.
fn start(client: &ExecClient, victim: &Victim) -> Process {
    let params = SpawnParams::new("setsid").arg("sleep").arg(victim.argument());
    let process = client.spawn(&params).unwrap();
    victim.await_alive();
    process
}

#[track_caller]
fn assert_supervises(mut supervisor: Supervisor) {
    let client = ExecClient::websocket(&supervisor.url(0), Some(TOKEN)).unwrap();
    let victim = Victim::new();
    let _process = start(&client, &victim);
    sys::signal(supervisor.server(), libc::SIGKILL).unwrap();
    victim.await_gone();
    let client = ExecClient::websocket(&supervisor.url(1), Some(TOKEN)).unwrap();
    let _process = start(&client, &victim);
    let server = supervisor.server();
    sys::signal(supervisor.child.id(), libc::SIGTERM).unwrap();
    victim.await_gone();
    eventually(DEADLINE, "the server has ended", || procfs::stat(server).is_none());
    eventually(DEADLINE, "the supervisor has ended", || {
        supervisor.child.try_wait().unwrap().is_some()
    });
}

/// What the pages name, and what is here.
struct Here {
    dir: TempDir,
    command: String,
    token: String,
    cwd: String,
}

impl Here {
    /// `None`, and says so, where it cannot be tried.
    fn new(test: &str, programs: &[&str]) -> Option<Self> {
        if programs.iter().any(|program| lacks(test, program)) {
            return None;
        }
        if !sys::is_root() {
            skipped(test, "only root may become another user");
            return None;
        }
        let dir = TempDir::new();
        let program = install(&dir);
        let shown = |path: &Path| path.to_str().unwrap().to_owned();
        let command = format!("{} exec-server --port 0", shown(&program));
        let token = shown(&dir.write("token", format!("{TOKEN}\n")));
        let cwd = dir.join("cwd");
        std::fs::create_dir(&cwd).unwrap();
        Some(Self { command, token, cwd: shown(&cwd), dir })
    }

    /// A directory with the run script of a page.
    fn service(&self, name: &str) -> PathBuf {
        let text = changed(
            name,
            &[
                ("/usr/local/bin/ta exec-server", &self.command),
                ("/etc/ta-exec.token", &self.token),
                ("/srv/agent", &self.cwd),
                (" agent ", " nobody "),
            ],
        );
        let service = self.dir.join("service");
        std::fs::create_dir(&service).unwrap();
        self.dir.program("service/run", text);
        service
    }
}

#[test]
fn s6_starts_it_again_and_stops_all_of_it() {
    const NAME: &str = "s6_starts_it_again_and_stops_all_of_it";
    let Some(here) = Here::new(NAME, &["s6-supervise", "s6-setuidgid"]) else { return };
    let service = here.service("s6/run");
    assert_supervises(Supervisor::start(here.dir, Command::new("s6-supervise").arg(service)));
}

#[test]
fn runit_starts_it_again_and_stops_all_of_it() {
    const NAME: &str = "runit_starts_it_again_and_stops_all_of_it";
    let Some(here) = Here::new(NAME, &["runsv", "chpst"]) else { return };
    let service = here.service("runit/run");
    assert_supervises(Supervisor::start(here.dir, Command::new("runsv").arg(service)));
}

#[test]
fn supervisord_starts_it_again_and_stops_all_of_it() {
    const NAME: &str = "supervisord_starts_it_again_and_stops_all_of_it";
    let Some(here) = Here::new(NAME, &["supervisord"]) else { return };
    let place = here.dir.path().to_str().unwrap();
    let changes = [
        ("/usr/local/bin/ta exec-server", here.command.as_str()),
        ("make-one-that-nobody-guesses", TOKEN),
        ("/srv/agent", &here.cwd),
        ("user=agent", "user=nobody"),
        ("redirect_stderr=true", &format!("redirect_stderr=true\nstdout_logfile={place}/said")),
    ];
    let program = changed("supervisord.conf", &changes);
    let general = format!(
        "[supervisord]\nnodaemon=true\nuser=root\nlogfile=/dev/null\nlogfile_maxbytes=0\n\
         pidfile={place}/pid\nchildlogdir={place}\n"
    );
    let file = here.dir.write("supervisord.conf", general + &program);
    let said = here.dir.join("said");
    let mut command = Command::new("supervisord");
    let mut supervisor = Supervisor::start(here.dir, command.arg("-c").arg(file));
    supervisor.log = said;
    assert_supervises(supervisor);
}
