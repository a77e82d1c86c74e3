//! Files: each way, flushed to disk or not, in parts, and lists of them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ta_exec::client::ExecClient;
use ta_exec::protocol::{
    PathParams, ReadFileParams, RemoveParams, RenameParams, WirePath, WriteFileParams,
};

use super::{compare, cp, single, with_missing};
use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::{Unit, float, per_second};
use crate::peers::{CODEX, Peers, TA, Way};
use crate::procfs;
use crate::report::{Bound, Row};
use crate::server::Server;

const ROUNDS: usize = 5;
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Bytes, how many a turn, and how many times Codex's rate is the least.
const SIZES: [(usize, usize, Option<f64>); 3] =
    [(64 * KIB, 200, None), (MIB, 40, Some(2.0)), (32 * MIB, 3, Some(3.0))];
const LARGE: u64 = 1 << 30;
const LARGE_ROUNDS: usize = 3;

/// A directory of the benchmark's own.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// On the disk that the build is on.
    pub(super) fn new(arena: &Arena) -> Outcome<Self> {
        Self::at(&arena.directory)
    }

    pub(super) fn at(parent: &Path) -> Outcome<Self> {
        let path = parent.join(format!("ta-files-{}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn wire(path: &Path) -> Outcome<WirePath> {
    Ok(WirePath::try_from(path.to_path_buf())?)
}

/// Bytes that are not all the same, nor the same as the last ones.
pub(super) fn content(size: usize, seed: usize) -> Vec<u8> {
    (0..size).map(|place| (place ^ (place >> 8) ^ seed).to_le_bytes()[0]).collect()
}

/// Whole files, read and written by one request each, and one that nobody holds as a whole.
pub(super) fn files(arena: &Arena) -> Outcome<Vec<Row>> {
    let peers = Peers::start(arena)?;
    let directory = Directory::new(arena)?;
    let mut rows = Vec::new();
    for (size, count, least) in SIZES {
        for row in whole(arena, &peers, &directory, (size, arena.scaled(count)))? {
            let row = least
                .into_iter()
                .fold(row, |row, least| row.bound_of(TA, Bound::PartOf(CODEX, least)));
            rows.push(with_missing(row, &peers));
        }
    }
    rows.extend(large(arena, &peers, &directory)?);
    Ok(rows)
}

fn whole(
    arena: &Arena,
    peers: &Peers,
    directory: &Directory,
    (size, count): (usize, usize),
) -> Outcome<[Row; 2]> {
    let bytes = content(size, 1);
    let here = directory.path().join("here");
    fs::write(&here, &bytes)?;
    let same: Vec<PathBuf> = (0..count).map(|_| here.clone()).collect();
    let new: Vec<PathBuf> =
        (0..count).map(|number| directory.path().join(format!("new-{number}"))).collect();
    let reads = compare(peers, rounds(arena), |way| {
        let start = Instant::now();
        way.read(&same, size)?;
        Ok(vec![per_second((size * count) as u64, start.elapsed())])
    })?;
    let writes = compare(peers, rounds(arena), |way| {
        let start = Instant::now();
        way.write(&new, &bytes)?;
        let rate = per_second((size * count) as u64, start.elapsed());
        for file in &new {
            if fs::read(file)? != bytes {
                return Err(format!("{} is not what was written", file.display()).into());
            }
            fs::remove_file(file)?;
        }
        Ok(vec![rate])
    })?;
    let title = |how| format!("a file of {} KiB, {how}", size / KIB);
    Ok([
        Row::beside_floor(title("read"), Unit::Rate, reads),
        Row::beside_floor(title("written, a new one"), Unit::Rate, writes),
    ])
}

/// There and back, by what people have for that.
fn large(arena: &Arena, peers: &Peers, directory: &Directory) -> Outcome<[Row; 2]> {
    let size = if arena.quick { LARGE / 8 } else { LARGE };
    let [here, there] = ["here", "there"].map(|name| directory.path().join(name));
    let part = content(MIB, 2);
    let mut file = File::create(&here)?;
    for _ in 0..size / MIB as u64 {
        file.write_all(&part)?;
    }
    drop(file);
    let timed = |way: &mut dyn Way, stores: bool| {
        let start = Instant::now();
        if stores {
            way.store(&here, &there)?
        } else {
            way.fetch(&here, &there)?
        }
        let rate = per_second(size, start.elapsed());
        if !cp::same(&here, &there)? {
            return Err("what came is something else".into());
        }
        fs::remove_file(&there)?;
        Ok(vec![rate])
    };
    let stores = compare(peers, LARGE_ROUNDS, |way| timed(way, true))?;
    let fetches = compare(peers, LARGE_ROUNDS, |way| timed(way, false))?;
    let title = |way: &str| format!("a file of {} MiB {way}", size >> 20);
    let note = "`ta cp`, sftp, Codex's blocks of 1 MiB, eight on their way at once";
    Ok([
        Row::beside_floor(title("there"), Unit::Rate, stores).note(note),
        Row::beside_floor(title("back"), Unit::Rate, fetches).note(note),
    ])
}

/// The same writes, flushed to disk.
pub(super) fn sync(arena: &Arena) -> Outcome<Vec<Row>> {
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let directory = Directory::new(arena)?;
    let rows = SIZES.map(|(size, count, _)| {
        let count = arena.scaled(count.div_ceil(4));
        flushed(arena, &client, &directory.0, (size, count))
    });
    rows.into_iter().collect()
}

fn rounds(arena: &Arena) -> usize {
    if arena.quick { 2 } else { ROUNDS }
}

fn flushed(
    arena: &Arena,
    client: &ExecClient,
    directory: &Path,
    (size, count): (usize, usize),
) -> Outcome<Row> {
    let (bare, remote) = (directory.join("bare"), directory.join("remote"));
    let mut params = WriteFileParams::new(wire(&remote)?, content(size, 1));
    params.sync = Some(true);
    let bytes = content(size, 1);
    let turn = |write: &dyn Fn() -> Outcome<()>| {
        let start = Instant::now();
        (0..count).try_for_each(|_| write())?;
        Ok(vec![per_second((size * count) as u64, start.elapsed())])
    };
    let beside = directory.join("beside");
    let contenders = vec![
        Contender::new("bare: a new file beside it and a rename", || {
            turn(&|| {
                let mut file = File::create(&beside)?;
                file.write_all(&bytes)?;
                file.sync_all()?;
                fs::rename(&beside, &bare)?;
                Ok(File::open(directory)?.sync_all()?)
            })
        }),
        Contender::new("ta, fs/writeFile", || {
            turn(&|| match client.write_file(&params)?.size == size as u64 {
                true => Ok(()),
                false => Err("a file was written short".into()),
            })
        }),
        Contender::new("bare: std::fs::write over the old one", || {
            turn(&|| {
                fs::write(&bare, &bytes)?;
                Ok(File::open(&bare)?.sync_all()?)
            })
        }),
    ];
    let all = take_turns(contenders, rounds(arena))?;
    if fs::read(&remote)? != bytes {
        return Err("what the file holds is not what was written".into());
    }
    let title = format!("a file of {} KiB, written and flushed", size / KIB);
    Ok(Row::beside_floor(title, Unit::Rate, all))
}

/// A file of any size at constant memory: there in parts, a rename, and back in parts.
pub(super) fn carry(arena: &Arena) -> Outcome<Vec<Row>> {
    const PART: usize = MIB;
    let size: u64 = if arena.quick { 256 << 20 } else { 2 << 30 };
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let directory = Directory::new(arena)?;
    let (there, done) = (directory.0.join("part"), directory.0.join("whole"));
    let parts = size / PART as u64;
    let part = |number: u64| content(PART, usize::try_from(number).unwrap_or(0));
    let start = Instant::now();
    for number in 0..parts {
        let mut params = WriteFileParams::new(wire(&there)?, part(number));
        params.append = Some(true);
        client.write_file(&params)?;
    }
    client.rename(&RenameParams { from: wire(&there)?, to: wire(&done)? })?;
    let written = per_second(size, start.elapsed());
    let start = Instant::now();
    for number in 0..parts {
        let params = ReadFileParams {
            path: wire(&done)?,
            offset: Some(number * PART as u64),
            length: Some(PART as u64),
        };
        if client.read_file(&params)?.data_base64.0 != part(number) {
            return Err(format!("part {number} came back as something else").into());
        }
    }
    let read = per_second(size, start.elapsed());
    let path = wire(&done)?;
    client.remove(&RemoveParams { path, recursive: None, force: None })?;
    let peak = procfs::peak_resident(server.pid())?;
    let title = format!("{:.2} GiB there and back in parts of 1 MiB", float(size) / float(1 << 30));
    let rates = vec![single("there", written)?, single("back", read)?];
    let memory = vec![single("VmHWM of the server", peak)?];
    Ok(vec![
        Row::alone(title, Unit::Rate, rates),
        Row::alone("resident memory meanwhile", Unit::Memory, memory)
            .bound(0, Bound::AtMost(64.0 * 1024.0 * 1024.0)),
    ])
}

/// A long list.
pub(super) fn list(arena: &Arena) -> Outcome<Vec<Row>> {
    const ENTRIES: usize = 20_000;
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let directory = Directory::new(arena)?;
    for number in 0..ENTRIES {
        File::create(directory.0.join(format!("entry-{number:05}.txt")))?;
    }
    let params = PathParams { path: wire(&directory.0)? };
    let timed = |list: &dyn Fn() -> Outcome<usize>| {
        let start = Instant::now();
        match list()? {
            ENTRIES => Ok(vec![start.elapsed().as_secs_f64()]),
            other => Err(format!("{other} entries came in place of {ENTRIES}").into()),
        }
    };
    let contenders = vec![
        Contender::new("bare: std::fs::read_dir", || {
            timed(&|| Ok(fs::read_dir(&directory.0)?.filter_map(Result::ok).count()))
        }),
        Contender::new("ta, fs/readdir", || timed(&|| Ok(client.readdir(&params)?.entries.len()))),
    ];
    let all = take_turns(contenders, rounds(arena) * 4)?;
    let row = Row::beside_floor(format!("a directory of {ENTRIES} entries"), Unit::Time, all);
    Ok(vec![row.bound(1, Bound::AtMost(0.1))])
}
