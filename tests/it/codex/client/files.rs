//! Files: patches, pictures, and the instructions of a project.

use std::fs;

use serde_json::{Value, json};

use crate::codex::here::Here;
use crate::codex::model::{Model, Step, exec};
use crate::support::{base64, unbase64};

/// One pixel.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAA\
                       AABJRU5ErkJggg==";

fn patch(lines: &[&str]) -> String {
    format!("*** Begin Patch\n{}\n*** End Patch", lines.join("\n"))
}

#[test]
fn patches_make_change_move_and_delete_files() {
    const NAME: &str = "patches_make_change_move_and_delete_files";
    let Some(here) = Here::new(NAME) else { return };
    let Some(there) = here.there(NAME, &[]) else { return };
    let path = |name: &str| there.path(&here.path(name));
    fs::write(path("old.txt"), "one\ntwo\nthree\n").unwrap();
    fs::write(path("gone.txt"), "x\n").unwrap();
    fs::write(path("moved.txt"), "alpha\nbeta\n").unwrap();
    let all = patch(&[
        "*** Add File: deep/down/new.txt",
        "+hello",
        "+there",
        "*** Update File: old.txt",
        "@@",
        " one",
        "-two",
        "+TWO",
        " three",
        "*** Delete File: gone.txt",
    ]);
    let by_the_shell = patch(&["*** Update File: old.txt", "@@", "-three", "+THREE"]);
    let moved = ["*** Update File: moved.txt", "*** Move to: to/here.txt", "@@", "-beta", "+BETA"];
    let steps = [
        Step::Patch(all),
        exec(&format!("apply_patch <<'EOF'\n{by_the_shell}\nEOF")),
        Step::Patch(patch(&moved)),
        Step::Patch(patch(&["*** Update File: none.txt", "@@", "-a", "+b"])),
        exec("cat old.txt"),
    ];
    let came = here.answers(&steps);
    for (answer, files) in came.iter().zip([
        "A deep/down/new.txt\nM old.txt\nD gone.txt\n",
        "M old.txt\n",
        "M to/here.txt\n",
    ]) {
        let done = format!("Success. Updated the following files:\n{files}");
        assert!(answer.ends_with(&done), "{answer:?}");
    }
    let missing = came[3].contains("none.txt") && came[3].contains("no such file or directory");
    assert!(missing, "{:?}", came[3]);
    assert!(came[4].ends_with("Output:\none\nTWO\nTHREE\n"), "{:?}", came[4]);
    let read = |name: &str| fs::read_to_string(path(name)).unwrap();
    assert_eq!(read("old.txt"), "one\nTWO\nTHREE\n");
    assert_eq!(read("deep/down/new.txt"), "hello\nthere\n");
    assert_eq!(read("to/here.txt"), "alpha\nBETA\n");
    assert!(!path("gone.txt").exists() && !path("moved.txt").exists());
}

#[test]
fn a_picture_of_the_environment_is_seen() {
    const NAME: &str = "a_picture_of_the_environment_is_seen";
    let Some(here) = Here::new(NAME) else { return };
    let Some(there) = here.there(NAME, &[]) else { return };
    fs::write(there.path(&here.path("picture.png")), unbase64(PICTURE)).unwrap();
    let view = |path: &str| Step::Call("view_image", json!({"path": path}));
    let steps = [view("picture.png"), view(&here.path("picture.png")), view("none.png")];
    let came = here.answers(&steps);
    for answer in &came[..2] {
        let items: Value = serde_json::from_str(answer).unwrap();
        let url = items[0]["image_url"].as_str().unwrap();
        assert_eq!(url, format!("data:image/png;base64,{}", base64(unbase64(PICTURE))));
    }
    assert!(came[2].contains("no such file or directory"), "{:?}", came[2]);
}

#[test]
fn the_instructions_are_those_of_the_environment() {
    const NAME: &str = "the_instructions_are_those_of_the_environment";
    let Some(here) = Here::new(NAME) else { return };
    let Some(there) = here.there(NAME, &[]) else { return };
    fs::write(here.path("AGENTS.md"), "instructions of the host\n").unwrap();
    fs::write(there.path(&here.path("AGENTS.md")), "instructions of the environment\n").unwrap();
    let model = Model::that(&[]);
    here.session(&model).finish();
    let prompt = model.prompt();
    assert!(prompt.contains("instructions of the environment"), "{prompt}");
    assert!(!prompt.contains("instructions of the host"), "{prompt}");
}
