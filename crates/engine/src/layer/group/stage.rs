//! When the layers of a step are computed. Only what memories depend on, and what depends on them,
//! has to wait for its turn; all else is computed for all steps at once, which is much faster: one
//! product instead of many, and one gradient of a weight instead of one for each step.

use crate::shape::{Level, Shape, Value};

/// When a layer is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the first step, from rows of the sequences that the group goes along.
    Before,
    /// Before the first step, from what every step sees.
    Once,
    /// In every step.
    During,
    /// After the last step, from rows.
    After,
}

impl Stage {
    /// All of them.
    pub(super) const ALL: [Stage; 4] = [Stage::Before, Stage::Once, Stage::During, Stage::After];
}

/// A value that a step works with: of a link, a memory or a layer.
pub(super) struct StagedValue {
    pub(super) shape: Shape,
    /// When it is available.
    pub(super) stage: Stage,
}

impl StagedValue {
    /// Whether all steps together have one row for each step of each sample.
    fn is_rows(&self) -> bool {
        self.stage != Stage::Once && self.shape.level == Level::Single
    }

    /// Whether they can be had after the last step: ids of steps are not joined.
    fn is_there_after(&self) -> bool {
        let is_joined = self.stage != Stage::During || self.shape.value == Value::Dense;
        self.is_rows() && is_joined
    }
}

/// When a layer can be computed that takes these; its own shape is `shape`.
pub(super) fn earliest(inputs: &[&StagedValue], shape: &Shape) -> Stage {
    let all = |stage: Stage| !inputs.is_empty() && inputs.iter().all(|place| place.stage == stage);
    let is_rows = shape.level == Level::Single && inputs.iter().all(|place| place.is_rows());
    if all(Stage::Once) {
        Stage::Once
    } else if all(Stage::Before) && is_rows {
        Stage::Before
    } else {
        Stage::During
    }
}

/// Puts layers off that no memory needs; `inputs` are places, and layers come after the first
/// `given` places.
pub(super) fn put_off(
    places: &mut [StagedValue],
    inputs: &[Vec<usize>],
    given: usize,
    remembered: &[usize],
) {
    let mut is_needed = vec![false; places.len()];
    remembered.iter().for_each(|place| is_needed[*place] = true);
    for (layer, taken) in inputs.iter().enumerate().rev() {
        if is_needed[given + layer] {
            taken.iter().for_each(|place| is_needed[*place] = true);
        }
    }
    for (layer, taken) in inputs.iter().enumerate() {
        let own = given + layer;
        let can_wait = places[own].stage == Stage::During && !is_needed[own];
        if can_wait
            && places[own].is_rows()
            && taken.iter().all(|place| places[*place].is_there_after())
        {
            places[own].stage = Stage::After;
        }
    }
    // What waits for nothing but is taken by a layer of a step stays in the step.
    for (layer, taken) in inputs.iter().enumerate().rev() {
        if places[given + layer].stage == Stage::During {
            for &place in taken {
                if places[place].stage == Stage::After {
                    places[place].stage = Stage::During;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(stage: Stage, level: Level) -> StagedValue {
        StagedValue { shape: Shape { level, ..Shape::dense(1) }, stage }
    }

    #[test]
    fn layers_run_as_early_as_their_inputs_are_there() {
        let row = place(Stage::Before, Level::Single);
        let whole = place(Stage::Once, Level::Sequence);
        let memory = place(Stage::During, Level::Single);
        let one = Shape::dense(1);
        assert_eq!(earliest(&[&row, &row], &one), Stage::Before);
        assert_eq!(earliest(&[&whole], &one), Stage::Once);
        assert_eq!(earliest(&[&row, &whole], &one), Stage::During);
        assert_eq!(earliest(&[&row, &memory], &one), Stage::During);
        let sequence = place(Stage::Before, Level::Sequence);
        assert_eq!(earliest(&[&sequence], &one), Stage::During, "rows of a step are not rows here");
    }

    #[test]
    fn layers_that_no_memory_and_no_step_needs_wait() {
        use Stage::{After, Before, During, Once};
        // A link, what every step sees, a memory; state, output, context, sum of both, its double.
        let mut places: Vec<StagedValue> =
            [Before, Once, During, During, During, During, During, During]
                .map(|stage| place(stage, Level::Single))
                .into();
        let inputs = [vec![0, 2], vec![3], vec![1, 3], vec![4, 5], vec![6]];
        put_off(&mut places, &inputs, 3, &[3]);
        let stages: Vec<Stage> = places.iter().map(|place| place.stage).collect();
        assert_eq!(stages, [Before, Once, During, During, After, During, After, After]);
    }
}
