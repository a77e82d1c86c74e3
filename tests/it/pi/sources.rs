//! The extension itself: its types, its parts by themselves, and the package that is made of it.

use std::path::Path;
use std::process::Command;

use super::{extension, new_node, packages};
use crate::support::{TempDir, lacks};

/// A copy beside what pi and Node ship types of.
fn copy(packages: &Path) -> TempDir {
    let dir = TempDir::new();
    let copied = Command::new("cp").arg("-a").arg(extension().join(".")).arg(dir.path()).status();
    assert!(copied.unwrap().success());
    let modules = dir.join("node_modules");
    std::os::unix::fs::symlink(packages.join("node_modules"), modules).unwrap();
    dir
}

#[track_caller]
fn passes(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}\n{}", String::from_utf8_lossy(&done.stderr));
    said
}

#[test]
fn its_types_are_those_of_pi() {
    const NAME: &str = "its_types_are_those_of_pi";
    let (Some(pi), Some(real)) = (packages(NAME, "real-pi-1.6"), packages(NAME, "real")) else {
        return;
    };
    let dir = copy(&pi);
    let compiler = real.join("node_modules/typescript/bin/tsc");
    passes(Command::new(new_node(&pi)).arg(compiler).args(["-p", "."]).current_dir(dir.path()));
}

#[test]
fn its_parts_do_what_they_say() {
    const NAME: &str = "its_parts_do_what_they_say";
    let Some(pi) = packages(NAME, "real-pi-1.6") else { return };
    let dir = copy(&pi);
    let parts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pi/parts");
    let mut command = Command::new(new_node(&pi));
    command.args(["--test", "--test-timeout=30000"]);
    for entry in std::fs::read_dir(parts).unwrap() {
        command.arg(entry.unwrap().path());
    }
    let said = passes(command.env("EXTENSION", dir.path()).env_remove("NODE_TEST_CONTEXT"));
    assert!(said.contains("pass") && !said.contains("# pass 0"), "{said}");
}

#[test]
fn the_package_has_what_pi_loads_and_no_more() {
    const NAME: &str = "the_package_has_what_pi_loads_and_no_more";
    if lacks(NAME, "npm") {
        return;
    }
    let pack = ["pack", "--dry-run", "--json", "--ignore-scripts"];
    let said = passes(Command::new("npm").args(pack).current_dir(extension()));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let files = said[0]["files"].as_array().unwrap().iter();
    let mut names: Vec<_> = files.map(|file| file["path"].as_str().unwrap()).collect();
    names.retain(|name| !name.starts_with("src/"));
    names.sort_unstable();
    assert_eq!(names, ["README.md", "package.json"]);
    let manifest = std::fs::read_to_string(extension().join("package.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let entry = manifest["pi"]["extensions"][0].as_str().unwrap();
    assert!(extension().join(entry).is_file(), "{entry}");
    assert_eq!(manifest["dependencies"], serde_json::Value::Null);
}
