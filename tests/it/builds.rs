//! The static binaries: how large they are, and that they need nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{lacks, skipped};

const NATIVE: &str = "x86_64-unknown-linux-musl";
const FOREIGN: &str = "aarch64-unknown-linux-musl";
/// What the search costs, by ripgrep's libraries and their tables.
const SEARCH: u64 = 7 << 18;
/// What Codex's dialect costs: most of it reads and writes its messages.
const CODEX: u64 = 1 << 18;
/// The most bytes of the server-only build, and of the whole: 1.5 and 4 MiB, and those two.
const BUDGETS: [(&str, &str, u64); 2] = [
    ("server", "server", (3 << 19) + SEARCH + CODEX),
    ("whole", "release", (4 << 20) + SEARCH + CODEX),
];

/// What `sh tests/static.sh` has built, if it has.
fn built(target: &str, directory: &str) -> Option<PathBuf> {
    let below = Path::new(env!("CARGO_BIN_EXE_ta")).parent()?.parent()?;
    Some(below.join(target).join(directory).join("ta")).filter(|path| path.exists())
}

/// A budget is for a standard library that is built from its sources.
fn has_sources_of_std() -> bool {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned());
    sysroot.is_ok_and(|root| Path::new(&root).join("lib/rustlib/src/rust/library").is_dir())
}

#[test]
fn the_static_binaries_keep_to_their_budgets() {
    const TEST: &str = "the_static_binaries_keep_to_their_budgets";
    if !has_sources_of_std() && skipped(TEST, "the sources of Rust's standard library are missing")
    {
        return;
    }
    for (kind, directory, budget) in BUDGETS {
        let Some(path) = built(NATIVE, directory) else {
            skipped(TEST, &format!("there is no {kind} build for {NATIVE} (make static)"));
            return;
        };
        let size = fs::metadata(&path).unwrap().len();
        assert!(
            size <= budget,
            "the {kind} build has {size} bytes, {} more than its budget of {budget}; {}",
            size - budget,
            growth(kind),
        );
    }
}

/// By how much each crate has grown since the table of sizes was written.
fn growth(kind: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let before = sizes(&fs::read_to_string(root.join(format!("tests/sizes/{kind}.txt"))).unwrap());
    let done = Command::new("sh").arg("tests/sizes.sh").arg(kind).current_dir(root).output();
    let done = done.unwrap();
    if !done.status.success() {
        return format!("what grew is not known: {}", String::from_utf8_lossy(&done.stderr));
    }
    differences(&before, &sizes(&String::from_utf8_lossy(&done.stdout)))
}

/// Bytes by crate, as tests/sizes.sh prints them.
fn sizes(table: &str) -> BTreeMap<String, i64> {
    let lines = table.lines().filter_map(|line| line.trim().split_once(' '));
    lines.map(|(size, name)| (name.to_owned(), size.parse().unwrap())).collect()
}

/// What differs, largest growth first.
fn differences(before: &BTreeMap<String, i64>, now: &BTreeMap<String, i64>) -> String {
    let of = |table: &BTreeMap<String, i64>, name| table.get(name).copied().unwrap_or(0);
    let names: std::collections::BTreeSet<_> = before.keys().chain(now.keys()).collect();
    let mut grown: Vec<_> =
        names.into_iter().map(|name| (of(now, name) - of(before, name), name)).collect();
    grown.retain(|(by, _)| *by != 0);
    grown.sort_by_key(|(by, name)| (-by, *name));
    let lines = grown.iter().map(|(by, name)| format!("  {by:+} {name}"));
    format!("by crate, in bytes:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

#[test]
fn what_grew_is_named_first() {
    let before = sizes("     100 core\n     200 gone\n      50 same\n");
    let now = sizes("     130 core\n    1000 fresh\n      50 same\n");
    let told = differences(&before, &now);
    assert_eq!(told, "by crate, in bytes:\n  +1000 fresh\n  +30 core\n  -200 gone");
}

#[test]
fn the_tables_of_sizes_have_all_that_is_large() {
    for (kind, _, budget) in BUDGETS {
        let path = format!("tests/sizes/{kind}.txt");
        let table = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        let table = sizes(&table);
        for name in ["ta_exec", "core", "std", "serde_json", "tungstenite", "(C)"] {
            assert!(table.contains_key(name), "{kind}: {name}");
        }
        let sum: i64 = table.values().sum();
        let budget = i64::try_from(budget).unwrap();
        assert!((budget / 3..budget).contains(&sum), "{kind}: {sum} bytes in all");
    }
}

#[test]
fn the_static_binaries_need_no_loader_and_can_lie_anywhere() {
    const TEST: &str = "the_static_binaries_need_no_loader_and_can_lie_anywhere";
    if lacks(TEST, "readelf") {
        return;
    }
    for (target, directory) in [(NATIVE, "release"), (NATIVE, "server"), (FOREIGN, "server")] {
        let Some(path) = built(target, directory) else {
            skipped(TEST, &format!("there is no {directory} build for {target} (make static)"));
            return;
        };
        let readelf = |what: &str| {
            let done = Command::new("readelf").arg(what).arg(&path).output().unwrap();
            String::from_utf8(done.stdout).unwrap()
        };
        let (header, segments, sections) = (readelf("-h"), readelf("-l"), readelf("-S"));
        assert!(header.contains("DYN"), "{target}: not position-independent\n{header}");
        assert!(!segments.contains("INTERP"), "{target}: it asks for a loader\n{segments}");
        assert!(readelf("-d").contains("RELR"), "{target}: its relocations are not packed");
        for section in [".symtab", ".debug_info"] {
            assert!(!sections.contains(section), "{target}: not stripped\n{sections}");
        }
    }
}
