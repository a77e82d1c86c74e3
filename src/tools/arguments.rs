//! Arguments as models write them.

use std::num::NonZeroU32;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Failure;
use crate::protocol::rpc;

/// Reads the arguments of a tool; a failure names the one that is wrong.
pub(super) fn read<'a, A: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<A, Failure> {
    rpc::params(raw).map_err(|error| Failure(format!("wrong arguments: {}", error.message())))
}

/// A count from 1 on, which some models write as `10.0`.
pub(super) fn count<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<NonZeroU32>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
    match whole(number).and_then(NonZeroU32::new) {
        Some(count) => Ok(Some(count)),
        None => Err(D::Error::custom(format!("{number} is no whole number from 1 on"))),
    }
}

/// The same from 0 on.
pub(super) fn count_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(deserializer)? else { return Ok(None) };
    match whole(number) {
        Some(count) => Ok(Some(count)),
        None => Err(D::Error::custom(format!("{number} is no whole number from 0 on"))),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "in range by the check"
)]
fn whole(number: f64) -> Option<u32> {
    let is_one = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    is_one.then_some(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Args {
        #[serde(default, deserialize_with = "count")]
        limit: Option<NonZeroU32>,
        #[serde(default, deserialize_with = "count_or_none")]
        context: Option<u32>,
    }

    fn limit(json: &str) -> Result<Option<u32>, String> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let args = read::<Args>(Some(&raw)).map_err(|Failure(text)| text)?;
        Ok(args.limit.map(NonZeroU32::get).or(args.context))
    }

    #[test]
    fn a_count_is_a_whole_number_however_it_is_written() {
        assert_eq!(limit("{\"limit\": 10}"), Ok(Some(10)));
        assert_eq!(limit("{\"limit\": 1e3}"), Ok(Some(1000)));
        assert_eq!(limit("{\"limit\": null}"), Ok(None));
        assert_eq!(limit("{\"context\": 0}"), Ok(Some(0)));
        for wrong in ["0", "-1", "1.5", "1e12", "\"5\""] {
            let error = limit(&format!("{{\"limit\": {wrong}}}")).unwrap_err();
            assert!(error.contains("limit"), "{error}");
        }
    }
}
