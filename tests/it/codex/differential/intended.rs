//! In what the two servers differ, and why.

pub(super) struct Intended {
    pub(super) family: &'static str,
    pub(super) group: &'static str,
    /// What is in the step.
    pub(super) step: &'static str,
    /// What is in our answer.
    pub(super) ours: &'static str,
    pub(super) why: &'static str,
}

pub(super) const INTENDED: &[Intended] = &[];
