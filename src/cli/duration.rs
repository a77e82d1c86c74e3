//! Times as people write them: `10s`, `500ms`, `1.5h`.

use std::time::Duration;

/// Reads a time that is more than nothing.
///
/// # Errors
/// A sentence that says how times are written.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    let seconds = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(how(text)),
    };
    let number: f64 = number.parse().map_err(|_| how(text))?;
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => Err("a time must be more than 0; without a limit leave the option out".to_owned()),
        Err(_) => Err(format!("{text} is too long")),
    }
}

fn how(text: &str) -> String {
    format!("{text:?} is no time: 10s, 500ms, 2m, 1h and 1.5 (seconds) are")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        let times = [("10s", 10_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)];
        for (text, ms) in times.into_iter().chain([("7", 7000), ("1.5", 1500), ("0.5m", 30_000)]) {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_says_how_times_are_written() {
        for text in ["", "s", "ms", "10 s", "1d", "-1", "+1", "1e3", "1.2.3", ".", "inf", "1S"] {
            assert!(parse(text).is_err_and(|error| error.contains("10s")), "{text}");
        }
        for text in ["0", "0s", "0.0ms"] {
            assert!(parse(text).is_err_and(|error| error.contains("more than 0")), "{text}");
        }
        assert!(parse("99999999999999999999h").is_err_and(|error| error.contains("too long")));
    }
}
