//! A certificate authority of the test's own, made by openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{TempDir, unique};

pub(crate) struct Authority {
    dir: TempDir,
    file: PathBuf,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Certificate {
    pub(crate) file: PathBuf,
    pub(crate) key: PathBuf,
}

/// What `openssl ca` wants to be told of an authority.
const CONFIG: &str = "[ca]\ndefault_ca = here\n[here]\ndir = .\ndatabase = index\nserial = serial\n\
    new_certs_dir = .\ndefault_md = sha256\npolicy = any\nunique_subject = no\n\
    [any]\ncommonName = supplied\n";

impl Authority {
    pub(crate) fn new() -> Self {
        Self::of_name(&unique())
    }

    pub(crate) fn of_name(name: &str) -> Self {
        let dir = TempDir::new();
        dir.write("config", CONFIG);
        dir.write("index", "");
        let file = dir.join("ca.pem");
        let made = Self { dir, file };
        made.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
             -subj /CN={name} -keyout ca.key -out ca.pem",
        ));
        made
    }

    /// The certificate of the authority itself.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// One that is valid now, for what a subjectAltName says (`DNS:localhost,IP:127.0.0.1`).
    pub(crate) fn certify(&self, names: &str) -> Certificate {
        self.certify_between(names, "20200101000000Z", "21000101000000Z")
    }

    pub(crate) fn certify_between(&self, names: &str, from: &str, to: &str) -> Certificate {
        let extensions = format!("subjectAltName={names}\nbasicConstraints=critical,CA:FALSE\n");
        self.dir.write("extensions", extensions);
        self.openssl(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server \
             -keyout server.key -out server.csr",
        );
        self.openssl(&format!(
            "ca -batch -notext -config config -rand_serial -cert ca.pem -keyfile ca.key \
             -startdate {from} -enddate {to} -extfile extensions -in server.csr -out server.pem"
        ));
        Certificate { file: self.dir.join("server.pem"), key: self.dir.join("server.key") }
    }

    /// The authority's own, as a server's.
    pub(crate) fn own(&self) -> Certificate {
        Certificate { file: self.file.clone(), key: self.dir.join("ca.key") }
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        command.args(arguments.split_whitespace()).current_dir(self.dir.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "openssl {arguments}: {said}");
    }
}
