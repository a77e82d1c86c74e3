//! A language server, spoken to by the JSON-RPC library of VS Code.

use serde_json::{Value, json};

use super::{Host, Remote, installed, over_both};
use crate::support::TempDir;

const WRONG: &str = "Type 'number' is not assignable to type 'string'.";

#[test]
fn a_language_server_answers_an_editor() {
    let Some(packages) = installed("a_language_server_answers_an_editor") else { return };
    let server = packages.join("node_modules/typescript-language-server/lib/cli.mjs");
    over_both(|way| {
        let project = TempDir::new();
        project.write("tsconfig.json", r#"{"compilerOptions": {"strict": true}}"#);
        project
            .write("lib.ts", "export function twice(n: number): number {\n    return 2 * n;\n}\n");
        // Only the editor has the text of this file, and it is longer than any pipe.
        let comment = "// ünïcödé\n".repeat(20_000);
        let code = "import { twice } from './lib';\nconst wrong: string = twice(21);\n";
        let (file, lib) = (project.join("main.ts"), project.join("lib.ts"));
        project.write("main.ts", code);

        let remote = Remote::new(way, &["node", server.to_str().unwrap(), "--stdio"]);
        let mut job = remote.job(&packages);
        job["root"] = json!(project.path());
        job["file"] = json!(file);
        job["text"] = json!(format!("{code}{comment}"));
        job["at"] = json!({"line": 1, "character": 26});
        job["diagnostic"] = json!(WRONG);
        let came = Host::start("lsp.mjs", &job).line();
        remote.await_gone();

        let hover = came["hover"]["contents"].to_string();
        assert!(hover.contains("twice(n: number): number"), "{came}");
        let definition = &came["definition"][0];
        assert_eq!(definition["uri"], json!(format!("file://{}", lib.display())), "{came}");
        assert_eq!(definition["range"]["start"], json!({"line": 0, "character": 16}), "{came}");
        let labels = came["labels"].as_array().unwrap();
        assert!(labels.contains(&json!("twice")), "{labels:?}");
        assert!(came["diagnostics"].as_array().unwrap().contains(&json!(WRONG)), "{came}");
        assert_eq!(came["stderr"], json!(""));
        assert_eq!(came["ended"], json!({"code": 0, "signal": Value::Null}));
    });
}
