//! `ta fs write`.

use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;

use crate::cli::arguments::path;
use crate::cli::end::End;
use crate::cli::files::{self, Store, Temporaries, Wanted};
use crate::cli::place::Place;
use crate::protocol::{Mode, WriteFileParams};

files::command! {
    /// Write a file from stdin, whole or not at all.
    #[argh(
        name = "write",
        usage = "[OPTIONS] [--] PATH",
        example = "{command_name} --exec ws://box:4200/exec notes.txt < notes.txt",
        example = "date | {command_name} --append log/today.txt",
        example = "{command_name} --parents --mode 755 bin/tool < tool",
        note = "What is there keeps its mode, owner, attributes and links; through a symbolic
link its target is written. What does not fit into one message (1 MiB at most)
is written beside it and put in its place at the end, so that nobody sees half
of it. When that fails, or ta is interrupted, the old content stays and what is
half written is removed; only after SIGKILL, or where the connection is lost
for good, a file .ta-part-… may be left beside it.

--append writes as it reads: what has been written when it fails stays.
With --if-version, what does not fit into one message is compared at its
beginning and once more before it is put in its place."
    )]
    struct Write {
        /// add to the end of the file
        #[argh(switch)]
        append: bool,
        /// mode of a file that is new, in octal (else 666 less the umask there)
        #[argh(option, from_str_fn(files::octal))]
        mode: Option<Mode>,
        /// make missing directories above it
        #[argh(switch)]
        parents: bool,
        /// write only if the file still has this version, as stat and --json tell it; an empty one
        /// means that it must not exist, and * that it must
        #[argh(option)]
        if_version: Option<String>,
        /// flush it to disk before the end
        #[argh(switch)]
        sync: bool,
        /// print size and version as JSON
        #[argh(switch)]
        json: bool,
        /// the file
        #[argh(positional)]
        path: String,
    }
}

/// What there is to say of the file.
#[derive(Serialize)]
struct Told {
    size: u64,
    version: String,
}

impl Write {
    pub(super) fn run(mut self) -> ExitCode {
        match files::place(self.place_options()) {
            Ok(place) => files::run(move |temporaries| match self.write(place, temporaries) {
                Ok(()) => 0,
                // A signal has been sent, and says it all.
                Err(_) if !temporaries.is_open() => 1,
                Err(failure) => failure.say(),
            }),
            Err(failure) => files::exit(Err(failure)),
        }
    }

    fn write(self, place: Place, temporaries: &Arc<Temporaries>) -> Result<(), End> {
        let environment = files::reach(place)?;
        let part = files::part(&*environment)?;
        let store = Store { environment, temporaries: Arc::clone(temporaries) };
        let written = match self.append {
            true => Some(self.append(&store, part)?),
            false => self.put(&store, part)?,
        };
        if !self.json {
            return Ok(());
        }
        let told = match written {
            Some(told) => told,
            None => {
                let path = path(&self.path);
                let stat = files::look(&*store.environment, &path)?;
                let (size, version) =
                    stat.map(|stat| (stat.size, stat.version)).unwrap_or_default();
                Told { size, version }
            }
        };
        files::print_json(&told)
    }

    fn put(&self, store: &Store, part: usize) -> Result<Option<Told>, End> {
        let wanted = Wanted {
            path: path(&self.path),
            mode: self.mode,
            always: false,
            parents: self.parents,
            is_new: false,
            if_version: self.if_version.clone(),
            sync: self.sync,
        };
        let mut input = files::Input::default();
        let stored = store.put(&wanted, &mut || input.next(part))?;
        if let Some(refused) = stored.mode_refused {
            return Err(refused.into());
        }
        Ok(stored.written.map(|result| Told { size: result.size, version: result.version }))
    }

    fn append(&self, store: &Store, part: usize) -> Result<Told, End> {
        let mut params = WriteFileParams::new(files::wire(path(&self.path))?, Vec::new());
        params.append = Some(true);
        params.mode = self.mode;
        params.create_parents = self.parents.then_some(true);
        params.if_version.clone_from(&self.if_version);
        let (mut told, mut input) = (None, files::Input::default());
        loop {
            let bytes = input.next(part)?;
            let is_last = bytes.is_none();
            if is_last
                && !self.sync
                && let Some(told) = told
            {
                return Ok(told);
            }
            params.data_base64.0 = bytes.unwrap_or_default();
            params.sync = (is_last && self.sync).then_some(true);
            let written = store.environment.write_file(&params)?;
            params.if_version = self.if_version.as_ref().map(|_| written.version.clone());
            let now = Told { size: written.size, version: written.version };
            if is_last {
                return Ok(now);
            }
            told = Some(now);
        }
    }
}
