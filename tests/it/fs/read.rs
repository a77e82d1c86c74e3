//! Reading regular files: whole, in parts, beyond the end, and more than a message holds.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::{AT_ONCE, bytes, fails, merged, noise, path, read, symlink, version, wire};
use crate::support::{Peer, Setup, TempDir, base64, over_both, over_both_with, skipped};

/// One part, and whether it says that it is the last.
#[track_caller]
fn part(peer: &mut Peer, file: &Path, part: &Value) -> (Vec<u8>, bool) {
    let result = peer.ok("fs/readFile", &merged(path(file), part));
    (bytes(&result), result["eof"].as_bool().expect("eof"))
}

/// Reads to the end in parts of this length.
#[track_caller]
fn in_parts(peer: &mut Peer, file: &Path, length: usize) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let range = json!({"offset": whole.len(), "length": length});
        let (bytes, eof) = part(peer, file, &range);
        assert!(bytes.len() <= length, "{} bytes instead of {length}", bytes.len());
        assert!(eof || !bytes.is_empty(), "nothing, but not the end, at {}", whole.len());
        whole.extend(bytes);
        if eof {
            return whole;
        }
    }
}

#[test]
fn a_file_is_read_whole() {
    let dir = TempDir::new();
    let every_byte: Vec<u8> = (0..=255).cycle().take(3000).collect();
    let file = dir.write("f", &every_byte);
    let empty = dir.write("empty", "");
    over_both(|peer| {
        assert_eq!(read(peer, &file), every_byte);
        assert_eq!(read(peer, &empty), b"");
        let result = peer.ok("fs/readFile", &path(&file));
        let members: Vec<_> = result.as_object().unwrap().keys().cloned().collect();
        assert_eq!(members, ["dataBase64", "eof", "size", "version"]);
    });
}

#[test]
fn files_of_all_sizes_around_the_blocks_are_read_whole() {
    let dir = TempDir::new();
    let sizes = [1, 2, 3, 4095, 4096, 4097, 65_535, 65_536, 65_537, 1 << 20, (1 << 20) + 1];
    let files = sizes.map(|size| (dir.write(&size.to_string(), noise(size, 1)), size));
    over_both(|peer| {
        for (file, size) in &files {
            assert!(read(peer, file) == noise(*size, 1), "{size} bytes");
        }
    });
}

#[test]
fn a_file_of_32_mib_is_read_whole() {
    let dir = TempDir::new();
    let content = noise(32 << 20, 7);
    let file = dir.write("f", &content);
    over_both(|peer| {
        let id = peer.request("fs/readFile", &path(&file));
        let result = peer.answer_within(&id, std::time::Duration::from_secs(60)).unwrap();
        assert!(bytes(&result) == content);
    });
}

#[test]
fn a_part_ends_where_it_was_asked_to_and_knows_the_end() {
    let dir = TempDir::new();
    let file = dir.write("f", "0123456789");
    let empty = dir.write("empty", "");
    over_both(|peer| {
        for (offset, length, expected, eof) in [
            (0_u64, 10, "0123456789", true),
            (0, 11, "0123456789", true),
            (0, 9, "012345678", false),
            (3, 4, "3456", false),
            (9, 1, "9", true),
            (8, 1, "8", false),
            (9, 5, "9", true),
            (10, 1, "", true),
            (10, 0, "", true),
            (11, 5, "", true),
            (1 << 40, 5, "", true),
            (0, 0, "", false),
            (9, 0, "", false),
        ] {
            let range = json!({"offset": offset, "length": length});
            let result = peer.ok("fs/readFile", &merged(path(&file), &range));
            assert_eq!(bytes(&result), expected.as_bytes(), "{range}");
            assert_eq!(result["eof"], json!(eof), "{range}");
            assert_eq!(result["size"], json!(10), "{range}");
        }
        assert_eq!(part(peer, &file, &json!({"offset": 4})), (b"456789".to_vec(), true));
        assert_eq!(part(peer, &file, &json!({"length": 4})), (b"0123".to_vec(), false));
        assert_eq!(part(peer, &file, &json!({"offset": null, "length": null})).0.len(), 10);
        assert_eq!(part(peer, &empty, &json!({"length": 0})), (Vec::new(), true));
        assert_eq!(part(peer, &empty, &json!({"offset": 3})), (Vec::new(), true));
    });
}

#[test]
fn an_offset_or_a_length_that_no_file_has_is_not_dangerous() {
    let dir = TempDir::new();
    let file = dir.write("f", "0123456789");
    over_both(|peer| {
        for length in [u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 60] {
            let expected = (b"0123456789".to_vec(), true);
            assert_eq!(part(peer, &file, &json!({"length": length})), expected);
            let range = json!({"offset": 1, "length": length});
            assert_eq!(part(peer, &file, &range), (b"123456789".to_vec(), true));
        }
        for offset in [u64::MAX, 1 << 63, (1 << 63) - 1] {
            let range = json!({"offset": offset, "length": 10});
            match peer.call("fs/readFile", &merged(path(&file), &range)) {
                Ok(result) => {
                    assert_eq!((bytes(&result), &result["eof"]), (Vec::new(), &json!(true)));
                }
                Err(error) => assert_eq!(error.code, -32602, "{error:?}"),
            }
        }
    });
}

#[test]
fn parts_of_any_length_make_the_whole() {
    let dir = TempDir::new();
    let content = noise(10_000, 3);
    let file = dir.write("f", &content);
    over_both(|peer| {
        for length in [97, 1000, 5000, 9999, 10_000, 10_001] {
            assert!(in_parts(peer, &file, length) == content, "in parts of {length}");
        }
    });
}

#[test]
fn what_is_made_when_it_is_read_is_read_to_the_end() {
    let sized = Path::new("/sys/devices/system/cpu/online");
    over_both(|peer| {
        let status = peer.ok("fs/readFile", &path("/proc/self/status"));
        let pid = format!("Pid:\t{}\n", peer.server_pid());
        let text = String::from_utf8(bytes(&status)).unwrap();
        assert!(text.contains(&pid), "not the server's: {text}");
        assert_eq!(status["eof"], json!(true));
        let stable = std::fs::read("/proc/version").unwrap();
        for length in [1, 7, stable.len() - 1, stable.len(), stable.len() + 1] {
            assert_eq!(in_parts(peer, Path::new("/proc/version"), length), stable, "{length}");
        }
        // More than one page, of which the kernel gives a page at a time.
        let long = std::fs::read("/proc/kallsyms").unwrap_or_default();
        if long.len() > 100_000 && long.len() < 30_000_000 {
            let result = peer.ok("fs/readFile", &path("/proc/kallsyms"));
            assert!(bytes(&result).len() >= long.len() / 2, "{} bytes", bytes(&result).len());
            assert_eq!(result["eof"], json!(true));
        }
        // It says 4096 bytes and has fewer.
        if let Ok(expected) = std::fs::read(sized) {
            let result = peer.ok("fs/readFile", &path(sized));
            assert_eq!((bytes(&result), &result["eof"]), (expected, &json!(true)));
        }
        let gone = peer.ok("fs/readFile", &merged(path("/proc/version"), &json!({"offset": 9999})));
        assert_eq!((bytes(&gone), &gone["eof"]), (Vec::new(), &json!(true)));
    });
}

#[test]
fn more_than_a_message_holds_is_refused_with_its_size_and_read_in_parts() {
    let dir = TempDir::new();
    let content = noise(3_000_000, 5);
    let file = dir.write("f", &content);
    let fits = dir.write("fits", &content[..700_000]);
    let setup = || Setup::new().args(["--max-message-bytes", "1000000"]);
    over_both_with(setup, |peer| {
        let error = fails(peer, "fs/readFile", &path(&file), "CELL_TA_EXEC_TOO_LARGE");
        assert_eq!(error.data["size"], json!(3_000_000), "{error:?}");
        error.assert_names(file.to_str().unwrap());
        let range = merged(path(&file), &json!({"offset": 1, "length": 900_000}));
        let error = fails(peer, "fs/readFile", &range, "CELL_TA_EXEC_TOO_LARGE");
        assert_eq!(error.data["size"], json!(3_000_000), "{error:?}");
        assert!(in_parts(peer, &file, 700_000) == content);
        assert!(read(peer, &fits) == content[..700_000], "what fits is not refused");
        // The rest of it fits.
        let rest = json!({"offset": 2_500_000});
        assert!(part(peer, &file, &rest) == (content[2_500_000..].to_vec(), true));
    });
}

#[test]
fn around_the_limit_there_is_an_answer_or_a_typed_error() {
    let dir = TempDir::new();
    let file = dir.write("f", noise(80_000, 5));
    let setup = || Setup::new().args(["--max-message-bytes", "100000"]);
    over_both_with(setup, |peer| {
        let mut refused = false;
        for length in 74_800..75_020 {
            let range = merged(path(&file), &json!({"length": length}));
            let message = peer.call("fs/readFile", &range);
            match message {
                Ok(result) => {
                    assert!(!refused, "{length} bytes fit and fewer did not");
                    assert_eq!(bytes(&result).len(), length);
                    assert!(result.to_string().len() < 100_000, "{length} bytes do not fit");
                }
                Err(error) => {
                    refused = true;
                    assert_eq!(error.data_code(), "CELL_TA_EXEC_TOO_LARGE", "{error:?}");
                }
            }
        }
        assert!(refused);
    });
}

#[test]
fn a_huge_sparse_file_costs_nothing() {
    const SIZE: u64 = 1 << 40;
    let dir = TempDir::new();
    let file = dir.write("f", "start");
    let handle = std::fs::File::options().write(true).open(&file).unwrap();
    if handle.set_len(SIZE).is_err() {
        skipped("a_huge_sparse_file_costs_nothing", "the file system has no file of 1 TiB");
        return;
    }
    over_both(|peer| {
        let error = fails(peer, "fs/readFile", &path(&file), "CELL_TA_EXEC_TOO_LARGE");
        assert_eq!(error.data["size"], json!(SIZE), "{error:?}");
        let since = Instant::now();
        let middle = part(peer, &file, &json!({"offset": SIZE / 2, "length": 100_000}));
        assert!(middle == (vec![0; 100_000], false));
        assert_eq!(part(peer, &file, &json!({"offset": SIZE - 3})), (vec![0; 3], true));
        assert_eq!(part(peer, &file, &json!({"length": 5})), (b"start".to_vec(), false));
        assert!(since.elapsed() < AT_ONCE, "{:?}", since.elapsed());
    });
}

#[test]
fn a_relative_path_starts_at_the_servers_cwd() {
    let dir = TempDir::new();
    dir.write("f", "here");
    std::fs::create_dir(dir.join("sub")).unwrap();
    let setup = || super::in_dir(dir.path());
    over_both_with(setup, |peer| {
        for name in ["f", "./f", "sub/../f", "sub//..//f"] {
            assert_eq!(read(peer, name), b"here", "{name}");
        }
        let error = fails(peer, "fs/readFile", &path("nope"), "ENOENT");
        error.assert_names("nope");
    });
}

#[test]
fn a_file_is_read_through_symbolic_links() {
    let dir = TempDir::new();
    dir.write("f", "behind links");
    std::fs::create_dir(dir.join("sub")).unwrap();
    symlink("f", dir.join("relative"));
    symlink(dir.join("relative"), dir.join("sub/absolute"));
    symlink("sub", dir.join("sublink"));
    over_both(|peer| {
        for name in ["relative", "sub/absolute", "sublink/absolute", "sublink/../f"] {
            assert_eq!(read(peer, dir.join(name)), b"behind links", "{name}");
        }
        let versions = ["f", "relative", "sublink/absolute"]
            .map(|name| version(&peer.ok("fs/readFile", &path(dir.join(name)))));
        assert!(versions.iter().all(|one| *one == versions[0]), "{versions:?}");
    });
}

#[test]
fn a_path_may_come_in_base64() {
    let dir = TempDir::new();
    let file = dir.write("f", "content");
    over_both(|peer| {
        let encoded = json!({"path": {"base64": base64(file.to_str().unwrap())}});
        assert_eq!(bytes(&peer.ok("fs/readFile", &encoded)), b"content");
        assert_eq!(peer.ok("fs/stat", &encoded), peer.ok("fs/stat", &json!({"path": wire(&file)})));
    });
}
