//! What the model is told of the place where it works.

use std::fs;

use super::there::{PROJECT, There};
use super::{Here, Model, Pi, finish};
use crate::ssh::daemon::{Setup, program};

const SKILL: &str = "---\nname: NAME\ndescription: knows how to NAME\n---\nThe way to NAME.\n";

fn skill(name: &str) -> String {
    SKILL.replace("NAME", name)
}

#[test]
fn the_model_is_told_of_the_environment_and_not_of_the_host() {
    const NAME: &str = "the_model_is_told_of_the_environment_and_not_of_the_host";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    there.write("AGENTS.md", "instructions of the project there");
    there.write("CLAUDE.md", "AGENTS.md comes before this");
    there.write("/there/CLAUDE.md", "instructions of the directory above");
    there.write(".pi/skills/weave/SKILL.md", skill("weave"));
    there.write(".pi/skills/weave/more/SKILL.md", skill("a-part-of-weave"));
    there.write(".pi/skills/plain.md", skill("a-file"));
    there.write(".agents/skills/spin/SKILL.md", skill("spin"));
    there.write("/there/.agents/skills/knit/SKILL.md", skill("knit"));
    there.write("/there/.pi/agent/skills/darn/SKILL.md", skill("darn"));
    there.write(".pi/skills/none/SKILL.md", "no front matter");
    for pi in versions {
        let (here, model) = (Here::new(), Model::that(&[]));
        fs::write(here.cwd.join("AGENTS.md"), "instructions of the host's project").unwrap();
        let skills = here.cwd.join(".agents/skills/of-the-host");
        fs::create_dir_all(&skills).unwrap();
        fs::write(skills.join("SKILL.md"), skill("of-the-host")).unwrap();
        here.dir.write("agent/AGENTS.md", "what the user wants everywhere");
        finish(here.session(&pi, &model, &there));
        let sent = model.sent();
        let prompt = sent.prompt();
        for part in [
            "instructions of the project there",
            &format!("{PROJECT}/AGENTS.md"),
            "instructions of the directory above",
            "what the user wants everywhere",
            "knows how to weave",
            &format!("<location>{PROJECT}/.pi/skills/weave/SKILL.md</location>"),
            "knows how to a-file",
            "knows how to spin",
            "knows how to knit",
            "knows how to darn",
        ] {
            assert!(prompt.contains(part), "{}: no {part} in {prompt}", pi.version);
        }
        for part in [
            "the host's project",
            "of-the-host",
            "comes before this",
            "a-part-of-weave",
            here.cwd.to_str().unwrap(),
        ] {
            assert!(!prompt.contains(part), "{}: {part} in {prompt}", pi.version);
        }
        let cwd = if pi.is_old() {
            format!("\nCurrent working directory: {PROJECT}")
        } else {
            format!("<cwd>\n{PROJECT}\n</cwd>")
        };
        assert!(prompt.contains(&cwd), "{}: {prompt}", pi.version);
        assert!(prompt.matches(PROJECT).count() >= 4, "{prompt}");
        assert!(sent.tools().contains(&"bash"), "{:?}", sent.tools());
    }
}

/// Which environment, and where in it, can be said by pi's own options.
#[test]
fn the_options_say_which_environment_and_where_in_it() {
    const NAME: &str = "the_options_say_which_environment_and_where_in_it";
    let Some(versions) = Pi::all(NAME) else { return };
    let Some(there) = There::start(NAME) else { return };
    there.write("/there/token", format!("{}\n", crate::support::TOKEN));
    there.write("/there/other/marker.txt", "of another directory\n");
    let token = there.path("/there/token");
    let via =
        format!("'{}' exec-server --stdio --log-level off", crate::support::binary().display());
    for pi in versions {
        let steps = [vec![super::bash("cat marker.txt")]];
        let (here, model) = (Here::new(), Model::that(&steps));
        let mut command = here.extended(&pi, &model);
        command.args(["--ta-exec", &there.url(), "--ta-cwd", "~/other", "--ta-token-file"]);
        super::asked(command.arg(&token));
        finish(command);
        assert_eq!(model.sent().answers(), ["of another directory\n"]);

        let (here, model) = (Here::new(), Model::that(&steps));
        let other = crate::support::TempDir::new();
        other.write("marker.txt", "by a command\n");
        let mut command = here.extended(&pi, &model);
        command.args(["--ta-via", &via, "--ta-cwd", other.path().to_str().unwrap()]);
        super::asked(&mut command);
        finish(command);
        assert_eq!(model.sent().answers(), ["by a command\n"]);
    }
}

/// A server is placed there first, and started in the user's login shell.
#[test]
fn a_host_is_reached_by_ssh() {
    const NAME: &str = "a_host_is_reached_by_ssh";
    let Some(pi) = Pi::new(NAME) else { return };
    let Some(host) = Setup::new().start(NAME) else { return };
    // (ssh takes its configuration from the user's home, whatever HOME is.)
    let config = host.dir.join("config");
    let ssh = format!("#!/bin/sh\nexec /usr/bin/ssh -F '{}' \"$@\"\n", config.display());
    fs::create_dir(host.dir.join("bin")).unwrap();
    host.dir.program("bin/ssh", ssh);
    let path = format!("{}:{}", host.dir.join("bin").display(), std::env::var("PATH").unwrap());
    let (here, model) = (Here::new(), Model::that(&[vec![super::bash("echo $USER in $PWD")]]));
    let mut command = here.extended(&pi, &model);
    command.env("PATH", path).env("TA_BIN", program());
    command.env("XDG_RUNTIME_DIR", host.dir.join("run")).args(["--ta-ssh", "box"]);
    super::asked(&mut command);
    finish(command);
    let answers = model.sent().answers();
    let home = host.home();
    assert_eq!(answers, [format!("u in {}\n", home.display())], "{answers:?}");
}
