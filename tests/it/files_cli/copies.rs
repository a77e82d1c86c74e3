//! `ta cp`: single files, and where they go.

use std::fs;
use std::os::unix::fs::symlink;

use super::{SIZES, everywhere, mode, noise, set_mode};

#[test]
fn every_size_goes_there_and_comes_back() {
    everywhere(|site| {
        for (number, size) in SIZES.into_iter().enumerate() {
            let bits = [0o644, 0o600, 0o755, 0o444][number % 4];
            set_mode(site.here.write("file", noise(size)), bits);
            site.run("cp", ["file", &site.colon("copy")]).quiet();
            assert!(fs::read(site.there.join("copy")).unwrap() == noise(size), "{size}");
            assert_eq!(mode(site.there.join("copy")), bits);
            site.run("cp", [&site.colon("copy"), "back"]).quiet();
            assert!(fs::read(site.here.join("back")).unwrap() == noise(size), "{size}");
            assert_eq!(mode(site.here.join("back")), bits);
            site.run("cp", [site.colon("copy"), site.colon("second")]).quiet();
            assert!(fs::read(site.there.join("second")).unwrap() == noise(size), "{size}");
            for path in [site.here.join("file"), site.here.join("back")] {
                fs::remove_file(path).unwrap();
            }
            for path in ["copy", "second"] {
                fs::remove_file(site.there.join(path)).unwrap();
            }
        }
    });
}

#[test]
fn into_a_directory_it_keeps_its_name() {
    everywhere(|site| {
        site.here.write("a", b"a");
        site.here.write(":b", b"b");
        fs::create_dir(site.there.join("dir")).unwrap();
        site.run("cp", ["a", "./:b", &site.colon("dir")]).quiet();
        assert_eq!(fs::read(site.there.join("dir/a")).unwrap(), b"a");
        assert_eq!(fs::read(site.there.join("dir/:b")).unwrap(), b"b");
        fs::create_dir(site.here.join("into")).unwrap();
        site.run("cp", [&site.colon("dir/a"), &site.colon("dir/:b"), "into/"]).quiet();
        assert_eq!(fs::read(site.here.join("into/:b")).unwrap(), b"b");
        site.run("cp", [site.colon("dir/a"), site.colon("")]).quiet();
        assert_eq!(fs::read(site.there.join("a")).unwrap(), b"a");
    });
}

#[test]
fn a_directory_that_is_meant_must_be_there() {
    everywhere(|site| {
        site.here.write("a", b"a");
        site.here.write("b", b"b");
        site.there.write("file", b"old");
        let [missing, slash, file] = ["missing", "missing/", "file"].map(|name| site.colon(name));
        site.run("cp", ["a", "b", &missing]).failed(1, "no such directory");
        site.run("cp", ["a", "b", &file]).failed(1, "it is no directory");
        site.run("cp", ["a", &slash]).failed(1, "no such directory");
        site.run("cp", ["a", &site.colon("no/where")]).failed(1, "where");
        site.run("cp", [&file, "missing/"]).failed(1, "no such directory");
        assert_eq!(fs::read(site.there.join("file")).unwrap(), b"old");
        assert_eq!(fs::read_dir(site.there.path()).unwrap().count(), 1);
    });
}

/// The second took the place of the first, and nobody was told.
#[test]
fn two_sources_of_one_name_are_not_one_file() {
    everywhere(|site| {
        for side in [&site.here, &site.there] {
            for (directory, content) in [("first", b"1"), ("second", b"2")] {
                fs::create_dir(side.join(directory)).unwrap();
                side.write(&format!("{directory}/same"), content);
            }
            fs::create_dir(side.join("into")).unwrap();
        }
        let far = [site.colon("first/same"), site.colon("second/same")];
        for sources in [["first/same", "second/same"], [&far[0], &far[1]]] {
            let done = site.run("cp", [sources[0], sources[1], &site.colon("into")]);
            done.failed(1, "another was just copied there");
            assert_eq!(fs::read(site.there.join("into/same")).unwrap(), b"1");
            fs::remove_file(site.there.join("into/same")).unwrap();
        }
        site.run("cp", [&far[0], &far[1], "into"]).failed(1, "another was just copied there");
        assert_eq!(fs::read(site.here.join("into/same")).unwrap(), b"1");
    });
}

#[test]
fn the_others_are_copied_when_one_fails() {
    everywhere(|site| {
        site.here.write("a", b"a");
        site.here.write("c", b"c");
        fs::create_dir(site.here.join("dir")).unwrap();
        let done = site.run("cp", ["a", "missing", "dir", "c", &site.colon("")]);
        let lines: Vec<_> = done.stderr.lines().collect();
        assert_eq!((done.code, lines.len()), (1, 2), "{done:?}");
        assert!(lines[0].contains("missing") && lines[1].contains("see -r"), "{done:?}");
        assert_eq!(fs::read(site.there.join("a")).unwrap(), b"a");
        assert_eq!(fs::read(site.there.join("c")).unwrap(), b"c");
        site.run("cp", [&site.colon("missing"), "x"]).failed(1, "missing");
        site.run("cp", [site.colon("missing"), site.colon("x")]).failed(1, "missing");
    });
}

#[test]
fn a_link_on_the_command_line_is_followed() {
    everywhere(|site| {
        site.here.write("file", b"content");
        symlink("file", site.here.join("link")).unwrap();
        site.run("cp", ["link", &site.colon("copy")]).quiet();
        assert!(fs::symlink_metadata(site.there.join("copy")).unwrap().is_file());
        symlink("copy", site.there.join("link")).unwrap();
        site.run("cp", [&site.colon("link"), "back"]).quiet();
        assert_eq!(fs::read(site.here.join("back")).unwrap(), b"content");
        site.run("cp", [site.colon("link"), site.colon("second")]).quiet();
        assert!(fs::symlink_metadata(site.there.join("second")).unwrap().is_file());
    });
}

#[test]
fn a_colon_alone_is_the_directory_there() {
    let site = super::Site::new("here", None, &[]);
    site.there.write("file", b"content");
    let mut command = site.ta("cp", [site.far("file"), ":".to_owned()]);
    command.current_dir(site.here.path());
    super::Running::start(command).finish().quiet();
    assert_eq!(fs::read(site.here.join("file")).unwrap(), b"content");
}

#[test]
fn the_terminal_sees_how_far_it_is_and_nobody_else() {
    if crate::support::lacks("the_terminal_sees", "script") {
        return;
    }
    let site = super::Site::listening();
    site.here.write("file", noise(3 << 20));
    let line = format!("{} cp file {}", crate::support::binary().display(), site.colon("copy"));
    let mut command = std::process::Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(site.here.path());
    let server = site.server.as_ref().unwrap();
    command.env("TA_EXEC_URL", format!("ws://{}/exec", server.address));
    command.env("TA_EXEC_TOKEN", crate::support::TOKEN).stdin(std::process::Stdio::null());
    let done = super::Running::start(command).finish();
    let shown = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.code == 0 && shown.contains("file  ") && shown.contains("/s"), "{done:?}");
    assert!(shown.trim_end().ends_with("\u{1b}[K"), "the line is taken away: {shown:?}");
}
