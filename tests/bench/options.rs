//! The command line.

use crate::Outcome;
use crate::rows;

/// What is asked for with `cargo bench -- …`.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Names of rows; all without any.
    only: Vec<String>,
    /// A tenth of the samples: to see that it works, not to be quoted.
    pub(crate) quick: bool,
    /// A bound that does not hold fails the run.
    pub(crate) check: bool,
}

/// What this program is started for.
pub(crate) enum Wanted {
    Rows(Options),
    /// To be the bare server that ours is compared with.
    Listener,
    /// Nothing but to say this.
    Nothing(String),
}

/// The argument that turns this program into the bare server.
pub(crate) const LISTENER: &str = "--bare-listener";

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Outcome<Wanted> {
        let names = || rows::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
        let usage = || format!("cargo bench -- [ROW…] [--quick] [--check]\nrows: {}", names());
        let mut options = Self::default();
        let mut is_bench = false;
        for argument in arguments {
            match argument.as_str() {
                // cargo's own, and missing where `cargo test --all-targets` starts this.
                "--bench" => is_bench = true,
                "--quick" => options.quick = true,
                "--check" => options.check = true,
                "--help" | "-h" => return Ok(Wanted::Nothing(usage())),
                LISTENER => return Ok(Wanted::Listener),
                name if rows::ALL.iter().any(|(known, _)| *known == name) => {
                    options.only.push(argument);
                }
                unknown => return Err(format!("what is {unknown:?}? {}", usage()).into()),
            }
        }
        if !is_bench {
            return Ok(Wanted::Nothing(format!("nothing measured without --bench: {}", usage())));
        }
        Ok(Wanted::Rows(options))
    }

    pub(crate) fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == row)
    }
}
