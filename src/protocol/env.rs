//! The change to an environment that a process starts with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A delta over the server's own environment: a string sets a variable, `None` removes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, Option<String>>", into = "BTreeMap<String, Option<String>>")]
pub struct EnvDelta(BTreeMap<String, Option<String>>);

impl EnvDelta {
    /// Nothing changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets or removes one variable.
    ///
    /// # Errors
    /// A sentence where the name is empty or holds `=` or NUL, or the value holds NUL.
    pub fn insert(&mut self, name: String, value: Option<String>) -> Result<(), String> {
        check(&name, value.as_deref())?;
        self.0.insert(name, value);
        Ok(())
    }

    /// The changes, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_deref()))
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn check(name: &str, value: Option<&str>) -> Result<(), String> {
    if name.is_empty() {
        return Err("a variable needs a name".to_owned());
    }
    if name.contains(['=', '\0']) {
        return Err(format!("the variable name {name:?} must not hold \"=\" or NUL"));
    }
    if value.is_some_and(|value| value.contains('\0')) {
        return Err(format!("the value of {name} must not hold NUL"));
    }
    Ok(())
}

impl TryFrom<BTreeMap<String, Option<String>>> for EnvDelta {
    type Error = String;

    fn try_from(map: BTreeMap<String, Option<String>>) -> Result<Self, String> {
        map.iter().try_for_each(|(name, value)| check(name, value.as_deref()))?;
        Ok(Self(map))
    }
}

impl From<EnvDelta> for BTreeMap<String, Option<String>> {
    fn from(delta: EnvDelta) -> Self {
        delta.0
    }
}
