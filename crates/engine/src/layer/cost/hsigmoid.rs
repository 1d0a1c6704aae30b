//! Hierarchical sigmoid: a label is a leaf of a binary tree of all classes, and its cost that of
//! the turns on the way to it, each a decision of its own. A row costs as many products as the
//! tree is deep instead of one a class.

use super::super::{
    Layer, Plan, Run, Slot, attributes, expect_dense, expect_same_level, expect_same_rows,
};
use super::{Pairs, expect_class, expect_known};
use crate::activation::softplus;
use crate::argument::{Argument, tensor};
use crate::row_sums::{RowLists, row_sums};
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hsigmoid {
    /// Leaves of the tree.
    classes: usize,
    #[serde(default)]
    has_bias: bool,
    #[serde(default = "super::one")]
    coeff: f32,
}

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Hsigmoid>(layer)?))
}

/// The turns to a class: the inner node, from 0, and whether it is a turn to the right.
///
/// Nodes are numbered row by row from 1, leaves after them, so a node's number halved is that of
/// the node above, and the bit that is lost the turn.
fn turns(class: u64, classes: usize) -> impl Iterator<Item = (u32, bool)> {
    let leaf = class + classes as u64;
    let depth = leaf.ilog2();
    (0..depth).map(move |height| ((leaf >> (height + 1)) as u32 - 1, leaf >> height & 1 == 1))
}

impl Layer for Hsigmoid {
    /// The label is the last input.
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        let Some((label, taken)) = inputs.split_last().filter(|(_, taken)| !taken.is_empty())
        else {
            return Err(Error::invalid("takes one or more inputs and a label"));
        };
        expect_same_level(inputs)?;
        expect_class(label, self.classes)?;
        let mut plan = Plan::of(label.with_size(1));
        for (place, input) in taken.iter().enumerate() {
            expect_dense("the input", input)?;
            plan.parameters.push(Slot::weight(place, [self.classes - 1, input.size]));
        }
        if self.has_bias {
            plan.parameters.push(Slot::bias(self.classes - 1));
        }
        Ok(plan)
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let label = inputs[inputs.len() - 1];
        let labels = label.ids()?;
        expect_known(labels)?;
        let (mut nodes, mut owners, mut is_right) = (Vec::new(), Vec::new(), Vec::new());
        let mut offsets = vec![0];
        for (row, class) in (0_u32..).zip(labels.iter()) {
            for (node, turn) in turns(*class, self.classes) {
                nodes.push(node);
                owners.push(row);
                is_right.push(f32::from(u8::from(turn)));
            }
            offsets.push(nodes.len());
        }
        let count = nodes.len();
        let pairs = Pairs { inputs: owners, weights: nodes };
        let scores = pairs.scores(run, &inputs[..inputs.len() - 1])?;
        let is_right = tensor(is_right, [count, 1], &scores.device());
        let costs = softplus(scores.clone()) - scores * is_right;
        let all = (0..count as u32).collect();
        let costs = row_sums(costs, RowLists { offsets, rows: all, weights: None });
        Ok(Argument::like(label, costs))
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.coeff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_own_way_down_the_tree() {
        for classes in 2..40 {
            let ways: Vec<Vec<_>> =
                (0..classes as u64).map(|class| turns(class, classes).collect()).collect();
            for (place, way) in ways.iter().enumerate() {
                assert!(way.iter().all(|(node, _)| (*node as usize) < classes - 1));
                assert_eq!(way.last().unwrap().0, 0, "all begin at the root");
                assert!(!ways[..place].contains(way));
            }
        }
    }
}
