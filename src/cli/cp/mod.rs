//! `ta cp`: files and trees from this machine to an environment, back, and within it.

mod item;
mod operand;
mod small;
mod tally;
mod tree;

use std::process::ExitCode;
use std::sync::Arc;

use super::end::End;
use super::files::{self, Temporaries};
use super::place::Place;
use crate::environment::LocalExecEnvironment;
use operand::{Operand, target};
use tree::Copier;

files::command! {
    /// Copy files to an environment, from it, or within it.
    #[argh(
        name = "cp",
        usage = "[OPTIONS] [--] SRC... DST",
        example = "{command_name} --exec ws://box:4200/exec model.bin :/data/",
        example = "{command_name} -r --via 'docker exec -i box /ta exec-server --stdio' :/var/log logs",
        example = "{command_name} -r src Makefile :build",
        example = "{command_name} :a.txt :b.txt",
        note = "A path that begins with a colon is the environment's (a colon alone is its
directory); all others are this machine's. A file here whose name begins with a
colon is ./:NAME. At least one path must be the environment's.

As cp(1) has it: into a directory that is there, under the same name; several
sources need one; what is there is replaced, through a symbolic link its target,
but not by a second source of the same name.
Modes are kept, and of what is replaced also owner, attributes and links.

A file gets its name when all of it is there: nobody sees half of it, and what is
half done is removed on failure, Ctrl-C, SIGTERM and where the connection is
lost. Only after SIGKILL of ta (on either side), or of the server (there), a file
.ta-part-… may be left beside it. A file that somebody changes while it is read is
not copied.

With -r, within the environment, symbolic links are copied as such. From and to
this machine there is no way to make them: where one leads to a file, that is
copied, and a note says so; one that leads to a directory, or nowhere, is an
error. FIFOs, sockets and devices are left out, which is an error too. After an
error all else is still copied, and the exit code is 1."
    )]
    struct Cp {
        /// copy directories with all that is in them
        #[argh(switch, short = 'r')]
        recursive: bool,
        /// what is copied: a path here, or :PATH there
        #[argh(positional, arg_name = "src")]
        source: String,
        /// where to (after more that is copied)
        #[argh(positional, arg_name = "dst")]
        more: Vec<String>,
    }
}

/// What is to be copied, and where to.
struct Job {
    sources: Vec<Operand>,
    to: Operand,
    recursive: bool,
}

impl Cp {
    /// Copies, and answers the exit code.
    pub(super) fn run(mut self) -> ExitCode {
        let place = match files::place(self.place_options()) {
            Ok(place) => place,
            Err(failure) => return files::exit(Err(failure)),
        };
        let job = match self.job() {
            Ok(job) => job,
            Err(failure) => return files::exit(Err(failure)),
        };
        files::run(move |temporaries| match copy(&job, place, temporaries) {
            Ok(code) => code,
            // A signal has been sent, and says it all.
            Err(_) if !temporaries.is_open() => 1,
            Err(failure) => failure.say(),
        })
    }

    fn job(self) -> Result<Job, End> {
        let mut sources = vec![Operand::new(&self.source)];
        sources.extend(self.more.iter().map(|path| Operand::new(path)));
        let to = sources.pop().filter(|_| !sources.is_empty());
        let to = to.ok_or_else(|| End::usage("no destination: ta cp SRC... DST"))?;
        if !to.is_there() && sources.iter().any(|source| !source.is_there()) {
            return Err(End::usage(
                "both are on this machine: write :PATH for what is in the environment, or use cp",
            ));
        }
        Ok(Job { sources, to, recursive: self.recursive })
    }
}

fn copy(job: &Job, place: Place, temporaries: &Arc<Temporaries>) -> Result<u8, End> {
    let here: files::Shared = Arc::new(LocalExecEnvironment::new(None)?);
    let there = if place.is_here() { Arc::clone(&here) } else { files::reach(place)? };
    let mut copier = Copier::new([here, there], job.recursive, temporaries)?;
    let target = target(&**copier.environment(&job.to), &job.to, job.sources.len())?;
    for source in &job.sources {
        copier.copy(source, &job.to, &target)?;
    }
    Ok(copier.code())
}
