//! Which cuts a folder has, and which of them are complete.

use super::manifest::{MANIFEST_BYTES_MAX, Manifest, ShardFacts};
use super::names::{Role, ShardName, cut_folder, parse_cut_folder, parse_file};
use crate::message::COUNT_MAX;
use contract::{Error, Kind, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use table::model::Model;

/// A checkpoint, for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutSummary {
    /// Its number.
    pub cut: u64,
    /// Updates up to it; 0 if nobody has published yet.
    pub version: u64,
    /// Whether it can be restored, as far as its manifests say.
    pub is_complete: bool,
    /// Bytes of its published data files.
    pub bytes: u64,
    /// Why it is not complete, in words: missing manifests, disagreements, damage.
    pub missing: Vec<String>,
}

/// All cuts in a folder, the oldest first. A folder that does not exist has none.
///
/// # Errors
/// Whatever the disk says; damage is in the summaries.
pub fn list(folder: &Path) -> Result<Vec<CutSummary>> {
    let summary = |cut| {
        let found = inspect(folder, cut)?;
        Ok(CutSummary {
            cut,
            version: found.shards.iter().map(|shard| shard.cut.version).max().unwrap_or(0),
            is_complete: found.is_complete(),
            bytes: found.shards.iter().map(|shard| shard.data.bytes).fold(0, u64::saturating_add),
            missing: match found.state {
                State::Complete(_) => Vec::new(),
                State::Incomplete(missing) => missing,
                State::Unreadable(error) => vec![error.to_string()],
            },
        })
    };
    numbers(folder)?.into_iter().map(summary).collect()
}

/// The highest number of a cut in a folder, complete or not; 0 if there is none. New cuts must have
/// higher ones, whatever was restored: a number that is used twice mixes two cuts.
///
/// # Errors
/// Whatever the disk says, or if its number is so large that later ones would have none.
pub fn newest(folder: &Path) -> Result<u64> {
    let newest = numbers(folder)?.last().copied().unwrap_or(0);
    match newest <= COUNT_MAX / 2 {
        true => Ok(newest),
        false => {
            let message = "the number of a checkpoint leaves no room for later ones: move its \
                           folder away";
            Err(Error::invalid(message).with("folder", folder.display()).with("cut", newest))
        }
    }
}

/// A cut with all that its manifests say.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) cut: u64,
    pub(super) folder: PathBuf,
    pub(super) shards: Vec<ShardFacts>,
    pub(super) state: State,
}

/// Whether a cut can be restored.
#[derive(Debug)]
pub(super) enum State {
    /// Yes; this is its model.
    Complete(Box<Model>),
    /// It was never finished, and why one can tell.
    Incomplete(Vec<String>),
    /// A manifest is there and is damaged or not understood.
    Unreadable(Error),
}

impl Found {
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete(_))
    }

    /// Whether all data files are there and have their sizes.
    pub(super) fn has_data(&self) -> bool {
        self.shards.iter().all(|shard| {
            let metadata = fs::metadata(self.folder.join(&shard.data.file));
            metadata.is_ok_and(|metadata| metadata.len() == shard.data.bytes)
        })
    }
}

/// The numbers of all cuts, rising.
pub(super) fn numbers(folder: &Path) -> Result<Vec<u64>> {
    let mut numbers: Vec<u64> =
        entries(folder)?.iter().filter_map(|name| parse_cut_folder(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads the manifests of a cut and compares them.
pub(super) fn inspect(folder: &Path, cut: u64) -> Result<Found> {
    let folder = folder.join(cut_folder(cut));
    let published = entries(&folder)?.into_iter().filter_map(|file| match parse_file(&file)? {
        (name, Role::Manifest) => Some(name),
        _ => None,
    });
    let (mut shards, mut model, mut problems) = (Vec::<ShardFacts>::new(), None, Vec::new());
    for name in published {
        let manifest = match read_manifest(&folder, name, cut) {
            Ok(Some(manifest)) => manifest,
            Ok(None) => continue,
            Err(error) if matches!(error.kind(), Kind::Damaged | Kind::Unsupported) => {
                return Ok(Found { cut, folder, shards, state: State::Unreadable(error) });
            }
            Err(error) => return Err(error),
        };
        let Manifest { shard, model: its_model, .. } = manifest;
        match &model {
            None => model = Some(its_model),
            Some(model) => {
                if let Some(difference) = Model::difference(model, &its_model) {
                    problems.push(format!("{name} has another model: {difference}"));
                }
            }
        }
        shards.push(shard);
    }
    let state = match model {
        None => State::Incomplete(vec!["no manifests".to_owned()]),
        Some(model) => {
            problems.extend(disagreements(&shards, &model));
            match problems.is_empty() {
                true => State::Complete(Box::new(model)),
                false => State::Incomplete(problems),
            }
        }
    };
    Ok(Found { cut, folder, shards, state })
}

/// What keeps these manifests from being one cut.
fn disagreements(shards: &[ShardFacts], model: &Model) -> Vec<String> {
    let Some(first) = shards.first() else { return Vec::new() };
    let layout = first.layout;
    let mut problems: Vec<String> = shards
        .iter()
        .filter(|shard| shard.layout != layout)
        .map(|shard| {
            let ShardFacts { name, layout: other, .. } = shard;
            format!(
                "{name} is one of {} dense and {} sparse shards, {} one of {} and {}",
                other.dense, other.sparse, first.name, layout.dense, layout.sparse
            )
        })
        .collect();
    let published: BTreeSet<String> = shards.iter().map(|shard| shard.name.manifest()).collect();
    let missing =
        layout.names().map(|name| name.manifest()).filter(|name| !published.contains(name));
    problems.extend(missing.map(|name| format!("no {name}")));
    problems.extend(shards.iter().filter(|shard| shard.cut.epoch != first.cut.epoch).map(
        |shard| {
            let (epoch, expected) = (shard.cut.epoch, first.cut.epoch);
            format!("{} is of epoch {epoch}, {} of {expected}", shard.name, first.name)
        },
    ));
    let mut in_step = shards.iter().filter(|shard| shard.is_sync(model));
    if let Some(first) = in_step.next() {
        let stray = in_step.filter(|shard| shard.cut.version != first.cut.version);
        problems.extend(stray.map(|shard| {
            let (version, expected) = (shard.cut.version, first.cut.version);
            format!("{} is of version {version}, {} of {expected}", shard.name, first.name)
        }));
    }
    problems
}

/// A manifest, checked; `None` if it has been removed meanwhile.
fn read_manifest(folder: &Path, name: ShardName, cut: u64) -> Result<Option<Manifest>> {
    let path = folder.join(name.manifest());
    let bytes = match read_file(&path) {
        Ok(bytes) => bytes,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(unreadable(source, &path)),
    };
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(Error::new(Kind::Damaged, "manifest is larger than any can be")
            .with("file", path.display())
            .with("limit_bytes", MANIFEST_BYTES_MAX));
    }
    let manifest = Manifest::decode(&bytes).and_then(|manifest| {
        manifest.check(name, cut)?;
        Ok(manifest)
    });
    manifest.map(Some).map_err(|error| error.with("file", path.display()))
}

/// The file's bytes, or one more than the largest manifest has.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Opening anything else, a pipe for one, could wait for ever.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MANIFEST_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The names in a folder that are text, sorted; none if it does not exist.
pub(super) fn entries(folder: &Path) -> Result<Vec<String>> {
    let names = || -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            names.extend(entry?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    };
    match names() {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names.map_err(|source| unreadable(source, folder)),
    }
}

fn unreadable(source: io::Error, path: &Path) -> Error {
    Error::io("cannot read checkpoint", source).with("file", path.display())
}
