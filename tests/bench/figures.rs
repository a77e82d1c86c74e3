//! Samples, their median and spread, and how numbers are written.

use std::time::Duration;

use crate::Outcome;

/// What is measured, in seconds, bytes, or as a plain number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Seconds.
    Time,
    /// Bytes a second.
    Rate,
    /// Bytes.
    Memory,
    /// So many a second.
    PerSecond,
    /// So many.
    Count,
}

impl Unit {
    /// The name that the JSON file has for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Time => "seconds",
            Self::Rate => "bytesPerSecond",
            Self::Memory => "bytes",
            Self::PerSecond => "perSecond",
            Self::Count => "count",
        }
    }

    /// A value as a person reads it.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Time if value < 1e-3 => format!("{:.0} µs", value * 1e6),
            Self::Time if value < 1.0 => format!("{:.2} ms", value * 1e3),
            Self::Time => format!("{value:.2} s"),
            Self::Rate if value < 1e9 => format!("{:.0} MB/s", value / 1e6),
            Self::Rate => format!("{:.2} GB/s", value / 1e9),
            Self::Memory if value.abs() < 1024.0 * 1024.0 => format!("{:.1} KiB", value / 1024.0),
            Self::Memory => format!("{:.2} MiB", value / (1024.0 * 1024.0)),
            Self::PerSecond => format!("{value:.0} /s"),
            Self::Count => format!("{value:.0}"),
        }
    }
}

/// The samples of one contender: all of them, in order, and the median of each turn.
#[derive(Debug)]
pub(crate) struct Samples {
    sorted: Vec<f64>,
    turns: Vec<f64>,
}

impl Samples {
    /// From the samples of each turn.
    ///
    /// # Errors
    /// There are none.
    pub(crate) fn new(turns: Vec<Vec<f64>>) -> Outcome<Self> {
        if turns.is_empty() || turns.iter().any(Vec::is_empty) {
            return Err("a turn gave no samples".into());
        }
        let sorted = in_order(turns.concat());
        let turns = turns.into_iter().map(|turn| percentile(&in_order(turn), 50)).collect();
        Ok(Self { sorted, turns })
    }

    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        percentile(&self.sorted, percent)
    }

    /// The median beside another's, and the spread of the same within single rounds: (ratio,
    /// tenth percentile, ninetieth).
    pub(crate) fn ratio_to(&self, floor: &Self) -> Ratio {
        let rounds = self.turns.iter().zip(&floor.turns).map(|(ours, floor)| ours / floor);
        let rounds = in_order(rounds.collect());
        Ratio {
            of_medians: self.median() / floor.median(),
            low: percentile(&rounds, 10),
            high: percentile(&rounds, 90),
        }
    }
}

/// How one contender compares with another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) of_medians: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

fn in_order(mut samples: Vec<f64>) -> Vec<f64> {
    samples.sort_by(f64::total_cmp);
    samples
}

/// Between two samples where it falls between them.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let position = sorted.len().saturating_sub(1) * percent;
    let at = |place: usize| sorted.get(place).or(sorted.last()).copied().unwrap_or(f64::NAN);
    let (below, above) = (at(position / 100), at(position / 100 + 1));
    let part = float((position % 100) as u64) / 100.0;
    below + (above - below) * part
}

/// So many in that time, a second.
pub(crate) fn per_second(count: u64, time: Duration) -> f64 {
    float(count) / time.as_secs_f64()
}

/// The nearest float.
#[expect(clippy::cast_precision_loss, reason = "figures of far less than 2^53")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}
