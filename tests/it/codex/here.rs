//! This machine, as Codex has it, and one session of `codex exec`.

use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::model::{Model, SAID, Step};
use crate::pi::there::There;
use crate::support::proxy::Proxy;
use crate::support::server::wait;
use crate::support::{TOKEN, TempDir, contents};

/// How long one session may take.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A directory to work in, Codex's own settings, a home, a directory for temporary files.
pub(super) struct Here {
    codex: PathBuf,
    pub(super) dir: TempDir,
    /// Where Codex works.
    pub(super) cwd: PathBuf,
}

impl Here {
    pub(super) fn new(test: &str) -> Option<Self> {
        let codex = super::codex(test)?;
        let dir = TempDir::new();
        for name in ["cwd", "codex", "tmp", "home"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        dir.write("cwd/marker.txt", "the host's\n");
        let cwd = dir.join("cwd");
        // (Whoever the environment is reached as has the directory by the same name.)
        std::fs::set_permissions(&cwd, std::fs::Permissions::from_mode(0o777)).unwrap();
        Some(Self { codex, dir, cwd })
    }

    /// An environment with another network and another root, and a directory in it by the same name.
    pub(super) fn there(&self, test: &str, args: &[&str]) -> Option<Environment> {
        let packages = crate::pi::packages(test, "real-codex")?;
        let there = There::start_with(test, self.cwd.to_str().unwrap(), &packages, args)?;
        std::fs::write(there.path(&self.path("marker.txt")), "the environment's\n").unwrap();
        let proxy = Proxy::to(there.address());
        self.reached_at(&format!("ws://{}", proxy.address), TOKEN);
        Some(Environment { proxy, there })
    }

    /// The name of a file that Codex works on, here and there.
    pub(super) fn path(&self, name: &str) -> String {
        self.cwd.join(name).to_str().unwrap().to_owned()
    }

    /// What says where the environment is.
    pub(super) fn environment(&self, lines: &str) {
        let head = "default = \"box\"\ninclude_local = false\n[[environments]]\nid = \"box\"\n";
        self.dir.write("codex/environments.toml", format!("{head}{lines}"));
    }

    pub(super) fn reached_at(&self, url: &str, token: &str) {
        self.environment(&format!("url = \"{url}\"\nauth_bearer_token = \"{token}\"\n"));
    }

    pub(super) fn reached_by(&self, program: &Path, args: &[&str]) {
        let program = program.to_str().unwrap();
        self.environment(&format!("program = {program:?}\nargs = {args:?}\n"));
    }

    /// `codex exec` with these options, asked to do what the model was told.
    pub(super) fn command(&self, model: &Model, options: &[&str]) -> Command {
        let settings = format!(
            "model = \"gpt-5.5\"\nmodel_provider = \"mock\"\ncheck_for_update_on_startup = false\n\
             [analytics]\nenabled = false\n\
             [model_providers.mock]\nname = \"mock\"\nbase_url = \"{}\"\nenv_key = \"MOCK_KEY\"\n\
             wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
            model.url()
        );
        self.dir.write("codex/config.toml", settings);
        let mut command = Command::new(&self.codex);
        for (name, _) in std::env::vars_os() {
            let name_bytes = name.as_encoded_bytes();
            if ["TA_", "CODEX_", "OPENAI_"].iter().any(|own| name_bytes.starts_with(own.as_bytes()))
            {
                command.env_remove(name);
            }
        }
        command.args(["exec", "--skip-git-repo-check", "--json"]).args(options).arg("do it");
        command.current_dir(&self.cwd).env("CODEX_HOME", self.dir.join("codex"));
        command.env("HOME", self.dir.join("home")).env("TMPDIR", self.dir.join("tmp"));
        command.env("MOCK_KEY", "none").env("A_SECRET_OF_THE_HOST", "it stays here");
        command
    }

    pub(super) fn session(&self, model: &Model) -> Session {
        Session::start(self.command(model, &["--dangerously-bypass-approvals-and-sandbox"]))
    }

    /// One session: what the tools have answered. Nothing here has changed.
    #[track_caller]
    pub(super) fn answers(&self, steps: &[Step]) -> Vec<String> {
        let model = Model::that(steps);
        let before = self.files();
        self.session(&model).finish();
        assert_eq!(self.files(), before, "files of the host have changed");
        let answers = model.answers();
        assert_eq!(answers.len(), steps.len(), "{answers:#?}");
        answers
    }

    /// All files that Codex works among, with their content.
    pub(super) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        contents(&[&self.cwd])
    }
}

/// Where the commands run. (Codex tells a token to nobody but who is on loopback, unless it is by TLS:
/// what leads from there to the other network is the tests' own.)
pub(super) struct Environment {
    pub(super) proxy: Proxy,
    pub(super) there: There,
}

impl Environment {
    /// What a path within is called here.
    pub(super) fn path(&self, within: &str) -> PathBuf {
        self.there.path(within)
    }
}

/// A Codex that runs. Dropped, it is killed and reaped.
pub(super) struct Session {
    pub(super) child: Child,
    start: Instant,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
}

impl Session {
    pub(super) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdout, stderr) = (read(child.stdout.take()), read(child.stderr.take()));
        Self { child, start: Instant::now(), stdout, stderr }
    }

    /// Waits for its end, which must be a good one; how long it took.
    #[track_caller]
    pub(super) fn finish(self) -> Duration {
        let (status, took, said) = self.end();
        let ended_well = status.is_some_and(|status| status.success());
        assert!(ended_well && said.contains(SAID), "codex: {status:?}\n{said}");
        took
    }

    /// Waits for its end, which must not be a good one; what it has said.
    #[track_caller]
    pub(super) fn fail(self) -> String {
        let (status, _, said) = self.end();
        assert!(status.is_some_and(|status| !status.success()), "codex: {status:?}\n{said}");
        said
    }

    fn end(mut self) -> (Option<ExitStatus>, Duration, String) {
        let status = wait(&mut self.child, DEADLINE);
        let took = self.start.elapsed();
        let _ = self.child.kill();
        let _ = self.child.wait();
        let said = |from: &mpsc::Receiver<String>| {
            from.recv_timeout(DEADLINE).unwrap_or_else(|_| "(it is held open)".to_owned())
        };
        let said = format!("{}\n{}", said(&self.stdout), said(&self.stderr));
        (status, took, said)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let mut bytes = Vec::new();
        let _ = pipe.unwrap().read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    };
    std::thread::Builder::new().name("codex".into()).spawn(read).unwrap();
    receiver
}
