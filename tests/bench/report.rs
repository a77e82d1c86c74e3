//! Rows as people and programs read them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::Measured;
use crate::figures::{Ratio, Unit};

/// What must hold of a contender.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// At most so many times the floor.
    TimesFloor(f64),
    /// At most that much more than the floor.
    AboveFloor(f64),
    /// At least that part of the floor.
    PartOfFloor(f64),
    /// At least that part of the entry at that place.
    PartOf(usize, f64),
    /// At most that much.
    AtMost(f64),
    /// At least that much.
    AtLeast(f64),
}

/// One comparison: the first entry is the floor, if there is one.
pub(crate) struct Row {
    /// As it is asked for on the command line.
    name: &'static str,
    title: String,
    unit: Unit,
    has_floor: bool,
    entries: Vec<Entry>,
    notes: Vec<String>,
    /// Why there are no figures.
    failure: Option<String>,
}

struct Entry {
    measured: Measured,
    bound: Option<Bound>,
}

impl Row {
    /// A row whose first entry is the floor of all others.
    pub(crate) fn beside_floor(title: impl Into<String>, unit: Unit, all: Vec<Measured>) -> Self {
        let entries = all.into_iter().map(|measured| Entry { measured, bound: None }).collect();
        let (title, has_floor) = (title.into(), true);
        Self { name: "", title, unit, has_floor, entries, notes: Vec::new(), failure: None }
    }

    /// A row of something that has no floor.
    pub(crate) fn alone(title: impl Into<String>, unit: Unit, all: Vec<Measured>) -> Self {
        Self { has_floor: false, ..Self::beside_floor(title, unit, all) }
    }

    /// A row that could not be measured.
    pub(crate) fn failed(title: &str, failure: String) -> Self {
        Self { failure: Some(failure), ..Self::alone(title, Unit::Count, Vec::new()) }
    }

    /// A row for which something is missing on this machine. It is no failure.
    pub(crate) fn left_out(title: &str, why: &str) -> Self {
        Self::alone(title, Unit::Count, Vec::new()).note(format!("LEFT OUT: {why}"))
    }

    /// States what must hold of the entry at `place`.
    pub(crate) fn bound(mut self, place: usize, bound: Bound) -> Self {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.bound = Some(bound);
        }
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(crate) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// How the entry at `place` compares with that at another.
    fn ratio_to(&self, other: usize, place: usize) -> Option<Ratio> {
        let other = self.entries.get(other)?;
        Some(self.entries.get(place)?.measured.samples.ratio_to(&other.measured.samples))
    }

    fn ratio(&self, place: usize) -> Option<Ratio> {
        let floor = self.entries.first().filter(|_| self.has_floor && place > 0)?;
        Some(self.entries.get(place)?.measured.samples.ratio_to(&floor.measured.samples))
    }

    /// How much more the entry at `place` is than the floor.
    fn above(&self, place: usize) -> Option<f64> {
        let floor = self.entries.first().filter(|_| self.has_floor)?;
        Some(self.entries.get(place)?.measured.samples.median() - floor.measured.samples.median())
    }

    /// Whether the bound of the entry at `place` holds; `None` where it has none.
    fn holds(&self, place: usize) -> Option<bool> {
        let entry = self.entries.get(place)?;
        let ratio = self.ratio(place).map_or(f64::NAN, |ratio| ratio.of_medians);
        entry.bound.map(|bound| match bound {
            Bound::TimesFloor(most) => ratio <= most,
            Bound::AboveFloor(most) => self.above(place).is_some_and(|above| above <= most),
            Bound::PartOfFloor(least) => ratio >= least,
            Bound::PartOf(other, least) => {
                self.ratio_to(other, place).is_some_and(|ratio| ratio.of_medians >= least)
            }
            Bound::AtMost(most) => entry.measured.samples.median() <= most,
            Bound::AtLeast(least) => entry.measured.samples.median() >= least,
        })
    }

    fn verdicts(&self) -> impl Iterator<Item = bool> {
        let failed = self.failure.is_some().then_some(false);
        failed.into_iter().chain((0..self.entries.len()).filter_map(|place| self.holds(place)))
    }

    /// The cells of an entry: who, median, spread, 99th percentile, ratio, bound, verdict.
    fn cells(&self, place: usize, entry: &Entry) -> [String; 7] {
        let samples = &entry.measured.samples;
        let show = |value| self.unit.show(value);
        let spread = (samples.count() > 1).then(|| {
            format!("{} – {}", show(samples.percentile(10)), show(samples.percentile(90)))
        });
        // Of fewer samples the 99th percentile is the worst.
        let worst = (samples.count() >= 100).then(|| show(samples.percentile(99)));
        let ratio = self
            .ratio(place)
            .map(|ratio| format!("{:.2} ({:.2} – {:.2})", ratio.of_medians, ratio.low, ratio.high));
        let bound = entry.bound.map(|bound| match bound {
            Bound::TimesFloor(most) => format!("at most {most} × floor"),
            Bound::AboveFloor(most) => {
                let above = self.above(place).unwrap_or(f64::NAN);
                let sign = if above < 0.0 { "-" } else { "+" };
                format!("at most {} above: {sign}{}", show(most), show(above.abs()))
            }
            Bound::PartOfFloor(least) => format!("at least {least} × floor"),
            Bound::PartOf(other, least) => {
                let ratio = self.ratio_to(other, place).map_or(f64::NAN, |ratio| ratio.of_medians);
                format!("at least {least} × no. {}: {ratio:.2}", other + 1)
            }
            Bound::AtMost(most) => format!("at most {}", show(most)),
            Bound::AtLeast(least) => format!("at least {}", show(least)),
        });
        let verdict = self.holds(place).map(|holds| if holds { "PASS" } else { "FAIL" });
        let floor = (self.has_floor && place == 0).then(|| "floor".to_owned());
        [
            entry.measured.name.clone(),
            show(samples.median()),
            spread.unwrap_or_default(),
            worst.unwrap_or_default(),
            ratio.or(floor).unwrap_or_default(),
            bound.unwrap_or_default(),
            verdict.unwrap_or_default().to_owned(),
        ]
    }

    fn all_cells(&self) -> impl Iterator<Item = [String; 7]> {
        self.entries.iter().enumerate().map(|(place, entry)| self.cells(place, entry))
    }

    /// A block of aligned lines.
    pub(crate) fn as_text(&self) -> String {
        let samples = self.entries.first().map_or(0, |entry| entry.measured.samples.count());
        let mut text = format!("[{}] {} (samples: {samples})", self.name, self.title);
        let mut lines = vec![HEAD.map(str::to_owned)];
        lines.extend(self.all_cells());
        let width = |column: usize| {
            lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or_default()
        };
        let widths = [0, 1, 2, 3, 4, 5, 6].map(width);
        for cells in lines.iter().filter(|_| self.failure.is_none()) {
            let padded = cells.iter().zip(widths).map(|(cell, width)| format!("  {cell:<width$}"));
            text.push('\n');
            text.push_str(padded.collect::<String>().trim_end());
        }
        if let Some(failure) = &self.failure {
            text.push_str(&format!("\n  FAIL: {failure}"));
        }
        for note in &self.notes {
            text.push_str(&format!("\n  · {note}"));
        }
        text
    }

    fn as_markdown(&self) -> String {
        let mut text = String::new();
        for cells in self.all_cells() {
            text.push_str(&format!("| {} | {} |\n", self.title, cells.join(" | ")));
        }
        if let Some(failure) = &self.failure {
            text.push_str(&format!("| {} | {failure} | | | | | | FAIL |\n", self.title));
        }
        text
    }

    fn as_json(&self) -> Value {
        let entries = self.entries.iter().enumerate().map(|(place, entry)| {
            let samples = &entry.measured.samples;
            json!({
                "who": entry.measured.name,
                "samples": samples.count(),
                "median": samples.median(),
                "p10": samples.percentile(10),
                "p90": samples.percentile(90),
                "p99": samples.percentile(99),
                "ratioToFloor": self.ratio(place).map(|ratio| ratio.of_medians),
                "bound": entry.bound.map(|bound| match bound {
                    Bound::TimesFloor(most) => json!({"atMostTimesFloor": most}),
                    Bound::AboveFloor(most) => json!({"atMostAboveFloor": most}),
                    Bound::PartOfFloor(least) => json!({"atLeastTimesFloor": least}),
                    Bound::PartOf(other, least) => json!({"atLeastTimes": least, "entry": other}),
                    Bound::AtMost(most) => json!({"atMost": most}),
                    Bound::AtLeast(least) => json!({"atLeast": least}),
                }),
                "holds": self.holds(place),
            })
        });
        json!({
            "row": self.name,
            "title": self.title,
            "unit": self.unit.name(),
            "entries": entries.collect::<Vec<_>>(),
            "notes": self.notes,
            "failure": self.failure,
        })
    }
}

const HEAD: [&str; 7] = ["", "median", "p10 – p90", "p99", "ratio (by round)", "bound", ""];

/// All rows of a run.
pub(crate) struct Report {
    machine: Vec<(&'static str, String)>,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new(arena: &Arena) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        let info = read("/proc/cpuinfo");
        let model = info.lines().find_map(|line| line.strip_prefix("model name"));
        let model = model.unwrap_or_default().trim_start_matches([' ', '\t', ':']);
        let binary = arena.describe_binary().unwrap_or_else(|error| error.to_string());
        let client = if cfg!(target_env = "musl") { "built for musl" } else { "built for glibc" };
        let machine = vec![
            ("server", binary),
            ("client", client.to_owned()),
            ("machine", format!("{processors} × {model}, {} {}", std::env::consts::ARCH, load())),
            ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
            ("run", if arena.quick { "quick: not to be quoted" } else { "full" }.to_owned()),
        ];
        Self { machine, rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    pub(crate) fn all_hold(&self) -> bool {
        self.rows.iter().flat_map(Row::verdicts).all(|holds| holds)
    }

    pub(crate) fn heading(&self) -> String {
        let lines = self.machine.iter().map(|(name, value)| format!("{name:<8} {value}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn summary(&self) -> String {
        let verdicts: Vec<bool> = self.rows.iter().flat_map(Row::verdicts).collect();
        let held = verdicts.iter().filter(|holds| **holds).count();
        format!("{held} of {} bounds hold; at the end {}", verdicts.len(), load())
    }

    /// Writes the tables, and answers where.
    pub(crate) fn save(&self, directory: &Path) -> Outcome<(PathBuf, PathBuf)> {
        fs::create_dir_all(directory)?;
        let (markdown, json) = (directory.join("bench.md"), directory.join("bench.json"));
        let mut text = String::new();
        for (name, value) in &self.machine {
            text.push_str(&format!("- {name}: {value}\n"));
        }
        text.push_str(&format!("\n| |{}|\n|{}\n", HEAD.join(" | "), " --- |".repeat(8)));
        text.extend(self.rows.iter().map(Row::as_markdown));
        let notes =
            self.rows.iter().flat_map(|row| row.notes.iter().map(|note| (&row.title, note)));
        text.push('\n');
        text.extend(notes.map(|(title, note)| format!("- {title}: {note}\n")));
        fs::write(&markdown, text)?;
        let machine = self.machine.iter().map(|(name, value)| (*name, value.as_str()));
        let document = json!({
            "machine": machine.collect::<std::collections::BTreeMap<_, _>>(),
            "rows": self.rows.iter().map(Row::as_json).collect::<Vec<_>>(),
        });
        fs::write(&json, serde_json::to_string_pretty(&document)?)?;
        Ok((markdown, json))
    }
}

/// How busy the machine is.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load {}", load.split(' ').next().unwrap_or_default())
}
