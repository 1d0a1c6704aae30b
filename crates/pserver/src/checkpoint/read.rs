//! A shard that has just learned its place gets what belongs to it out of a checkpoint, whoever
//! wrote it.

use super::catalogue::{Found, State, inspect, numbers};
use super::data;
use super::manifest::{ShardFacts, tables_of};
use super::names::{Layout, ShardName};
use crate::message::{Join, decode_json, encode_json};
use crate::policy::Record;
use crate::shard::{CutFacts, Part, Restore};
use contract::{Error, Kind, Result};
use std::collections::HashSet;
use std::path::PathBuf;
use table::model::{Model, Shape};
use table::placement::name_hash;

/// A folder of checkpoints to restore from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Where the cuts are.
    pub folder: PathBuf,
    /// Which of them is wanted.
    pub which: Which,
}

/// Which checkpoint to restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The newest complete one, which must exist.
    Latest,
    /// The newest complete one, or first values (cut 0) if there is none: what the servers of a job
    /// that is started again all agree on.
    Common,
    /// This one; 0 for first values.
    Cut(u64),
}

impl Restore for Directory {
    /// Reads the files whose buckets meet the shard's.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when no cut is complete, or the wanted one is not there or not complete; [`Kind::Damaged`] and [`Kind::Unsupported`] when its files are not what they
    /// should be, [`Kind::Conflict`] when it is of another model: these offer an older one that
    /// seems good.
    fn restore(
        &mut self,
        join: &Join,
        put: &mut dyn FnMut(usize, Part<'_>) -> Result<()>,
    ) -> Result<Option<CutFacts>> {
        // As a manifest gives it back: JSON may move the last bit of a number.
        let model: Model = decode_json(&encode_json(&join.model)?)?;
        let Some(found) = self.choose(Some(&model))? else { return Ok(None) };
        load(&found, join, &model, put)
            .map(Some)
            .map_err(|error| self.with_offer(&error, found.cut, Some(&model)))
    }
}

impl Directory {
    /// Whether there is a checkpoint as it is wanted, as far as manifests tell, and no later one.
    ///
    /// # Errors
    /// As of restoring.
    pub fn check(&self) -> Result<()> {
        self.choose(None)?;
        let Which::Cut(wanted) = self.which else { return Ok(()) };
        for cut in numbers(&self.folder)?.into_iter().filter(|cut| *cut > wanted) {
            if !matches!(inspect(&self.folder, cut)?.state, State::Incomplete(_)) {
                // Should a server die, the job would go on from that one, which it never had.
                let message = "there are later checkpoints; move their folders away to go back to \
                               an earlier one";
                return Err(Error::new(Kind::Conflict, message)
                    .with("restore", wanted)
                    .with("later", cut)
                    .with("folder", self.folder.display()));
            }
        }
        Ok(())
    }

    fn choose(&self, model: Option<&Model>) -> Result<Option<Found>> {
        let refuse = |message: String| {
            Err(Error::new(Kind::NotFound, message).with("folder", self.folder.display()))
        };
        let mut cuts = numbers(&self.folder)?;
        if self.which == Which::Cut(0) {
            return Ok(None);
        }
        if let Which::Cut(wanted) = self.which {
            cuts.retain(|cut| *cut == wanted);
            if cuts.is_empty() {
                return refuse(format!("there is no checkpoint {wanted}"));
            }
        }
        let mut incomplete = Vec::new();
        for &cut in cuts.iter().rev() {
            let found = inspect(&self.folder, cut)?;
            match found.state {
                State::Complete(_) => {
                    for text in incomplete {
                        tracing::warn!(restored = cut, "{text}; passed over");
                    }
                    return Ok(Some(found));
                }
                State::Unreadable(error) => return Err(self.with_offer(&error, cut, model)),
                State::Incomplete(missing) => {
                    incomplete
                        .push(format!("checkpoint {cut} is incomplete: {}", shorten(&missing)));
                }
            }
        }
        let text = incomplete.join("; ");
        match (self.which, incomplete.is_empty()) {
            (Which::Common, _) => {
                for text in incomplete {
                    tracing::warn!("{text}; beginning with first values");
                }
                Ok(None)
            }
            (Which::Latest, true) => refuse(
                "there is no checkpoint to restore: the folder has none; leave --restore out to \
                 begin with first values"
                    .to_owned(),
            ),
            (Which::Latest, false) => refuse(format!("no checkpoint can be restored: {text}")),
            (Which::Cut(cut), _) => refuse(format!("{text}; {}", self.offer(cut, model))),
        }
    }

    /// Says which checkpoint an error is of, and what to do about it.
    fn with_offer(&self, error: &Error, cut: u64, model: Option<&Model>) -> Error {
        let text = error.message();
        let message = match error.kind() {
            Kind::Damaged => format!("checkpoint {cut} is damaged: {text}"),
            Kind::Unsupported => format!("checkpoint {cut} cannot be read: {text}"),
            Kind::Conflict => format!("checkpoint {cut} is of another model: {text}"),
            _ => format!("checkpoint {cut} cannot be restored: {text}"),
        };
        // A full memory is not the checkpoint's fault: an older one would not help.
        let message = match error.kind() {
            Kind::Damaged | Kind::Unsupported | Kind::Conflict => {
                format!("{message}; {}", self.offer(cut, model))
            }
            _ => message,
        };
        let offering = error
            .context()
            .fold(Error::new(error.kind(), message), |error, (key, value)| error.with(key, value));
        match std::error::Error::source(error) {
            Some(source) => offering.because(source.to_string()),
            None => offering,
        }
    }

    fn offer(&self, below: u64, model: Option<&Model>) -> String {
        let is_good = |cut: &u64| {
            inspect(&self.folder, *cut).is_ok_and(|found| match &found.state {
                State::Complete(its_model) => {
                    model.is_none_or(|model| **its_model == *model) && found.has_data()
                }
                _ => false,
            })
        };
        let older = numbers(&self.folder).unwrap_or_default().into_iter().rev();
        match older.filter(|cut| *cut < below).find(is_good) {
            Some(cut) => format!(
                "an older good one is {cut}: to restore that, move the folders of later ones away"
            ),
            None => "there is no older good one".to_owned(),
        }
    }
}

/// Gives the shard what is its own.
fn load(
    found: &Found,
    join: &Join,
    model: &Model,
    put: &mut dyn FnMut(usize, Part<'_>) -> Result<()>,
) -> Result<CutFacts> {
    if let State::Complete(saved) = &found.state
        && let Some(difference) = saved.difference(model)
    {
        let message =
            format!("the first is the checkpoint's, the second the trainers': {difference}");
        return Err(Error::new(Kind::Conflict, message).with("folder", found.folder.display()));
    }
    let own = ShardName::of(join)?;
    let buckets = own.buckets();
    let is_wanted = |shard: &&ShardFacts| {
        let is_held =
            |shape: Shape| join.holds(shape) && shard.layout.holds(shard.name.ports, shape);
        shard.buckets.0 < buckets.end
            && buckets.start < shard.buckets.1
            && model.parameters.iter().any(|parameter| is_held(parameter.shape))
    };
    let sources: Vec<&ShardFacts> = found.shards.iter().filter(is_wanted).collect();
    let mut missing = own_blocks(join, model)?;
    for shard in &sources {
        let tables = data::tables(model, &tables_of(model, shard.layout, shard.name.ports)?);
        data::read(&found.folder, shard, &tables, &mut |parameter, bucket, part| {
            let shape = model.parameters[parameter].shape;
            if !buckets.contains(&bucket) || !join.holds(shape) {
                return Ok(());
            }
            if !shape.is_sparse() && !missing.remove(&(parameter, part.key)) {
                return Err(Error::new(Kind::Damaged, "section has a block for the second time"));
            }
            put(parameter, part)
        })?;
    }
    if let Some((parameter, block)) = missing.iter().min() {
        return Err(Error::new(Kind::Damaged, "blocks of a dense parameter are missing")
            .with("folder", found.folder.display())
            .with("parameter", &model.parameters[*parameter].name)
            .with("block", block)
            .with("missing", missing.len()));
    }
    facts(found, &sources, own, Layout::of(join)?, model)
}

/// Every dense block that the shard must get, by parameter.
fn own_blocks(join: &Join, model: &Model) -> Result<HashSet<(usize, u64)>> {
    let place = join.place()?;
    let mut blocks = HashSet::new();
    for (number, parameter) in model.parameters.iter().enumerate() {
        if let Shape::Dense { elements } = parameter.shape
            && join.holds(parameter.shape)
        {
            let own = place.blocks(name_hash(&parameter.name), elements);
            blocks.extend(own.map(|block| (number, block)));
        }
    }
    Ok(blocks)
}

/// Where training was, for this shard.
///
/// A shard that wrote the cut itself gets its own facts back. Otherwise they are put together: the
/// furthest of those that the values come from, and of those only the synchronous ones, if there
/// are any, because only their versions count steps. Trainers go on behind the batches of the shard
/// that is least far in the data, as in [`crate::client::Client::start`], so that nothing is left
/// out. What was applied of trainers' pushes is then unknown: they are numbered per shard, and these
/// shards are no more.
fn facts(
    found: &Found,
    sources: &[&ShardFacts],
    own: ShardName,
    layout: Layout,
    model: &Model,
) -> Result<CutFacts> {
    if let Some(shard) =
        found.shards.iter().find(|shard| (shard.name, shard.layout) == (own, layout))
    {
        return Ok(shard.cut.clone());
    }
    let candidates =
        if sources.is_empty() { found.shards.iter().collect() } else { sources.to_vec() };
    let pass = candidates.iter().map(|shard| shard.cut.pass).min().unwrap_or(0);
    let behind = candidates.iter().filter(|shard| shard.cut.pass == pass);
    let trainers = behind
        .map(|shard| certain(&shard.cut.trainers))
        .reduce(|some, others| fewest(&some, &others));
    let has_sync = candidates.iter().any(|shard| shard.is_sync(model));
    let counted = candidates.iter().filter(|shard| !has_sync || shard.is_sync(model));
    let furthest = counted.map(|shard| shard.cut.clone()).reduce(|one, other| CutFacts {
        version: one.version.max(other.version),
        samples: one.samples.max(other.samples),
        ..one
    });
    match (furthest, trainers) {
        (Some(furthest), Some(trainers)) => Ok(CutFacts { pass, trainers, ..furthest }),
        _ => Err(Error::new(Kind::Damaged, "checkpoint has no shards")),
    }
}

/// How many of each trainer's batches are applied. Processes and sequences are those of shards that
/// are no more, and mean nothing to others.
fn certain(trainers: &[Record]) -> Vec<Record> {
    let batches = trainers.iter().map(|record| record.batches);
    batches.map(|batches| Record { batches, ..Record::default() }).collect()
}

fn fewest(some: &[Record], others: &[Record]) -> Vec<Record> {
    let both = some.iter().zip(others);
    both.map(|(one, other)| if one.batches <= other.batches { *one } else { *other }).collect()
}

/// The first few of a list that may be very long.
fn shorten(list: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = list.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if list.len() > SHOWN {
        text.push_str(&format!(" and {} more", list.len() - SHOWN));
    }
    text
}
