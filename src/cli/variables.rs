//! The variables of a command: the values of `--env`.

use std::ffi::OsString;

use super::place::URL;
use super::token;
use crate::error::{Error, Result};
use crate::protocol::EnvDelta;

/// What `--env NAME=VALUE` and `--env NAME` say: as NAME it is this program's own, if it is set.
///
/// # Errors
/// One can be none, or is ta's own.
pub(super) fn delta(given: &[String]) -> Result<EnvDelta> {
    let mut delta = EnvDelta::new();
    for variable in given {
        if [URL, token::VARIABLE].contains(&variable.as_str()) {
            let message = format!("--env {variable}: that is ta's own; give {variable}=VALUE");
            return Err(Error::params(message));
        }
        match variable.split_once('=') {
            Some((name, value)) => insert(&mut delta, name, value.to_owned())?,
            None => match std::env::var_os(variable).map(OsString::into_string) {
                Some(Ok(value)) => insert(&mut delta, variable, value)?,
                Some(Err(_)) => {
                    let message = format!("--env {variable}: its value is not UTF-8");
                    return Err(Error::params(message));
                }
                None => {}
            },
        }
    }
    Ok(delta)
}

/// Sets one.
///
/// # Errors
/// It can be none.
pub(super) fn insert(delta: &mut EnvDelta, name: &str, value: String) -> Result<()> {
    let inserted = delta.insert(name.to_owned(), Some(value));
    inserted.map_err(|reason| Error::params(format!("--env: {reason}")))
}
