//! Which prior box answers for which object, and which boxes found are the same object.

use super::{Prior, Rectangle, Truth};

/// Overlaps that are smaller count as none.
const OVERLAP_MIN: f32 = 1e-6;

/// What prior boxes answer for.
pub(crate) struct Matched {
    /// By prior box: the object it answers for.
    pub(crate) objects: Vec<Option<usize>>,
    /// By prior box: the largest overlap with an object.
    pub(crate) overlaps: Vec<f32>,
}

/// Gives each object the prior box that overlaps most, those with the largest overlap first; then
/// each box that is left the object it overlaps most, if by `threshold` or more.
pub(crate) fn match_priors(priors: &[Prior], truths: &[Truth], threshold: f32) -> Matched {
    let overlap = |prior: &Prior, truth: &Truth| {
        let overlap = prior.rectangle.overlap(&truth.rectangle);
        if overlap > OVERLAP_MIN { overlap } else { 0.0 }
    };
    let table: Vec<Vec<f32>> = priors
        .iter()
        .map(|prior| truths.iter().map(|truth| overlap(prior, truth)).collect())
        .collect();
    let mut objects = vec![None; priors.len()];
    let mut overlaps: Vec<f32> =
        table.iter().map(|row| row.iter().copied().fold(0.0, f32::max)).collect();
    let mut waiting: Vec<usize> = (0..truths.len()).collect();
    while !waiting.is_empty() {
        let mut best: Option<(usize, usize)> = None;
        for (prior, row) in table.iter().enumerate().filter(|(prior, _)| objects[*prior].is_none())
        {
            for &object in waiting.iter().filter(|object| row[**object] > 0.0) {
                if best.is_none_or(|(other, own)| row[object] > table[other][own]) {
                    best = Some((prior, object));
                }
            }
        }
        // Objects that no box is left for have none.
        let Some((prior, object)) = best else { break };
        objects[prior] = Some(object);
        overlaps[prior] = table[prior][object];
        waiting.retain(|other| *other != object);
    }
    for (prior, row) in table.iter().enumerate() {
        if objects[prior].is_none() {
            let near = (0..row.len()).filter(|object| row[*object] > 0.0);
            let near = near.filter(|object| row[*object] >= threshold);
            objects[prior] =
                near.reduce(|best, other| if row[other] > row[best] { other } else { best });
        }
    }
    Matched { objects, overlaps }
}

/// Of boxes with scores, best first, those that overlap no better one by more than `threshold`.
pub(crate) fn keep_apart(boxes: &[Rectangle], best_first: &[usize], threshold: f32) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for &place in best_first {
        if kept.iter().all(|other| boxes[place].overlap(&boxes[*other]) <= threshold) {
            kept.push(place);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prior(numbers: [f32; 4]) -> Prior {
        Prior { rectangle: Rectangle::of(&numbers), variance: [0.1, 0.1, 0.2, 0.2] }
    }

    fn truth(numbers: [f32; 4]) -> Truth {
        Truth { class: 1, rectangle: Rectangle::of(&numbers), is_difficult: false }
    }

    #[test]
    fn two_squares_that_share_a_quarter_overlap_by_a_seventh() {
        let a = Rectangle::of(&[0.0, 0.0, 0.4, 0.4]);
        let b = Rectangle::of(&[0.2, 0.2, 0.6, 0.6]);
        assert!((a.overlap(&b) - 1.0 / 7.0).abs() < 1e-6);
        assert_eq!(a.overlap(&Rectangle::of(&[0.5, 0.0, 0.6, 0.4])), 0.0);
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let (prior, truth) = (prior([0.1, 0.2, 0.5, 0.4]), truth([0.2, 0.1, 0.7, 0.9]).rectangle);
        let decoded = prior.decode(&prior.encode(&truth)).numbers();
        for (found, expected) in decoded.iter().zip(truth.numbers()) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }

    #[test]
    fn every_object_has_a_box_before_boxes_have_objects() {
        // Overlaps with the two objects: 1 and 0.6 of the first box, 0.25 and 0.47 of the second,
        // 0.63 and 0.41 of the third. The first object takes the first box, so the second object has
        // the second box, although that is less than the threshold.
        let priors = [
            prior([0.0, 0.0, 0.4, 0.4]),
            prior([0.22, 0.0, 0.7, 0.4]),
            prior([0.0, 0.0, 0.4, 0.25]),
            prior([0.0, 0.6, 0.2, 0.9]),
        ];
        let truths = [truth([0.0, 0.0, 0.4, 0.4]), truth([0.1, 0.0, 0.5, 0.4])];
        let matched = match_priors(&priors, &truths, 0.5);
        assert_eq!(matched.objects, [Some(0), Some(1), Some(0), None]);
        assert_eq!(matched.overlaps[3], 0.0);
        let lonely = match_priors(&priors[3..], &truths, 0.5);
        assert_eq!(lonely.objects, [None]);
    }

    #[test]
    fn boxes_of_one_object_are_one() {
        let boxes = [[0.0, 0.0, 0.4, 0.4], [0.0, 0.0, 0.4, 0.38], [0.5, 0.5, 0.9, 0.9]];
        let boxes = boxes.map(|numbers| Rectangle::of(&numbers));
        assert_eq!(keep_apart(&boxes, &[1, 0, 2], 0.5), [1, 2]);
        assert_eq!(keep_apart(&boxes, &[1, 0, 2], 0.99), [1, 0, 2]);
    }
}
