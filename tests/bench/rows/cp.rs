//! `ta cp`, beside the same bytes by the bare protocol.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ta_exec::client::ExecClient;
use ta_exec::protocol::{ReadFileParams, WirePath, WriteFileParams};

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::{Unit, float, per_second};
use crate::report::{Bound, Row};
use crate::rows::files::{Directory, content};
use crate::server::Server;

const PART: usize = 1024 * 1024;
const ROUNDS: usize = 3;

/// One large file there, and back.
pub(super) fn cp(arena: &Arena) -> Outcome<Vec<Row>> {
    let size: u64 = if arena.quick { 256 << 20 } else { 1 << 30 };
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let directory = Directory::new(arena)?;
    let here = directory.path().join("here");
    let part = content(PART, 1);
    let mut file = File::create(&here)?;
    for _ in 0..size / PART as u64 {
        std::io::Write::write_all(&mut file, &part)?;
    }
    let (there, back) = (directory.path().join("there"), directory.path().join("back"));
    let bare = directory.path().join("bare");
    let run = |from: String, to: String, result: &PathBuf| -> Outcome<Vec<f64>> {
        let _ = fs::remove_file(result);
        let start = Instant::now();
        let mut command = Command::new(&arena.binary);
        command.args(["cp", "--exec", &server.url(), &from, &to]);
        let status = command.env("TA_EXEC_TOKEN", server.token()).status()?;
        let rate = per_second(size, start.elapsed());
        if !status.success() || !same(&here, result)? {
            return Err(format!("ta cp has ended with {status}, or copied something else").into());
        }
        Ok(vec![rate])
    };
    let name = |path: &Path, colon: &str| format!("{colon}{}", path.display());
    let up = take_turns(
        vec![
            Contender::new("bare: fs/writeFile, append", || write(&client, &bare, &part, size)),
            Contender::new("ta cp", || run(name(&here, ""), name(&there, ":"), &there)),
        ],
        ROUNDS,
    )?;
    let down = take_turns(
        vec![
            Contender::new("bare: fs/readFile", || read(&client, &here, &part, size)),
            Contender::new("ta cp", || run(name(&here, ":"), name(&back, ""), &back)),
        ],
        ROUNDS,
    )?;
    let title = |way: &str| format!("{:.2} GiB {way}", float(size) / float(1 << 30));
    Ok(vec![
        Row::beside_floor(title("there"), Unit::Rate, up).bound(1, Bound::PartOfFloor(0.8)),
        Row::beside_floor(title("back"), Unit::Rate, down).bound(1, Bound::PartOfFloor(0.8)),
    ])
}

/// The parts by the bare protocol, one after the other.
fn write(client: &ExecClient, path: &Path, part: &[u8], size: u64) -> Outcome<Vec<f64>> {
    let _ = fs::remove_file(path);
    let start = Instant::now();
    let mut params = WriteFileParams::new(WirePath::try_from(path.to_path_buf())?, part.to_vec());
    params.append = Some(true);
    for _ in 0..size / PART as u64 {
        client.write_file(&params)?;
    }
    let rate = per_second(size, start.elapsed());
    fs::remove_file(path)?;
    Ok(vec![rate])
}

fn read(client: &ExecClient, path: &Path, part: &[u8], size: u64) -> Outcome<Vec<f64>> {
    let start = Instant::now();
    for number in 0..size / PART as u64 {
        let params = ReadFileParams {
            path: WirePath::try_from(path.to_path_buf())?,
            offset: Some(number * PART as u64),
            length: Some(PART as u64),
        };
        if client.read_file(&params)?.data_base64.0 != part {
            return Err(format!("part {number} came as something else").into());
        }
    }
    Ok(vec![per_second(size, start.elapsed())])
}

pub(super) fn same(one: &Path, other: &Path) -> Outcome<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut left, mut right) = (vec![0; PART], vec![0; PART]);
    loop {
        let count = one.read(&mut left)?;
        if count == 0 {
            return Ok(true);
        }
        other.read_exact(&mut right[..count])?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
    }
}
