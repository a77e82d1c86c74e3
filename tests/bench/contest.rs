//! Turns: everybody who is compared runs a little, then the next, round after round, so that a
//! busy machine is busy for all of them.

use crate::Outcome;
use crate::figures::Samples;

/// Somebody who is measured.
pub(crate) struct Contender<'a> {
    name: String,
    turn: Box<dyn FnMut() -> Outcome<Vec<f64>> + 'a>,
}

impl<'a> Contender<'a> {
    /// `turn` runs one turn and answers its samples.
    pub(crate) fn new(
        name: impl Into<String>,
        turn: impl FnMut() -> Outcome<Vec<f64>> + 'a,
    ) -> Self {
        Self { name: name.into(), turn: Box::new(turn) }
    }
}

/// What a contender's turns gave.
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) samples: Samples,
}

/// Lets all take `rounds` turns, after one that does not count.
pub(crate) fn take_turns(
    mut contenders: Vec<Contender<'_>>,
    rounds: usize,
) -> Outcome<Vec<Measured>> {
    let named = |name: &str| {
        let name = name.to_owned();
        move |error| format!("{name}: {error}")
    };
    for contender in &mut contenders {
        (contender.turn)().map_err(named(&contender.name))?;
    }
    let mut turns: Vec<Vec<Vec<f64>>> = contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (contender, turns) in contenders.iter_mut().zip(&mut turns) {
            turns.push((contender.turn)().map_err(named(&contender.name))?);
        }
    }
    let measured = contenders.into_iter().zip(turns);
    measured
        .map(|(contender, turns)| {
            Ok(Measured { name: contender.name, samples: Samples::new(turns)? })
        })
        .collect()
}
