//! `write`: a whole file.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Failure, Outcome, Tools, arguments, path, truncate};
use crate::protocol::WriteFileParams;

#[derive(Deserialize)]
struct Args {
    path: String,
    content: String,
}

pub(super) fn run(tools: &Tools, raw: Option<&RawValue>) -> Result<Outcome, Failure> {
    let args: Args = arguments::read(raw)?;
    let mut params = WriteFileParams::new(tools.path(&args.path)?, args.content.into_bytes());
    params.create_parents = Some(true);
    let written = tools.environment().write_file(&params)?;
    let size = truncate::size(written.size);
    Ok(Outcome::text(format!("wrote {size} to {}", path::shown(&params.path))))
}
