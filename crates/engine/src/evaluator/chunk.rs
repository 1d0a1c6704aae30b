//! Precision, recall and F1 of chunks: stretches of rows that the tags mark as one thing of one
//! type. A tag is `type · marks + mark`; all others are outside of chunks.

use super::{Evaluator, attributes};
use crate::argument::{Argument, Offsets, Origin, Value};
use crate::shape::{self, Level, Shape};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attributes {
    scheme: Scheme,
    types: usize,
    /// Types that do not count.
    #[serde(default)]
    excluded: Vec<usize>,
}

/// Which marks there are, in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Scheme {
    /// None: neighbours of one type are one chunk.
    #[serde(rename = "plain")]
    Plain,
    /// Begin, inside.
    #[serde(rename = "IOB")]
    Iob,
    /// Inside, end.
    #[serde(rename = "IOE")]
    Ioe,
    /// Begin, inside, end, single.
    #[serde(rename = "IOBES")]
    Iobes,
}

/// Where in its chunk a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Begin,
    Inside,
    End,
    Single,
}

impl Scheme {
    fn marks(self) -> &'static [Mark] {
        use Mark::{Begin, End, Inside, Single};
        match self {
            Scheme::Plain => &[Inside],
            Scheme::Iob => &[Begin, Inside],
            Scheme::Ioe => &[Inside, End],
            Scheme::Iobes => &[Begin, Inside, End, Single],
        }
    }
}

/// Rows `begin..end` of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Chunk {
    begin: usize,
    end: usize,
    kind: usize,
}

struct ChunkEvaluator {
    attributes: Attributes,
    right: f64,
    found: f64,
    wanted: f64,
}

pub(super) fn build(evaluator: &topology::Evaluator) -> Result<Box<dyn Evaluator>> {
    let attributes: Attributes = attributes(evaluator)?;
    if attributes.types == 0 {
        return Err(Error::invalid("num_chunk_types must be 1 or more"));
    }
    Ok(Box::new(ChunkEvaluator { attributes, right: 0.0, found: 0.0, wanted: 0.0 }))
}

impl ChunkEvaluator {
    /// The type and mark of a tag; `None` outside of chunks.
    fn read_tag(&self, tag: u64) -> Option<(usize, Mark)> {
        let marks = self.attributes.scheme.marks();
        let kind = tag as usize / marks.len();
        (kind < self.attributes.types).then(|| (kind, marks[tag as usize % marks.len()]))
    }

    /// The chunks of one sequence. Marks that do not fit together, which a model may give, begin
    /// and end chunks where the type changes or a mark says so.
    fn chunks(&self, tags: &[u64]) -> Vec<Chunk> {
        let mut chunks: Vec<Chunk> = Vec::new();
        let mut before = None;
        for (row, tag) in tags.iter().enumerate() {
            let own = self.read_tag(*tag);
            if let Some((kind, mark)) = own {
                let goes_on = before.is_some_and(|(kind_before, mark_before)| {
                    kind_before == kind
                        && !matches!(mark_before, Mark::End | Mark::Single)
                        && !matches!(mark, Mark::Begin | Mark::Single)
                });
                match chunks.last_mut().filter(|_| goes_on) {
                    Some(chunk) => chunk.end = row + 1,
                    None => chunks.push(Chunk { begin: row, end: row + 1, kind }),
                }
            }
            before = own;
        }
        chunks.retain(|chunk| !self.attributes.excluded.contains(&chunk.kind));
        chunks
    }

    fn count(&mut self, found: &[u64], wanted: &[u64], offsets: &Offsets) {
        for pair in offsets.windows(2) {
            let found = self.chunks(&found[pair[0]..pair[1]]);
            let wanted = self.chunks(&wanted[pair[0]..pair[1]]);
            // Both are in order, so a search from where the last one was found would do as well.
            let right = found.iter().filter(|chunk| wanted.contains(chunk)).count();
            self.right += right as f64;
            self.found += found.len() as f64;
            self.wanted += wanted.len() as f64;
        }
    }
}

/// The tags of a layer that gives ids, or that found ids right or wrong.
fn tags(argument: &Argument) -> Result<&[u64]> {
    match (&argument.value, &argument.origin) {
        (Value::Integer(ids), _) | (_, Some(Origin::Ids(ids))) => Ok(ids),
        _ => Err(Error::invalid(
            "looks at tags but its input has numbers; use the output of crf_decoding or max_id",
        )),
    }
}

impl Evaluator for ChunkEvaluator {
    fn check(&self, inputs: &[Shape]) -> Result<()> {
        let [input, label] = inputs else {
            return Err(Error::invalid("takes input and label").with("inputs", inputs.len()));
        };
        for (what, shape) in [("input", input), ("label", label)] {
            let is_decoded =
                what == "input" && shape.value == shape::Value::Dense && shape.size == 1;
            let is_tags = shape.value == shape::Value::Integer || is_decoded;
            if !is_tags || shape.level != Level::Sequence {
                return Err(Error::invalid(format!(
                    "its {what} must be an integer sequence but is {shape}; use crf_decoding or \
                     max_id over scores"
                )));
            }
        }
        let tags = self.attributes.types * self.attributes.scheme.marks().len();
        if label.size < tags {
            return Err(Error::invalid(format!(
                "{} chunk types have {tags} tags in this scheme but the label has only {}",
                self.attributes.types, label.size
            )));
        }
        match self.attributes.excluded.iter().find(|kind| **kind >= self.attributes.types) {
            None => Ok(()),
            Some(kind) => Err(Error::invalid("excluded_chunk_types must be below num_chunk_types")
                .with("type", kind)),
        }
    }

    fn add(&mut self, inputs: &[&Argument]) -> Result<()> {
        let (found, wanted) = (tags(inputs[0])?, tags(inputs[1])?);
        if inputs[0].sequences != inputs[1].sequences {
            return Err(Error::invalid("input and label have different rows")
                .with("input", found.len())
                .with("label", wanted.len()));
        }
        self.count(found, wanted, inputs[1].offsets()?);
        Ok(())
    }

    fn read(&self) -> Vec<(&'static str, f64)> {
        let share = |of: f64| if of > 0.0 { self.right / of } else { 0.0 };
        let (precision, recall) = (share(self.found), share(self.wanted));
        let sum = precision + recall;
        let f1 = if sum > 0.0 { 2.0 * precision * recall / sum } else { 0.0 };
        vec![
            ("precision", precision),
            ("recall", recall),
            ("F1-score", f1),
            ("true_chunks", self.wanted),
            ("result_chunks", self.found),
            ("correct_chunks", self.right),
        ]
    }

    fn clear(&mut self) {
        (self.right, self.found, self.wanted) = (0.0, 0.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scheme: Scheme, tags: &[u64], expected: &[[usize; 3]]) {
        let attributes = Attributes { scheme, types: 2, excluded: Vec::new() };
        let evaluator = ChunkEvaluator { attributes, right: 0.0, found: 0.0, wanted: 0.0 };
        let found = evaluator.chunks(tags);
        let found: Vec<_> =
            found.iter().map(|chunk| [chunk.begin, chunk.end, chunk.kind]).collect();
        assert_eq!(found, expected, "{scheme:?} {tags:?}");
    }

    #[test]
    fn chunks_without_marks_are_neighbours_of_one_type() {
        check(Scheme::Plain, &[0, 0, 1, 2, 1, 1], &[[0, 2, 0], [2, 3, 1], [4, 6, 1]]);
        check(Scheme::Plain, &[], &[]);
    }

    #[test]
    fn a_begin_begins_and_an_inside_alone_does_too() {
        // B I of type 0, B I of type 1; 4 is outside.
        check(Scheme::Iob, &[0, 1, 0, 3, 3, 4, 1], &[[0, 2, 0], [2, 3, 0], [3, 5, 1], [6, 7, 0]]);
    }

    #[test]
    fn an_end_ends() {
        // I E of type 0, I E of type 1.
        check(
            Scheme::Ioe,
            &[0, 1, 1, 0, 2, 3, 3],
            &[[0, 2, 0], [2, 3, 0], [3, 4, 0], [4, 6, 1], [6, 7, 1]],
        );
    }

    #[test]
    fn a_single_is_a_chunk_of_its_own() {
        // B I E S of type 0, then of type 1.
        check(
            Scheme::Iobes,
            &[3, 3, 0, 1, 2, 4, 8, 6, 1],
            &[[0, 1, 0], [1, 2, 0], [2, 5, 0], [5, 6, 1], [7, 8, 1], [8, 9, 0]],
        );
    }
}
