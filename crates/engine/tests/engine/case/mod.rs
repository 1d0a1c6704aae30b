//! For every layer, mixed projection and activation, small networks around it. What holds for all
//! layers (gradients, values, sparse parameters) is tested by walking these.

mod activation;
mod cost;
mod group;
mod image;
mod layer;
mod mixed;
mod recurrent;
mod reframe;
mod sequence;
mod vector;
mod volume;

use crate::net::Net;
use engine::shape::Level;

/// A network around one layer.
pub(crate) struct Case {
    pub(crate) name: String,
    /// The layer's kind; of a projection, `mixed`.
    pub(crate) kind: &'static str,
    pub(crate) projection: Option<&'static str>,
    is_cost: bool,
    /// Whether its slope jumps somewhere: differences are taken over shorter distances.
    pub(crate) has_kinks: bool,
    /// Whether sequences that it takes together must be of one length.
    pub(crate) is_row_by_row: bool,
    /// The lengths of each sample, for rows and for sequences.
    batches: Vec<(Level, &'static [usize])>,
    build: Box<Build>,
}

/// Adds the layer, and what it takes, to a network; returns its name.
type Build = dyn Fn(&mut Net, Level) -> String;

const SINGLE: [(Level, &[usize]); 2] = [(Level::Single, &[1]), (Level::Single, &[1, 1, 1])];
const SEQUENCES: [(Level, &[usize]); 3] =
    [(Level::Sequence, &[1]), (Level::Sequence, &[2, 0, 1, 3]), (Level::Sequence, &[0, 2])];

impl Case {
    /// A layer that takes rows, be they of sequences or not. `build` returns its name.
    fn new(
        kind: &'static str,
        variant: &str,
        build: impl Fn(&mut Net, Level) -> String + 'static,
    ) -> Case {
        Case {
            name: format!("{kind} {variant}"),
            kind,
            projection: None,
            is_cost: false,
            has_kinks: false,
            is_row_by_row: true,
            batches: SINGLE.into_iter().chain(SEQUENCES).collect(),
            build: Box::new(build),
        }
    }

    fn cost(self) -> Case {
        Case { is_cost: true, ..self }
    }

    fn with_kinks(self) -> Case {
        Case { has_kinks: true, ..self }
    }

    fn with_batches(self, batches: impl IntoIterator<Item = (Level, &'static [usize])>) -> Case {
        Case { batches: batches.into_iter().collect(), ..self }
    }

    fn of_sequences(self) -> Case {
        self.with_batches(SEQUENCES)
    }

    /// Takes sequences of different lengths.
    fn of_any_lengths(self) -> Case {
        Case { is_row_by_row: false, ..self }
    }

    /// Its networks, each with the lengths of a batch.
    pub(crate) fn nets(&self) -> impl Iterator<Item = (Net, String, &'static [usize])> {
        self.batches.iter().map(|(level, lengths)| {
            let mut net = Net::new();
            let layer = (self.build)(&mut net, *level);
            net.train(&layer, self.is_cost);
            (net, layer, *lengths)
        })
    }
}

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let cases = [
        layer::cases(),
        image::cases(),
        mixed::cases(),
        recurrent::cases(),
        group::cases(),
        sequence::cases(),
        reframe::cases(),
        vector::cases(),
        volume::cases(),
        cost::cases(),
        activation::cases(),
    ];
    cases.into_iter().flatten().collect()
}
