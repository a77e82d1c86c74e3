//! `ta fs stat`.

use serde::Serialize;

use super::time::iso;
use crate::cli::arguments::escaped;
use crate::cli::end::End;
use crate::cli::files;
use crate::protocol::{FileType, StatParams, StatResult, WirePath};

files::command! {
    /// Tell what stands at a path.
    #[argh(
        name = "stat",
        usage = "[OPTIONS] [--] PATH...",
        example = "{command_name} --exec ws://box:4200/exec notes.txt",
        example = "{command_name} --json notes.txt | jq -r .version",
        note = "--json prints an object on a line of its own for each path, with the protocol's
members: path (an object with base64 where it is not UTF-8), type, size, mode (a
number), mtimeMs, uid, gid, readable, writable, executable, version."
    )]
    struct Stat {
        /// print JSON
        #[argh(switch)]
        json: bool,
        /// tell of a symbolic link itself, not of what it leads to
        #[argh(switch)]
        no_follow: bool,
        /// the paths
        #[argh(positional)]
        path: String,
        #[argh(positional, hidden_help)]
        more: Vec<String>,
    }
}

#[derive(Serialize)]
struct Told<'a> {
    path: &'a WirePath,
    #[serde(flatten)]
    stat: &'a StatResult,
}

impl Stat {
    pub(super) fn run(mut self) -> Result<(), End> {
        let environment = files::environment(self.place_options())?;
        let paths = [vec![self.path], self.more].concat();
        let follow_symlinks = self.no_follow.then_some(false);
        files::each(&paths, |path| {
            let stat = environment.stat(&StatParams { path: path.clone(), follow_symlinks })?;
            match self.json {
                true => files::print_json(&Told { path: &path, stat: &stat }),
                false => files::print(shown(&path, &stat).as_bytes()),
            }
        })
    }
}

fn shown(path: &WirePath, stat: &StatResult) -> String {
    let name = escaped(path.as_path().as_os_str());
    let may =
        [(stat.readable, "readable"), (stat.writable, "writable"), (stat.executable, "executable")];
    let may: Vec<_> = may.iter().filter(|(may, _)| *may).map(|(_, what)| *what).collect();
    let may = if may.is_empty() { "nothing".to_owned() } else { may.join(" ") };
    let StatResult { file_type, size, mode, mtime_ms, uid, gid, version, .. } = stat;
    format!(
        "{name}\n  type     {}\n  size     {size}\n  mode     {mode:04o}\n  modified {}\n  owner    \
         {uid}:{gid}\n  access   {may}\n  version  {version}\n",
        word(*file_type),
        iso(*mtime_ms)
    )
}

/// The protocol's word for a kind of file.
pub(super) fn word(file_type: FileType) -> &'static str {
    match file_type {
        FileType::File => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharDevice => "charDevice",
        FileType::BlockDevice => "blockDevice",
    }
}
