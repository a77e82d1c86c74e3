//! Where the token comes from. It is never an argument: those are for all to see.

use std::ffi::OsString;
use std::path::Path;

use crate::error::{Error, Result};

/// The variable that it comes in.
pub(super) const VARIABLE: &str = "TA_EXEC_TOKEN";

/// The token in the variable's value.
///
/// # Errors
/// It is empty, not UTF-8, or has white space around it, which is hardly ever meant.
pub(super) fn of_variable(value: OsString) -> Result<String> {
    of_named_variable(VARIABLE, value)
}

/// The same of a variable of this name.
///
/// # Errors
/// The same.
pub(super) fn of_named_variable(name: &str, value: OsString) -> Result<String> {
    let value = value
        .into_string()
        .map_err(|_| Error::params(format!("the token in {name} is not UTF-8")))?;
    if value.is_empty() {
        return Err(Error::params(format!("{name} is set and empty")));
    }
    if value.trim() != value {
        return Err(Error::params(format!("the token in {name} has white space around it")));
    }
    Ok(value)
}

/// The token in a file, without the one line feed that may end it.
///
/// # Errors
/// It cannot be read, or is empty.
pub(super) fn of_file(file: &Path) -> Result<Vec<u8>> {
    let what = || format!("cannot read the token file {}", file.display());
    let mut token = std::fs::read(file).map_err(|error| Error::io(&error, what()))?;
    if token.ends_with(b"\n") {
        token.pop();
    }
    if token.is_empty() {
        return Err(Error::params(format!("the token file {} is empty", file.display())));
    }
    Ok(token)
}
