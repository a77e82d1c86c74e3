//! Files: what Codex does with them, and what must not happen to them.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::codex::peer::Peer;
use crate::support::{Server, TempDir, base64, unbase64};

struct Place {
    dir: TempDir,
    peer: Peer,
    _server: Server,
}

impl Place {
    fn new() -> Self {
        let server = Server::start();
        Self { dir: TempDir::new(), peer: Peer::connect(&server), _server: server }
    }

    fn uri(&self, name: &str) -> String {
        format!("file://{}/{name}", self.dir.path().display())
    }

    #[track_caller]
    fn ok(&mut self, method: &str, name: &str, more: &Value) -> Value {
        let params = self.params(name, more);
        self.peer.ok(method, &params)
    }

    #[track_caller]
    fn error(&mut self, method: &str, name: &str, more: &Value) -> i64 {
        let params = self.params(name, more);
        self.peer.error(method, &params).0
    }

    fn params(&self, name: &str, more: &Value) -> Value {
        let mut params = json!({"path": self.uri(name)});
        for (member, value) in more.as_object().unwrap() {
            params[member] = value.clone();
        }
        params
    }

    #[track_caller]
    fn read(&mut self, name: &str) -> Vec<u8> {
        let result = self.ok("fs/readFile", name, &json!({}));
        unbase64(result["dataBase64"].as_str().unwrap())
    }
}

#[test]
fn a_file_is_written_in_place_and_read_back() {
    let mut place = Place::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
    for content in [&bytes[..], b"short", b""] {
        place.ok("fs/writeFile", "file", &json!({"dataBase64": base64(content)}));
        assert!(fs::read(place.dir.join("file")).unwrap() == content);
        assert!(place.read("file") == content);
    }
    symlink("file", place.dir.join("link")).unwrap();
    place.ok("fs/writeFile", "link", &json!({"dataBase64": base64("through it")}));
    assert_eq!(fs::read(place.dir.join("file")).unwrap(), b"through it");
    assert!(place.dir.join("link").is_symlink());
    let error = place.error("fs/writeFile", "none/x", &json!({"dataBase64": ""}));
    assert_eq!(error, -32004);
}

#[test]
fn only_what_is_not_there_is_minus_32004() {
    let mut place = Place::new();
    place.dir.write("file", "x");
    for method in ["fs/getMetadata", "fs/readFile", "fs/canonicalize", "fs/readDirectory"] {
        assert_eq!(place.error(method, "none", &json!({})), -32004, "{method}");
        assert_ne!(place.error(method, "file/x", &json!({})), -32004, "{method}");
    }
}

#[test]
fn any_name_is_a_name() {
    let mut place = Place::new();
    let name = std::ffi::OsStr::from_bytes(b"a b%?#\xff\n\\");
    fs::write(place.dir.path().join(name), "found").unwrap();
    assert_eq!(place.read("a%20b%25%3F%23%FF%0A%5C"), b"found");
    let walk = json!({"options": {
        "maxDepth": 1, "maxDirectories": 9, "maxEntries": 9, "followDirectorySymlinks": false,
    }});
    let found = place.ok("fs/walk", "", &walk);
    let uri = found["entries"][0]["path"].as_str().unwrap().to_owned();
    let result = place.peer.ok("fs/readFile", &json!({"path": uri}));
    assert_eq!(unbase64(result["dataBase64"].as_str().unwrap()), b"found");
    for bad in ["/etc/passwd", "", "http:///etc/passwd", "file://other/etc/passwd"] {
        assert_eq!(place.peer.error("fs/readFile", &json!({"path": bad})).0, -32602, "{bad}");
    }
}

#[test]
fn a_file_is_read_and_written_in_blocks() {
    let mut place = Place::new();
    place.dir.write("file", "0123456789");
    place.ok("fs/open", "file", &json!({"handleId": "r"}));
    let mut block = |offset: u64, len: u64| {
        let params = json!({"handleId": "r", "offset": offset, "len": len});
        let result = place.peer.ok("fs/readBlock", &params);
        (unbase64(result["chunk"].as_str().unwrap()), result["eof"].as_bool().unwrap())
    };
    assert_eq!(block(2, 3), (b"234".to_vec(), false));
    assert_eq!(block(8, 100), (b"89".to_vec(), true));
    assert_eq!(block(100, 1), (Vec::new(), true));
    let write =
        |offset: u64, text: &str| json!({"handleId": "w", "offset": offset, "chunk": base64(text)});
    place.ok("fs/open", "new", &json!({"handleId": "w", "mode": "replace"}));
    place.peer.ok("fs/writeBlock", &write(3, "def"));
    place.peer.ok("fs/writeBlock", &write(0, "abc"));
    assert_eq!(fs::read(place.dir.join("new")).unwrap(), b"abcdef");
    for handle in ["r", "w", "w", "none"] {
        place.peer.ok("fs/close", &json!({"handleId": handle}));
    }
    assert_eq!(place.peer.error("fs/writeBlock", &write(0, "x")).0, -32004);
}

/// Handles of a session that is over are closed.
#[test]
fn handles_are_no_leak() {
    let server = crate::support::Setup::new().args(["--codex-resume", "0"]).listen();
    let dir = TempDir::new();
    dir.write("file", "x");
    let path = format!("file://{}/file", dir.path().display());
    let before = crate::support::procfs::settled(server.pid()).1;
    let mut peer = Peer::connect(&server);
    for number in 0..50 {
        peer.ok("fs/open", &json!({"handleId": number.to_string(), "path": path}));
    }
    peer.wire().hang_up();
    crate::support::eventually(crate::support::DEADLINE, "its handles are closed", || {
        crate::support::procfs::descriptors(server.pid()) <= before
    });
}

#[test]
fn what_is_removed_and_copied_is_what_was_named() {
    let mut place = Place::new();
    fs::create_dir_all(place.dir.join("tree/deep")).unwrap();
    place.dir.write("tree/deep/file", "x");
    place.dir.write("outside", "stays");
    symlink("../outside", place.dir.join("tree/link")).unwrap();
    let copy = json!({
        "sourcePath": place.uri("tree"), "destinationPath": place.uri("copied"), "recursive": true,
    });
    place.peer.ok("fs/copy", &copy);
    assert_eq!(place.read("copied/deep/file"), b"x");
    assert!(place.dir.join("copied/link").is_symlink());
    let into_itself = json!({
        "sourcePath": place.uri("tree"), "destinationPath": place.uri("tree/in"),
        "recursive": true,
    });
    assert_eq!(place.peer.error("fs/copy", &into_itself).0, -32600);
    assert_ne!(place.error("fs/remove", "tree", &json!({"recursive": false})), -32004);
    place.ok("fs/remove", "tree", &json!({}));
    assert!(!place.dir.join("tree").exists());
    assert_eq!(fs::read(place.dir.join("outside")).unwrap(), b"stays");
    place.ok("fs/remove", "tree", &json!({}));
    assert_eq!(place.error("fs/remove", "tree", &json!({"force": false})), -32004);
}

/// A FIFO that nobody writes to, a device that never ends.
#[test]
fn what_is_no_file_is_not_read() {
    let mut place = Place::new();
    let fifo = place.dir.join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    assert_eq!(place.error("fs/readFile", "fifo", &json!({})), -32600);
    assert_eq!(place.error("fs/open", "fifo", &json!({"handleId": "f"})), -32600);
    for device in ["zero", "null", "tty", "ptmx"] {
        let params = json!({"path": format!("file:///dev/{device}")});
        assert!(place.peer.ask("fs/readFile", &params).is_err(), "{device}");
    }
    assert!(fs::read("/proc/self/comm").unwrap().len() > 1);
    let comm = place.peer.ok("fs/readFile", &json!({"path": "file:///proc/self/comm"}));
    assert!(!unbase64(comm["dataBase64"].as_str().unwrap()).is_empty());
}
