//! The data of a training: looked up where the configuration says it is, and dealt to the nodes.
//! It is decided once, when the job is accepted: a job that waits in a queue trains what was there
//! then, or fails if that has changed.

use super::deal::deal;
use super::source::{Located, SourceName, locate};
use super::wish::{Output, Wish};
use crate::Cloud;
use contract::api::cluster_train::{Amount, FILES_MAX, Share, SharedFile};
use contract::api::file::{Entry, EntryKind};
use contract::path::Access;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What every node gets beside data, such as a model, whose files may have any names.
const OTHER: &str = "meta";

/// What the nodes of a job fetch, and where their results go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(super) source: SourceName,
    pub(super) files: Vec<PlannedFile>,
    /// The directory of results, in the same file system.
    pub(super) output: String,
    pub(super) save_dir: String,
    pub(super) decompress: bool,
    pub(super) nodes: u32,
    /// What people are told.
    pub(super) notes: Vec<String>,
}

/// A file to fetch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlannedFile {
    /// Where it is.
    pub(super) path: String,
    /// Where it goes, below the workspace of a node.
    pub(super) target: String,
    pub(super) bytes: u64,
    /// It is this file, and no later one.
    pub(super) etag: String,
    pub(super) part: Part,
    /// The node that gets it; `None` for all.
    pub(super) rank: Option<u32>,
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    Train,
    Test,
    /// It is in no list.
    Other,
}

/// Where a model to begin with is put.
pub(super) const INIT_MODEL: &str = "init_model_path";

/// Finds the data of a training.
///
/// # Errors
/// There is none, too little for so many nodes, or it cannot be reached.
pub(super) async fn plan(
    cloud: &Cloud,
    source: SourceName,
    wish: &Wish,
    nodes: u32,
) -> Result<Plan> {
    let mut finder = Finder { cloud, source: &source, files: Vec::new(), notes: Vec::new() };
    let train = finder.directory(&wish.train, "train", true).await?;
    if train.iter().all(|file| file.entry.bytes == 0) {
        let message = "the train data is empty: all its files have no bytes";
        return Err(Error::invalid(message).with("path", &wish.train));
    }
    finder.deal(train, (Part::Train, "train_data_dir/train"), nodes)?;
    let (path, must_be) = &wish.test;
    if !path.is_empty() {
        let test = finder.directory(path, "test", *must_be).await?;
        if test.is_empty() {
            finder.notes.push(format!("there is no test data: {path} is not there, or empty"));
        } else {
            let testers = testers(test.len(), nodes, wish.distributes_test);
            if wish.distributes_test && testers < nodes {
                let files = test.len();
                let note =
                    format!("there are {files} files to test for {nodes} nodes: some test nothing");
                finder.notes.push(note);
            }
            finder.deal(test, (Part::Test, "test_data_dir/test"), testers)?;
        }
    }
    let folder = &wish.meta_folder;
    for (meta, name, must_be) in [
        (&wish.train_meta, format!("train_data_dir/{folder}/train_meta"), true),
        (&wish.test_meta, format!("test_data_dir/{folder}/test_meta"), false),
    ] {
        if let Some(path) = meta {
            finder.everywhere(path, &name, must_be).await?;
        }
    }
    if let Some(path) = &wish.init_model {
        finder.everywhere(path, INIT_MODEL, true).await?;
    }
    let Finder { files, mut notes, .. } = finder;
    if files.len() > FILES_MAX {
        let message = "there are too many files: put more into each";
        return Err(Error::new(Kind::LimitExceeded, message)
            .with("files", files.len())
            .with("files_max", FILES_MAX));
    }
    check_targets(&files, wish.decompress)?;
    let output = output(cloud, &source, &wish.output).await?;
    notes.extend(wish.notes.iter().cloned());
    Ok(Plan {
        output,
        files,
        save_dir: wish.save_dir.clone(),
        decompress: wish.decompress,
        nodes,
        notes,
        source,
    })
}

/// Refuses a name that has no line of its own in a list, or that cannot be asked for.
fn check_name(folder: &str, name: &str) -> Result<()> {
    // What stands for bytes that are no UTF-8.
    let is_odd = |c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER;
    if !name.chars().any(is_odd) {
        return Ok(());
    }
    let message =
        "the name of a file of the data has a control character, or is no UTF-8: rename it";
    let path = format!("{folder}/{name}");
    Err(Error::invalid(message).with("path", path.escape_debug()))
}

/// Refuses two files that would have the same name on a node: one would replace the other.
fn check_targets(files: &[PlannedFile], decompress: bool) -> Result<()> {
    let mut seen = HashMap::new();
    for file in files {
        if let Some(other) = seen.insert(unpacked(&file.target, decompress), file) {
            let message = "two files of the data would have the same name on a node: rename one";
            return Err(Error::invalid(message)
                .with("path", &other.path)
                .with("other", &file.path)
                .with("name", unpacked(&file.target, decompress)));
        }
    }
    Ok(())
}

/// The name that a file has on a node in the end.
fn unpacked(target: &str, decompress: bool) -> &str {
    let packed = if decompress { target.strip_suffix(".gz") } else { None };
    packed.unwrap_or(target)
}

/// How many nodes test: the first alone, or as many as there are files for.
fn testers(files: usize, nodes: u32, is_distributed: bool) -> u32 {
    match is_distributed {
        true => nodes.min(u32::try_from(files).unwrap_or(u32::MAX)),
        false => 1,
    }
}

struct Finder<'a> {
    cloud: &'a Cloud,
    source: &'a SourceName,
    files: Vec<PlannedFile>,
    notes: Vec<String>,
}

/// A file that was found, by its whole path.
struct Found {
    path: String,
    name: String,
    entry: Entry,
}

impl Finder<'_> {
    async fn locate(&self, path: &str) -> Result<Located> {
        locate(self.cloud, self.source, path, Access::Read).await
    }

    /// The files of a directory, by name; of data, those that are data.
    async fn directory(&mut self, path: &str, what: &str, must_be: bool) -> Result<Vec<Found>> {
        let place = self.locate(path).await?;
        match place.stat().await? {
            Some(entry) if entry.is_directory() => {}
            Some(_) => {
                let message =
                    format!("the {what} data is a directory of files, and this is a file");
                return Err(Error::invalid(message).with("path", place.shown()));
            }
            None if must_be => {
                let message = format!("there is no {what} data: upload files to this directory");
                return Err(Error::new(Kind::NotFound, message).with("path", place.shown()));
            }
            None => return Ok(Vec::new()),
        }
        let mut found = Vec::new();
        for entry in place.list().await? {
            let name = entry.name().to_owned();
            if what != OTHER && name.starts_with(['_', '.']) {
                // As those that jobs of Hadoop leave: `_SUCCESS`, `_logs`.
                self.notes.push(format!("{path}/{name} is not taken for data"));
                continue;
            }
            check_name(path, &name)?;
            if entry.kind != EntryKind::File {
                let message = format!(
                    "the {what} data has something that is no file: keep files only in the directory"
                );
                return Err(Error::invalid(message).with("path", format!("{path}/{name}")));
            }
            found.push(Found { path: format!("{path}/{name}"), name, entry });
        }
        if found.is_empty() && must_be {
            let message = format!("there is no {what} data: upload files to this directory");
            return Err(Error::new(Kind::NotFound, message).with("path", place.shown()));
        }
        Ok(found)
    }

    /// Gives each file to one node.
    fn deal(&mut self, found: Vec<Found>, (part, target): (Part, &str), nodes: u32) -> Result<()> {
        if found.len() < nodes as usize {
            let message = format!(
                "there are {} files for {nodes} nodes, and every node needs one: split the data \
                 into more files, or use fewer nodes",
                found.len()
            );
            let folder = found.first().map_or("", |file| &file.path);
            let folder = folder.rsplit_once('/').map_or(folder, |(folder, _)| folder);
            return Err(Error::invalid(message).with("path", folder).with("field", "num_nodes"));
        }
        let sizes: Vec<(&str, u64)> =
            found.iter().map(|file| (file.name.as_str(), file.entry.bytes)).collect();
        let ranks = deal(&sizes, nodes);
        for (file, rank) in found.into_iter().zip(ranks) {
            let target = format!("{target}/{}", file.name);
            self.files.push(planned(file, target, part, Some(rank)));
        }
        Ok(())
    }

    /// Gives a file, or the files of a directory, to every node.
    async fn everywhere(&mut self, path: &str, target: &str, must_be: bool) -> Result<()> {
        let place = self.locate(path).await?;
        let mut place_and_entry = (path.to_owned(), place.stat().await?);
        if place_and_entry.1.is_none() {
            // The other name of the original's documents.
            let other = format!("{path}_dir");
            place_and_entry = (other.clone(), self.locate(&other).await?.stat().await?);
        }
        let (path, entry) = place_and_entry;
        match entry {
            Some(entry) if entry.is_directory() => {
                for file in self.directory(&path, OTHER, true).await? {
                    let target = format!("{target}/{}", file.name);
                    self.files.push(planned(file, target, Part::Other, None));
                }
                Ok(())
            }
            Some(entry) => {
                let name = entry.name().to_owned();
                let file = Found { path, name, entry };
                self.files.push(planned(file, target.to_owned(), Part::Other, None));
                Ok(())
            }
            None if must_be => {
                let message = "there is no such file: upload it, or leave the setting out";
                Err(Error::new(Kind::NotFound, message).with("path", place.shown()))
            }
            None => {
                self.notes.push(format!("there is no {}", place.shown()));
                Ok(())
            }
        }
    }
}

fn planned(file: Found, target: String, part: Part, rank: Option<u32>) -> PlannedFile {
    let Found { path, entry, .. } = file;
    PlannedFile { path, target, bytes: entry.bytes, etag: entry.etag, part, rank }
}

/// A directory for the results in which nothing is lost.
async fn output(cloud: &Cloud, source: &SourceName, wanted: &Output) -> Result<String> {
    let (path, is_reused) = match wanted {
        Output::Derived(path) | Output::New(path) => (path, false),
        Output::Reused(path) => (path, true),
    };
    let place = locate(cloud, source, path, Access::Write).await?;
    let is_taken = match place.stat().await? {
        None => false,
        Some(entry) if entry.is_directory() => !place.list().await?.is_empty(),
        Some(_) => {
            let message = "results need a directory, and this is a file: use another output_path";
            return Err(Error::invalid(message).with("path", place.shown()));
        }
    };
    // A job that has not ended may not have sent anything so far.
    let other = super::store::sending_to(&cloud.database, &source.fs_name, path).await?;
    let is_taken = is_taken || other.is_some();
    if let (Output::New(_) | Output::Reused(_), Some(job)) = (wanted, other) {
        let message = "a job that has not ended sends its results there: use another \
                       output_path, or wait";
        return Err(Error::new(Kind::Conflict, message)
            .with("path", place.shown())
            .with("job", job));
    }
    let path = match wanted {
        Output::Derived(path) if is_taken => format!("{path}_{}", super::evaluate::moment()?),
        _ if is_taken && !is_reused => {
            let message = "there are results already: use another output_path, or \
                           force_reuse_output_path=True";
            return Err(Error::new(Kind::AlreadyExists, message).with("path", place.shown()));
        }
        _ => path.clone(),
    };
    Ok(path)
}

impl Plan {
    /// Makes the directory of the results; false if it was there.
    pub(super) async fn make_output(&self, cloud: &Cloud) -> Result<bool> {
        let place = locate(cloud, &self.source, &self.output, Access::Write).await?;
        let is_new = place.stat().await?.is_none();
        place.make().await?;
        Ok(is_new)
    }

    /// Whether a job that has not ended sends its results there.
    pub(super) async fn is_output_taken(&self, cloud: &Cloud) -> Result<bool> {
        let (fs_name, output) = self.results();
        Ok(super::store::sending_to(&cloud.database, fs_name, output).await?.is_some())
    }

    /// Takes back [`Plan::make_output`], for a job that is refused. What is in the directory stays.
    pub(super) async fn remove_output(&self, cloud: &Cloud) {
        if let Ok(place) = locate(cloud, &self.source, &self.output, Access::Write).await {
            // An empty directory that stays is in nobody's way.
            let _ = place.remove_empty().await;
        }
    }

    /// What one node fetches.
    pub(super) fn share(&self, rank: u32) -> Share {
        let own =
            (0_u32..).zip(&self.files).filter(|(_, file)| file.rank.is_none_or(|own| own == rank));
        let mut share = Share {
            decompress: self.decompress,
            save_dir: self.save_dir.clone(),
            nodes: self.nodes,
            ..Share::default()
        };
        for (number, file) in own {
            let line = format!("./{}", unpacked(&file.target, self.decompress));
            match file.part {
                Part::Train => share.train_list.push(line),
                Part::Test => share.test_list.push(line),
                Part::Other => {}
            }
            let target = file.target.clone();
            share.files.push(SharedFile { number, target, bytes: file.bytes });
        }
        share.train_list.sort();
        share.test_list.sort();
        share
    }

    /// Where its results go: a file system, and a directory in it.
    pub(super) fn results(&self) -> (&str, &str) {
        (&self.source.fs_name, &self.output)
    }

    /// How much of a part there is.
    pub(super) fn amount(&self, part: Part) -> Amount {
        let files = self.files.iter().filter(|file| file.part == part);
        files.fold(Amount::default(), |sum, file| Amount {
            files: sum.files + 1,
            bytes: sum.bytes.saturating_add(file.bytes),
        })
    }

    /// Where results go, as people know it.
    pub(super) fn shown_output(&self) -> String {
        format!("{}{}", self.source.fs_name, self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, target: &str) -> PlannedFile {
        PlannedFile {
            path: path.into(),
            target: target.into(),
            bytes: 1,
            etag: String::new(),
            part: Part::Train,
            rank: Some(0),
        }
    }

    #[test]
    fn no_file_replaces_another_on_a_node() {
        let files = [
            file("/d/train/a", "train_data_dir/train/a"),
            file("/d/train/a.gz", "train_data_dir/train/a.gz"),
        ];
        check_targets(&files, false).unwrap();
        let error = check_targets(&files, true).unwrap_err().to_string();
        assert!(error.contains("/d/train/a.gz") && error.contains("rename one"), "{error}");
        // A directory called train has its meta data beside the data.
        let files = [
            file("/train/train/train_meta", "train_data_dir/train/train_meta"),
            file("/train/train_meta", "train_data_dir/train/train_meta"),
        ];
        assert!(check_targets(&files, false).is_err());
    }

    #[test]
    fn a_name_has_a_line_of_its_own_in_a_list() {
        for name in ["part 0", "中文.gz", "*", "a\\b"] {
            check_name("/d/train", name).unwrap();
        }
        assert!(check_name("/d/train", "\u{fffd}").is_err());
        insta::assert_snapshot!(check_name("/d/train", "a\nb").unwrap_err(), @r"the name of a file of the data has a control character, or is no UTF-8: rename it (path: /d/train/a\nb)");
    }

    #[test]
    fn the_first_node_tests_unless_all_do() {
        assert_eq!(testers(10, 4, false), 1);
        assert_eq!(testers(10, 4, true), 4);
        // Testing less than all is no reason to train on fewer nodes.
        assert_eq!(testers(3, 4, true), 3);
    }
}
