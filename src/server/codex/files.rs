//! Files as the dialect has them. What is done, and in which order, is done as for ExecRpc; here it is
//! asked for and told in other words.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;

use serde::Serialize;

use super::params::{self, Mode};
use super::uri::Uri;
use super::walk;
use crate::error::{Error, ErrorKind, Result};
use crate::fs::{open, realpath};
use crate::protocol::{
    Base64, CopyParams, Empty, FileType, MkdirParams, ReadFileParams, RemoveParams, WirePath,
    WriteFileParams,
};
use crate::server::files::{Files, Kind};
use crate::server::responder::Responder;
use crate::sync::lock;
use crate::sys::errno;

/// The most bytes of a block.
const BLOCK: usize = 1024 * 1024;
/// The most handles of a connection, and the longest name of one.
const HANDLES: usize = 1024;
const LONGEST_HANDLE: usize = 32;

const NONBLOCK: i32 = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();

/// Files that a connection has open, by its names for them.
#[derive(Clone, Default)]
pub(super) struct Handles(Arc<Mutex<HashMap<String, Handle>>>);

#[derive(Clone)]
struct Handle {
    file: Arc<File>,
    path: PathBuf,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    is_directory: bool,
    is_file: bool,
    is_symlink: bool,
    size: u64,
    created_at_ms: u64,
    modified_at_ms: i64,
}

#[derive(Serialize)]
struct Canonical {
    path: Uri,
}

#[derive(Serialize)]
struct Directory {
    entries: Vec<Entry>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    file_name: String,
    is_directory: bool,
    is_file: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    data_base64: Base64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    handle_id: String,
}

#[derive(Serialize)]
struct Block {
    chunk: Base64,
    eof: bool,
}

/// What is asked of files on one connection.
pub(super) struct Calls<'a> {
    pub(super) files: &'a Files,
    pub(super) handles: &'a Handles,
    /// The longest content that is read at once.
    pub(super) most: usize,
}

fn wire(uri: Uri) -> WirePath {
    WirePath::known(uri.0)
}

impl Calls<'_> {
    /// Looks or changes something, and answers what comes of it.
    fn carry_out<T: Serialize>(
        &self,
        (kind, paths, bytes): (Kind, Vec<PathBuf>, usize),
        responder: Responder,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) {
        self.files.carry_out((kind, paths, bytes), responder, work);
    }

    pub(super) fn read_file(&self, params: params::Path, responder: Responder) {
        if params.follows() {
            return self.files.read_file(&ReadFileParams::whole(wire(params.path)), responder);
        }
        let (path, most) = (params.path.0, self.most);
        self.carry_out((Kind::Read, vec![path.clone()], 0), responder, move || {
            refuse_links(&path)?;
            let mut content = Vec::new();
            let part = crate::fs::Part { offset: 0, length: None };
            open(&path)?.read(part, most as u64, |piece| content.extend_from_slice(piece))?;
            Ok(Content { data_base64: Base64(content) })
        });
    }

    pub(super) fn write_file(&self, params: params::WriteFile, responder: Responder) {
        let follows = params.follow_symlinks.unwrap_or(true);
        let mut write = WriteFileParams::new(wire(params.path), params.data_base64.0);
        write.create_parents = Some(false);
        if follows {
            return self.files.write_file(write, responder);
        }
        let (path, bytes) = (write.path.as_path().to_owned(), write.data_base64.0.len());
        self.carry_out((Kind::Change, vec![path.clone()], bytes), responder, move || {
            refuse_links(&path)?;
            crate::fs::write(&path, &write.data_base64.0, &crate::fs::Terms::of(&write))
                .map(|_| Empty {})
        });
    }

    pub(super) fn create_directory(&self, params: params::Path, responder: Responder) {
        let recursive = Some(params.recursive.unwrap_or(true));
        if params.follows() {
            let make = MkdirParams { path: wire(params.path), recursive, mode: None };
            return self.files.mkdir(&make, responder);
        }
        let path = params.path.0;
        self.carry_out((Kind::Change, vec![path.clone()], 0), responder, move || {
            refuse_links(&path)?;
            crate::fs::make(&path, recursive == Some(true), None).map(|()| Empty {})
        });
    }

    pub(super) fn metadata(&self, params: params::Path, responder: Responder) {
        let follows = params.follows();
        let path = params.path.0;
        self.carry_out((Kind::Look, vec![path.clone()], 0), responder, move || {
            let failed = |error| Error::io(&error, format!("cannot stat {path:?}"));
            if !follows {
                path.parent().map_or(Ok(()), refuse_links_above)?;
            }
            let itself = fs::symlink_metadata(&path).map_err(failed)?;
            if itself.is_symlink() && !follows {
                let message = format!("{path:?} is a symbolic link, and none is to be followed");
                return Err(Error::new(ErrorKind::InvalidRequest, message));
            }
            let found = fs::metadata(&path).map_err(failed)?;
            let created = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            let created = created.map_or(0, |at| at.as_millis());
            let nanoseconds = found.mtime_nsec() / 1_000_000;
            Ok(Metadata {
                is_directory: found.is_dir(),
                is_file: found.is_file(),
                is_symlink: itself.is_symlink(),
                size: found.len(),
                created_at_ms: u64::try_from(created).unwrap_or(0),
                modified_at_ms: found.mtime().saturating_mul(1000).saturating_add(nanoseconds),
            })
        });
    }

    pub(super) fn canonicalize(&self, params: params::Path, responder: Responder) {
        let path = params.path.0;
        self.carry_out((Kind::Look, vec![path.clone()], 0), responder, move || {
            Ok(Canonical { path: Uri(realpath(&path)?) })
        });
    }

    pub(super) fn read_directory(&self, params: params::Path, responder: Responder) {
        let path = params.path.0;
        self.carry_out((Kind::Read, vec![path.clone()], 0), responder, move || {
            let listed = crate::fs::list(&path, &mut || true)?;
            let entries = listed.into_iter().filter_map(|entry| {
                // A link is what it leads to; one that leads nowhere is left out.
                let kind = match entry.target_type {
                    Some(target) => target?,
                    None => entry.file_type,
                };
                Some(Entry {
                    file_name: entry.name,
                    is_directory: kind == FileType::Directory,
                    is_file: kind == FileType::File,
                })
            });
            Ok(Directory { entries: entries.collect() })
        });
    }

    pub(super) fn walk(&self, params: params::Walk, responder: Responder) {
        if let Err(error) = walk::check(&params.options) {
            return responder.send::<()>(&Err(error));
        }
        let path = params.path.0;
        let options = params.options;
        self.carry_out((Kind::Search, vec![path.clone()], 0), responder, move || {
            walk::walk(&path, &options)
        });
    }

    pub(super) fn remove(&self, params: params::Path, responder: Responder) {
        if !params.follows() && params.recursive.unwrap_or(true) {
            let message = "followSymlinks false is not possible with recursive removal";
            return responder
                .send::<()>(&Err(Error::new(ErrorKind::Unsupported, message.to_owned())));
        }
        let (recursive, force) = (params.recursive.unwrap_or(true), params.force.unwrap_or(true));
        let path = wire(params.path);
        let remove = RemoveParams { path, recursive: Some(recursive), force: Some(force) };
        self.files.remove(&remove, responder);
    }

    pub(super) fn copy(&self, params: params::Copy, responder: Responder) {
        let (from, to) = (wire(params.source_path), wire(params.destination_path));
        let copy = CopyParams { from, to, recursive: Some(params.recursive) };
        self.files.copy(&copy, responder);
    }

    pub(super) fn open(&self, params: params::Open, responder: Responder) {
        let (id, path, mode) = (params.handle_id, params.path.0, params.mode);
        let handles = self.handles.clone();
        let kind = if mode == Mode::Replace { Kind::Change } else { Kind::Look };
        self.carry_out((kind, vec![path.clone()], 0), responder, move || {
            handles.admit(&id)?;
            let file = match mode {
                Mode::Read => open(&path)?.into_file(),
                Mode::Replace => {
                    let mut options = OpenOptions::new();
                    // (A FIFO that nobody reads would be waited for.)
                    options.write(true).create(true).truncate(true).custom_flags(NONBLOCK);
                    let opened = options.open(&path);
                    opened.map_err(|error| Error::io(&error, format!("cannot open {path:?}")))?
                }
            };
            handles.enter(id.clone(), Handle { file: Arc::new(file), path })?;
            Ok(Opened { handle_id: id })
        });
    }

    pub(super) fn read_block(&self, params: &params::ReadBlock, responder: Responder) {
        let (offset, len) = (params.offset, params.len);
        let found = self.handles.find(&params.handle_id);
        let handle = match found.and_then(|handle| check_block(offset, len).map(|()| handle)) {
            Ok(handle) => handle,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let paths = vec![handle.path.clone()];
        self.carry_out((Kind::Read, paths, 0), responder, move || {
            let mut chunk = vec![0; len];
            let mut read = 0;
            while read < len {
                match handle.file.read_at(&mut chunk[read..], offset + read as u64) {
                    Ok(0) => break,
                    Ok(more) => read += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        return Err(Error::io(&error, format!("cannot read {:?}", handle.path)));
                    }
                }
            }
            chunk.truncate(read);
            Ok(Block { chunk: Base64(chunk), eof: read < len })
        });
    }

    pub(super) fn write_block(&self, params: params::WriteBlock, responder: Responder) {
        let (offset, chunk) = (params.offset, params.chunk.0);
        let found = self.handles.find(&params.handle_id);
        let checked = found.and_then(|handle| check_block(offset, chunk.len()).map(|()| handle));
        let handle = match checked {
            Ok(handle) => handle,
            Err(error) => return responder.send::<()>(&Err(error)),
        };
        let paths = vec![handle.path.clone()];
        self.carry_out((Kind::Change, paths, chunk.len()), responder, move || {
            let written = handle.file.write_all_at(&chunk, offset);
            let failed = |error| Error::io(&error, format!("cannot write {:?}", handle.path));
            written.map(|()| Empty {}).map_err(failed)
        });
    }

    pub(super) fn close(&self, params: &params::Close, responder: Responder) {
        // (What has been asked of it before has it still.)
        lock(&self.handles.0).remove(&params.handle_id);
        responder.send(&Ok(Empty {}));
    }
}

impl Handles {
    fn admit(&self, id: &str) -> Result<()> {
        let refused = |message: String| Err(Error::new(ErrorKind::InvalidRequest, message));
        if id.len() > LONGEST_HANDLE {
            return refused(format!("file handle ID must not exceed {LONGEST_HANDLE} bytes"));
        }
        let all = lock(&self.0);
        if all.contains_key(id) {
            return refused(format!("file handle `{id}` already exists"));
        }
        if all.len() >= HANDLES {
            return refused(format!("{HANDLES} file handles are open, which is the limit"));
        }
        Ok(())
    }

    fn enter(&self, id: String, handle: Handle) -> Result<()> {
        self.admit(&id)?;
        lock(&self.0).insert(id, handle);
        Ok(())
    }

    fn find(&self, id: &str) -> Result<Handle> {
        lock(&self.0).get(id).cloned().ok_or_else(|| {
            let message = format!("unknown file handle `{id}`");
            Error::new(ErrorKind::Os(errno::ENOENT), message)
        })
    }
}

fn check_block(offset: u64, len: usize) -> Result<()> {
    let refused = |message: String| Err(Error::new(ErrorKind::InvalidRequest, message));
    if len == 0 || len > BLOCK {
        return refused(format!("a block has 1 to {BLOCK} bytes, and not {len}"));
    }
    let end = offset.checked_add(BLOCK as u64).and_then(|end| i64::try_from(end).ok());
    if end.is_none() {
        return refused(format!("offset: there is no place {offset} in a file"));
    }
    Ok(())
}

/// Refuses what is a symbolic link, and what a symbolic link leads to.
fn refuse_links(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), refuse_links_above)?;
    if is_link(path) {
        let what = format!("cannot follow the symbolic link {path:?}");
        return Err(Error::os(errno::ELOOP, what));
    }
    Ok(())
}

/// Refuses a directory that a symbolic link leads to.
fn refuse_links_above(directory: &Path) -> Result<()> {
    match directory.ancestors().find(|path| is_link(path)) {
        Some(link) => {
            let what = format!("cannot follow the symbolic link {link:?}");
            Err(Error::os(errno::ENOTDIR, what))
        }
        None => Ok(()),
    }
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}
