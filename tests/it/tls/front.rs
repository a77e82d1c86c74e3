//! A program that ends TLS in front of a server.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::authority::Certificate;
use crate::support::{DEADLINE, TempDir, holds_within, lacks, stop, sys};

/// Which program, as its Debian package calls it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Nginx,
    Caddy,
    Stunnel,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Caddy => "caddy",
            Self::Stunnel => "stunnel4",
        }
    }

    /// True, and says so, where a test cannot run for want of it.
    pub(crate) fn is_missing(self, test: &str) -> bool {
        lacks(test, self.program()) || lacks(test, "openssl")
    }
}

pub(crate) struct Front {
    kind: Kind,
    child: Child,
    dir: TempDir,
    pub(crate) address: SocketAddr,
}

impl Front {
    /// Starts it with the configuration of docs/deploy, of which these words are replaced.
    #[track_caller]
    pub(crate) fn start_with(
        kind: Kind,
        server: SocketAddr,
        certificate: &Certificate,
        changes: &[(&str, &str)],
    ) -> Self {
        for _ in 0..5 {
            // Somebody else may take the port before the program does.
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            if let Some(front) = Self::try_start(kind, port, server, certificate, changes) {
                return front;
            }
        }
        panic!("{kind:?} does not start");
    }

    #[track_caller]
    pub(crate) fn start(kind: Kind, server: SocketAddr, certificate: &Certificate) -> Self {
        Self::start_with(kind, server, certificate, &[])
    }

    fn try_start(
        kind: Kind,
        address: SocketAddr,
        server: SocketAddr,
        certificate: &Certificate,
        changes: &[(&str, &str)],
    ) -> Option<Self> {
        let dir = TempDir::new();
        configure(kind, &dir, (address, server), certificate, changes);
        let said = std::fs::File::create(dir.join("said")).unwrap();
        let mut command = command(kind, &dir);
        command.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said);
        let child = command.spawn().unwrap();
        let mut front = Self { kind, child, dir, address };
        let is_over = |front: &mut Self| front.child.try_wait().unwrap().is_some();
        let answers =
            holds_within(DEADLINE, || is_over(&mut front) || TcpStream::connect(address).is_ok());
        let runs = answers && !is_over(&mut front);
        if !runs {
            println!("{kind:?}: {}", front.said());
        }
        runs.then_some(front)
    }

    /// The URL, with a name that leads to this machine.
    pub(crate) fn url(&self) -> String {
        format!("wss://localhost:{}/exec", self.address.port())
    }

    /// What it has said.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.dir.join("said")).unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Tells it to read its configuration anew.
    pub(crate) fn reload(&self) {
        if self.kind == Kind::Caddy {
            let socket = format!("unix/{}", self.dir.join("admin").display());
            let mut command = caddy(&self.dir);
            command.args(["reload", "--force", "--address", &socket, "--config"]);
            let output = command.arg(self.dir.join("Caddyfile")).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            return;
        }
        sys::signal(self.child.id(), libc::SIGHUP).unwrap();
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        stop(&mut self.child);
        if std::thread::panicking() {
            eprintln!("--- {:?}\n{}", self.kind, self.said());
        }
    }
}

/// Writes the configuration of docs/deploy for here.
fn configure(
    kind: Kind,
    dir: &TempDir,
    (address, server): (SocketAddr, SocketAddr),
    certificate: &Certificate,
    changes: &[(&str, &str)],
) {
    let page = match kind {
        Kind::Nginx => "nginx.conf",
        Kind::Caddy => "Caddyfile",
        Kind::Stunnel => "stunnel.conf",
    };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/deploy").join(page);
    let mut text = std::fs::read_to_string(page).unwrap();
    let mut change = |from: &str, to: &str| {
        assert!(text.contains(from), "{kind:?}: {from:?} is not in the configuration");
        text = text.replace(from, to);
    };
    change("/etc/ssl/ta/box.pem", certificate.file.to_str().unwrap());
    change("/etc/ssl/ta/box.key", certificate.key.to_str().unwrap());
    change("127.0.0.1:4200", &server.to_string());
    for (from, to) in changes {
        change(from, to);
    }
    let place = dir.path().display();
    match kind {
        Kind::Nginx => {
            change("listen 443 ssl", &format!("listen {address} ssl"));
            change("box.example.com", "localhost");
            change("/var/log/nginx/ta.log", &format!("{place}/access"));
            dir.write("site.conf", &text);
            let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .iter()
                .map(|name| format!("{name}_temp_path {place}/{name};\n"))
                .collect();
            let main = format!(
                "daemon off;\nerror_log stderr;\npid {place}/pid;\nevents {{}}\n\
                 http {{\n{temporary}include {place}/site.conf;\n}}\n"
            );
            dir.write("nginx.conf", main);
        }
        Kind::Caddy => {
            let port = address.port();
            change("box.example.com {", &format!("https://localhost:{port} {{\nbind 127.0.0.1\n"));
            let global =
                format!("{{\nadmin unix/{place}/admin\nauto_https disable_redirects\n}}\n");
            dir.write("Caddyfile", global + &text);
        }
        Kind::Stunnel => {
            change("accept = 443", &format!("accept = {address}"));
            dir.write("stunnel.conf", text);
        }
    }
}

fn command(kind: Kind, dir: &TempDir) -> Command {
    match kind {
        Kind::Nginx => {
            let mut command = Command::new("nginx");
            command.arg("-p").arg(dir.path()).arg("-c").arg(dir.join("nginx.conf"));
            command.args(["-e", "stderr"]);
            command
        }
        Kind::Caddy => {
            let mut command = caddy(dir);
            command.args(["run", "--config"]).arg(dir.join("Caddyfile"));
            command
        }
        Kind::Stunnel => {
            let mut command = Command::new("stunnel4");
            command.arg(dir.join("stunnel.conf"));
            command
        }
    }
}

/// Caddy, which keeps nothing outside the directory.
fn caddy(dir: &TempDir) -> Command {
    let mut command = Command::new("caddy");
    command.env("HOME", dir.path()).env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME");
    command
}
