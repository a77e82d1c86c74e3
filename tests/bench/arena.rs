//! What all rows share: the binary under test, how much to measure, and where.

use std::path::{Path, PathBuf};

use crate::Outcome;

/// The surroundings of a run.
pub(crate) struct Arena {
    /// The server's binary.
    pub(crate) binary: PathBuf,
    /// Where the tables go.
    pub(crate) directory: PathBuf,
    pub(crate) quick: bool,
}

impl Arena {
    pub(crate) fn new(quick: bool) -> Outcome<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        let target = root.join(target);
        let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let usual = || target.join(&triple).join("release/ta");
        let binary = std::env::var_os("TA_BIN").map_or_else(usual, PathBuf::from);
        let binary = binary.canonicalize().map_err(|error| {
            format!(
                "no server to measure at {}: {error} (build it with `cargo build --release --locked \
                 --target {triple}`, or set TA_BIN)",
                binary.display()
            )
        })?;
        Ok(Self { binary, directory: target.join("bench"), quick })
    }

    /// That many, or a tenth of it in a quick run.
    pub(crate) fn scaled(&self, count: usize) -> usize {
        if self.quick { count.div_ceil(10) } else { count }
    }

    /// What the binary is: its size, and whether it needs a loader.
    pub(crate) fn describe_binary(&self) -> Outcome<String> {
        let bytes = std::fs::read(&self.binary)?;
        let loaders = [b"/ld-linux".as_slice(), b"/ld-musl"];
        let dynamic = loaders
            .iter()
            .any(|loader| bytes.windows(loader.len()).any(|window| window == *loader));
        let kind = if dynamic { "DYNAMIC, not what people run" } else { "static" };
        Ok(format!("{}, {} bytes, {kind}", self.binary.display(), bytes.len()))
    }
}
