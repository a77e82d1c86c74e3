//! A configuration in one piece: all sections of all files, in the order in which ssh comes by them.

use std::collections::HashMap;

use super::condition::Condition;
use super::setting::Setting;

/// The sections, and where to look for the few of them that can hold for a name.
#[derive(Default)]
pub(super) struct Outline {
    sections: Vec<Section>,
    /// How many sections and settings there are.
    length: usize,
    /// Those that are about one name or a few.
    by_name: HashMap<Vec<u8>, Vec<usize>>,
    /// Those that may be about any.
    open: Vec<usize>,
    wants_final_pass: bool,
}

/// What stands between a `Host` or `Match` and the next, or before the first one of a file. After an
/// `Include` it goes on.
struct Section {
    /// The section that the file is included in: where that one does not hold, nothing does.
    parent: Option<usize>,
    condition: Condition,
    /// Where it begins.
    place: usize,
    settings: Vec<(usize, Setting)>,
    is_obscure: bool,
}

/// What ssh comes by.
pub(super) enum Step<'a> {
    Begin { section: usize, parent: Option<usize>, condition: &'a Condition },
    Set { section: usize, setting: &'a Setting },
}

impl Outline {
    /// Begins a section, and answers its number.
    pub(super) fn begin(&mut self, parent: Option<usize>, condition: Condition) -> usize {
        let number = self.sections.len();
        self.wants_final_pass |= condition.wants_final_pass();
        match condition.literals() {
            Some(names) => {
                for name in names {
                    let sections = self.by_name.entry(name.to_vec()).or_default();
                    // A name may stand twice on a line.
                    if sections.last() != Some(&number) {
                        sections.push(number);
                    }
                }
            }
            None => self.open.push(number),
        }
        let place = self.next_place();
        let settings = Vec::new();
        self.sections.push(Section { parent, condition, place, settings, is_obscure: false });
        number
    }

    pub(super) fn set(&mut self, section: usize, setting: Setting) {
        let place = self.next_place();
        if let Some(section) = self.sections.get_mut(section) {
            section.settings.push((place, setting));
        }
    }

    /// Something there could not be read: what is not set by now may be.
    pub(super) fn obscure(&mut self, section: usize) {
        match self.sections.get_mut(section) {
            Some(section) if !section.is_obscure => section.is_obscure = true,
            _ => return,
        }
        let unknown = [
            Setting::HostName(None),
            Setting::User(None),
            Setting::Port(None),
            Setting::ProxyJump(None),
        ];
        unknown.into_iter().for_each(|setting| self.set(section, setting));
    }

    fn next_place(&mut self) -> usize {
        self.length += 1;
        self.length
    }

    /// Whether it is to be gone through twice for every host.
    pub(super) fn wants_final_pass(&self) -> bool {
        self.wants_final_pass
    }

    /// What may concern a host, in order; all there is where its name is not known.
    pub(super) fn steps(&self, host: Option<&[u8]>) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        let mut add = |number: usize| {
            let Some(Section { parent, condition, place, settings, .. }) =
                self.sections.get(number)
            else {
                return;
            };
            steps.push((*place, Step::Begin { section: number, parent: *parent, condition }));
            for (place, setting) in settings {
                steps.push((*place, Step::Set { section: number, setting }));
            }
        };
        match host {
            Some(host) => {
                let named = self.by_name.get(host).into_iter().flatten();
                named.chain(&self.open).for_each(|number| add(*number));
            }
            None => (0..self.sections.len()).for_each(add),
        }
        steps.sort_unstable_by_key(|(place, _)| *place);
        steps.into_iter().map(|(_, step)| step).collect()
    }
}
