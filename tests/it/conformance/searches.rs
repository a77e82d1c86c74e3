//! Searches: what is found, and the end of one.

use ta_exec::environment::ExecEnvironment;
use ta_exec::protocol::{FileType, FindParams, GrepParams, ProcessId, WriteFileParams};

use super::{over_all, path};

fn write(environment: &dyn ExecEnvironment, name: &str, content: &str) {
    let mut params = WriteFileParams::new(path(name), content.into());
    params.create_parents = Some(true);
    environment.write_file(&params).unwrap();
}

#[test]
fn names_and_lines_are_found() {
    over_all(|environment| {
        write(environment, "src/a.rs", "fn a() {}\n// needle\nfn b() {}\n");
        write(environment, "src/b.txt", "needle\n");
        let params = FindParams { pattern: Some("*.rs".into()), ..FindParams::all(path(".")) };
        let found = environment.find(&params).unwrap();
        assert_eq!(found.entries.len(), 1);
        assert_eq!(found.entries[0].path, path("src/a.rs"));
        assert_eq!(found.entries[0].file_type, FileType::File);
        let params = GrepParams { context: Some(1), ..GrepParams::new(path("src"), "needle") };
        let lines = environment.grep(&params).unwrap();
        assert_eq!(lines.matches.len(), 2);
        assert_eq!(lines.matches[0].before, ["fn a() {}"]);
        (found, lines)
    });
}

#[test]
fn what_is_wrong_is_told_alike() {
    over_all(|environment| {
        let grep = |pattern| environment.grep(&GrepParams::new(path("."), pattern));
        let bad = grep("a(").unwrap_err();
        let missing = environment.find(&FindParams::all(path("nowhere"))).unwrap_err();
        let message = missing.message().to_owned();
        assert!(message.contains("nowhere"), "{message}");
        let id = ProcessId::try_from("nobody".to_owned()).unwrap();
        assert!(!environment.end_search(&id).unwrap());
        (bad.message().to_owned(), missing.kind().clone())
    });
}
