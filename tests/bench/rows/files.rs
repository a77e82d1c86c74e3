//! Files: each way, flushed to disk or not, in parts, and lists of them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ta_exec::client::ExecClient;
use ta_exec::protocol::{
    PathParams, ReadFileParams, RemoveParams, RenameParams, WirePath, WriteFileParams,
};

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::{Contender, take_turns};
use crate::figures::{Unit, float, per_second};
use crate::procfs;
use crate::report::{Bound, Row};
use crate::rows::single;
use crate::server::Server;

const ROUNDS: usize = 5;
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Twice what other servers of this kind do on a machine of two cores: bytes, how often a turn,
/// bytes a second reading, writing.
const SIZES: [(usize, usize, f64, f64); 3] =
    [(64 * KIB, 400, 500e6, 140e6), (MIB, 50, 730e6, 370e6), (32 * MIB, 4, 180e6, 168e6)];

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

fn whole(path: &Path) -> Outcome<ReadFileParams> {
    Ok(ReadFileParams { path: wire(path)?, offset: None, length: None })
}

/// Whole files, read and written.
pub(super) fn files(arena: &Arena) -> Outcome<Vec<Row>> {
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let directory = Directory::new(arena)?;
    let mut rows = Vec::new();
    for (size, count, reads, writes) in SIZES {
        let count = arena.scaled(count);
        rows.push(
            read(arena, &client, &directory.0, (size, count))?.bound(1, Bound::AtLeast(reads)),
        );
        let row = write(arena, &client, &directory.0, (size, count), false)?;
        rows.push(row.bound(1, Bound::AtLeast(writes)));
    }
    Ok(rows)
}

/// The same writes, flushed to disk.
pub(super) fn sync(arena: &Arena) -> Outcome<Vec<Row>> {
    let server = Server::start(&arena.binary)?;
    let client = server.client()?;
    let directory = Directory::new(arena)?;
    let rows = SIZES.map(|(size, count, ..)| {
        let count = arena.scaled(count.div_ceil(4));
        write(arena, &client, &directory.0, (size, count), true)
    });
    rows.into_iter().collect()
}

fn rounds(arena: &Arena) -> usize {
    if arena.quick { 2 } else { ROUNDS }
}

fn read(
    arena: &Arena,
    client: &ExecClient,
    directory: &Path,
    (size, count): (usize, usize),
) -> Outcome<Row> {
    let path = directory.join("read");
    let expected = content(size, 0);
    fs::write(&path, &expected)?;
    let params = whole(&path)?;
    let turn = |read: &dyn Fn() -> Outcome<Vec<u8>>| {
        let start = Instant::now();
        for _ in 0..count {
            if read()?.len() != size {
                return Err("a file came short".into());
            }
        }
        Ok(vec![per_second((size * count) as u64, start.elapsed())])
    };
    if client.read_file(&params)?.data_base64.0 != expected {
        return Err("what was read is not what the file holds".into());
    }
    let contenders = vec![
        Contender::new("bare: std::fs::read", || turn(&|| Ok(fs::read(&path)?))),
        Contender::new("ta, fs/readFile", || {
            turn(&|| Ok(client.read_file(&params)?.data_base64.0))
        }),
    ];
    let all = take_turns(contenders, rounds(arena))?;
    Ok(Row::beside_floor(format!("a file of {} KiB, read", size / KIB), Unit::Rate, all))
}

fn write(
    arena: &Arena,
    client: &ExecClient,
    directory: &Path,
    (size, count): (usize, usize),
    sync: bool,
) -> Outcome<Row> {
    let (bare, remote) = (directory.join("bare"), directory.join("remote"));
    let mut params = WriteFileParams::new(wire(&remote)?, content(size, 1));
    params.sync = Some(sync);
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
                if sync {
                    file.sync_all()?;
                }
                fs::rename(&beside, &bare)?;
                if sync {
                    File::open(directory)?.sync_all()?;
                }
                Ok(())
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
                if sync {
                    File::open(&bare)?.sync_all()?;
                }
                Ok(())
            })
        }),
    ];
    let all = take_turns(contenders, rounds(arena))?;
    if fs::read(&remote)? != bytes {
        return Err("what the file holds is not what was written".into());
    }
    let how = if sync { "written and flushed" } else { "written" };
    Ok(Row::beside_floor(format!("a file of {} KiB, {how}", size / KIB), Unit::Rate, all))
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
