//! Sandboxes are not offered: what asks for one is refused, and nothing runs without it.

use crate::codex::here::{Here, Session};
use crate::codex::model::{Model, Step, exec};

#[test]
fn a_session_with_a_sandbox_runs_nothing_and_the_model_is_told_why() {
    const NAME: &str = "a_session_with_a_sandbox_runs_nothing_and_the_model_is_told_why";
    let Some(here) = Here::new(NAME) else { return };
    let Some(there) = here.there(NAME, &[]) else { return };
    let file = "*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch";
    for sandbox in ["workspace-write", "read-only"] {
        let steps = [exec("touch it-ran"), Step::Patch(file.to_owned())];
        let (model, before) = (Model::that(&steps), here.files());
        Session::start(here.command(&model, &["-s", sandbox])).finish();
        let came = model.answers();
        assert!(came[0].contains("exec_command failed"), "{sandbox}: {came:?}");
        assert!(came[0].contains("sandbox"), "{sandbox}: {came:?}");
        let what_to_do = "--dangerously-bypass-approvals-and-sandbox";
        assert!(came[0].contains(what_to_do), "{sandbox}: {came:?}");
        assert!(!came[1].contains("Success"), "{sandbox}: {came:?}");
        for name in ["it-ran", "patched"] {
            assert!(!there.path(&here.path(name)).exists(), "{sandbox}: {name}");
        }
        assert_eq!(here.files(), before);
    }
}
