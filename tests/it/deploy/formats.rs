//! Whether what reads these files would read them so.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::{page, text_of};
use crate::support::{TempDir, lacks, skipped};

/// What tests/validators.sh has installed.
fn installed(test: &str) -> Option<PathBuf> {
    if lacks(test, "python3") {
        return None;
    }
    let test_binary = std::env::current_exe().unwrap();
    let mut places = test_binary.ancestors().map(|directory| directory.join("validators"));
    let found = places.find(|place| place.join("packages").is_file());
    if found.is_none() {
        skipped(test, "the validators from PyPI are not there (make test-tools installs them)");
    }
    found
}

fn python(packages: &PathBuf) -> Command {
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages);
    command
}

#[track_caller]
fn assert_done(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{stderr}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn kubernetes_would_take_its_files() {
    let Some(packages) = installed("kubernetes_would_take_its_files") else { return };
    let validate = |file: PathBuf| {
        let mut command = python(&packages);
        command.args(["-m", "kubernetes_validate", "--strict"]).arg(file).output().unwrap()
    };
    for name in ["kubernetes/deployment.yaml", "kubernetes/sidecar.yaml"] {
        assert_done(&validate(page(name)));
    }
    let dir = TempDir::new();
    let wrong = text_of("kubernetes/deployment.yaml").replace("failureThreshold", "failures");
    let output = validate(dir.write("wrong.yaml", wrong));
    assert!(!output.status.success(), "what is wrong is found");
}

/// By the parser of BuildKit itself. What is run is a list of words: there need be no shell.
#[test]
fn docker_would_take_its_files() {
    const PRINT: &str = "import dockerfile, sys\nfor line in dockerfile.parse_file(sys.argv[1]):\n \
        print(line.cmd.upper(), 'words' if line.json else 'line', *line.value)";
    let Some(packages) = installed("docker_would_take_its_files") else { return };
    for (name, ta) in [("Dockerfile.scratch", "/ta"), ("Dockerfile.added", "/usr/local/bin/ta")] {
        let output = python(&packages).args(["-c", PRINT]).arg(page(name)).output().unwrap();
        let parsed = assert_done(&output);
        for expected in [
            format!("COPY line ta {ta}"),
            format!("HEALTHCHECK words CMD {ta} healthcheck"),
            format!("ENTRYPOINT words {ta} exec-server --host 0.0.0.0"),
        ] {
            assert!(parsed.lines().any(|line| line == expected), "{expected:?} in {parsed}");
        }
    }
}

#[test]
fn compose_would_take_its_file() {
    if lacks("compose_would_take_its_file", "docker-compose") {
        return;
    }
    let config = |token: Option<&str>| {
        let mut command = Command::new("docker-compose");
        command.arg("-f").arg(page("compose.yaml")).args(["config", "--quiet"]);
        command.env_remove("TA_EXEC_TOKEN");
        command.envs(token.map(|token| ("TA_EXEC_TOKEN", token))).output().unwrap()
    };
    assert_done(&config(Some("secret")));
    let without = config(None);
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(!without.status.success() && said.contains("nobody guesses"), "{said}");
}
