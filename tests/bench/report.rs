//! Rows as people and programs read them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Outcome;
use crate::arena::Arena;
use crate::contest::Measured;
use crate::figures::{Ratio, Unit};
use crate::peers::codex;

/// What must hold of a contender.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// At most so many times the floor.
    TimesFloor(f64),
    /// At most that much more than the floor.
    AboveFloor(f64),
    /// At least that part of the floor.
    PartOfFloor(f64),
    /// At least that part of the entry of this name, where there is one.
    PartOf(&'static str, f64),
    /// At most so many times the entry of this name, where there is one.
    TimesOf(&'static str, f64),
    /// At most that much.
    AtMost(f64),
    /// Its 99th percentile at most that much.
    WorstAtMost(f64),
}

impl Bound {
    /// As the JSON file has it: its kind, the number, and who else is meant.
    fn parts(self) -> (&'static str, f64, Option<&'static str>) {
        match self {
            Self::TimesFloor(most) => ("atMostTimesFloor", most, None),
            Self::AboveFloor(most) => ("atMostAboveFloor", most, None),
            Self::PartOfFloor(least) => ("atLeastTimesFloor", least, None),
            Self::PartOf(other, least) => ("atLeastTimes", least, Some(other)),
            Self::TimesOf(other, most) => ("atMostTimes", most, Some(other)),
            Self::AtMost(most) => ("atMost", most, None),
            Self::WorstAtMost(most) => ("worstAtMost", most, None),
        }
    }
}

/// A ratio with as many digits as are of use.
fn short(ratio: f64) -> String {
    let digits = if ratio < 0.1 { 3 } else { 2 };
    format!("{ratio:.digits$}")
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
    bounds: Vec<Bound>,
}

impl Row {
    /// A row whose first entry is the floor of all others.
    pub(crate) fn beside_floor(title: impl Into<String>, unit: Unit, all: Vec<Measured>) -> Self {
        let entries =
            all.into_iter().map(|measured| Entry { measured, bounds: Vec::new() }).collect();
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
            entry.bounds.push(bound);
        }
        self
    }

    /// The same of the entry of that name, if it is there.
    pub(crate) fn bound_of(self, name: &str, bound: Bound) -> Self {
        match self.place_of(name) {
            Some(place) => self.bound(place, bound),
            None => self,
        }
    }

    fn place_of(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.measured.name == name)
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    pub(crate) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// How the entry at `place` compares with that of a name.
    fn ratio_to(&self, name: &str, place: usize) -> Option<f64> {
        let other = &self.entries.get(self.place_of(name)?)?.measured.samples;
        Some(self.entries.get(place)?.measured.samples.ratio_to(other).of_medians)
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

    /// Whether a bound of the entry at `place` holds; `None` where what it is compared with is not there.
    fn holds(&self, place: usize, bound: Bound) -> Option<bool> {
        let median = self.entries.get(place)?.measured.samples.median();
        let ratio = self.ratio(place).map_or(f64::NAN, |ratio| ratio.of_medians);
        Some(match bound {
            Bound::TimesFloor(most) => ratio <= most,
            Bound::AboveFloor(most) => self.above(place).is_some_and(|above| above <= most),
            Bound::PartOfFloor(least) => ratio >= least,
            Bound::PartOf(other, least) => self.ratio_to(other, place)? >= least,
            Bound::TimesOf(other, most) => self.ratio_to(other, place)? <= most,
            Bound::AtMost(most) => median <= most,
            Bound::WorstAtMost(most) => {
                self.entries.get(place)?.measured.samples.percentile(99) <= most
            }
        })
    }

    /// The bounds of the entry at `place` that can be judged, and whether they hold.
    fn judged(&self, place: usize) -> Vec<(Bound, bool)> {
        let bounds = self.entries.get(place).map_or(&[][..], |entry| &entry.bounds);
        let judge = |bound: &Bound| Some((*bound, self.holds(place, *bound)?));
        bounds.iter().filter_map(judge).collect()
    }

    fn verdicts(&self) -> impl Iterator<Item = bool> {
        let failed = self.failure.is_some().then_some(false);
        let judged = (0..self.entries.len()).flat_map(|place| self.judged(place));
        failed.into_iter().chain(judged.map(|(_, holds)| holds))
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
        let ratio = self.ratio(place).map(|ratio| {
            format!("{} ({} – {})", short(ratio.of_medians), short(ratio.low), short(ratio.high))
        });
        let judged = self.judged(place);
        let bounds = judged.iter().map(|(bound, _)| self.state(place, *bound));
        let bounds = bounds.collect::<Vec<_>>().join("; ");
        let all_hold = judged.iter().all(|(_, holds)| *holds);
        let verdict = match (judged.is_empty(), all_hold) {
            (true, _) => "",
            (false, true) => "PASS",
            (false, false) => "FAIL",
        };
        let floor = (self.has_floor && place == 0).then(|| "floor".to_owned());
        [
            entry.measured.name.clone(),
            show(samples.median()),
            spread.unwrap_or_default(),
            worst.unwrap_or_default(),
            ratio.or(floor).unwrap_or_default(),
            bounds,
            verdict.to_owned(),
        ]
    }

    /// A bound as a person reads it, with what is judged.
    fn state(&self, place: usize, bound: Bound) -> String {
        let show = |value| self.unit.show(value);
        let ratio = |name| self.ratio_to(name, place).unwrap_or(f64::NAN);
        match bound {
            Bound::TimesFloor(most) => format!("at most {} × floor", short(most)),
            Bound::AboveFloor(most) => {
                let above = self.above(place).unwrap_or(f64::NAN);
                let sign = if above < 0.0 { "-" } else { "+" };
                format!("at most {} above: {sign}{}", show(most), show(above.abs()))
            }
            Bound::PartOfFloor(least) => format!("at least {} × floor", short(least)),
            Bound::PartOf(other, least) => {
                format!("at least {} × {other}: {}", short(least), short(ratio(other)))
            }
            Bound::TimesOf(other, most) => {
                format!("at most {} × {other}: {}", short(most), short(ratio(other)))
            }
            Bound::AtMost(most) => format!("at most {}", show(most)),
            Bound::WorstAtMost(most) => format!("p99 at most {}", show(most)),
        }
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
                "bounds": self.judged(place).into_iter().map(|(bound, holds)| {
                    let (kind, value, other) = bound.parts();
                    json!({"kind": kind, "value": value, "other": other, "holds": holds})
                }).collect::<Vec<_>>(),
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
        let codex =
            codex::program(arena).and_then(|path| version(Command::new(path).arg("--version")));
        let ssh = version(Command::new("ssh").arg("-V"));
        let peers = [codex, ssh].into_iter().flatten().collect::<Vec<_>>().join("; ");
        let client = if cfg!(target_env = "musl") { "built for musl" } else { "built for glibc" };
        let machine = vec![
            ("server", binary),
            ("client", client.to_owned()),
            ("peers", peers),
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

/// What a program says of itself, on either stream.
fn version(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8(said).ok()?.lines().next().map(str::to_owned)
}

/// How busy the machine is.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!("load {}", load.split(' ').next().unwrap_or_default())
}
