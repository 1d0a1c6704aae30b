//! What a copy consists of: which files become which, by the rules of the system's own `cp`. What is
//! there is looked at; nothing is moved yet.

use super::local::{LocalFile, dress_directory, walk};
use super::{Item, Options, Outcome, Watcher, in_parallel};
use crate::client::Client;
use contract::api::file::{Attributes, Entry, EntryKind, ListQuery, Relocate};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use std::cell::Cell;
use std::path::{Path, PathBuf};

/// Files that the server copies at the same time for one command.
const COPIES_AT_ONCE: usize = 2;
/// Directories that get their permissions at the same time.
const DRESSED_AT_ONCE: usize = 4;
/// Their owner can always go on with directories.
const OWNER_MODE: u32 = 0o700;

/// What has to be made, and what has to be moved. Directories are made first, each after the one
/// that it is in.
#[derive(Debug, Default)]
pub struct Plan {
    /// Directories of this machine.
    pub local_directories: Vec<PathBuf>,
    /// Directories of the cloud.
    pub cloud_directories: Vec<PfsPath>,
    /// Permissions and times of the directories here, which they get when everything is in them.
    pub local_attributes: Vec<(PathBuf, Option<u32>, Option<u64>)>,
    /// Those of the directories of the cloud.
    pub cloud_attributes: Vec<Attributes>,
    /// Files, all of them in one direction.
    pub items: Vec<Item>,
    /// The direction.
    pub direction: Direction,
    /// Where files go that are copied inside the cloud, one for each item.
    pub places: Vec<PfsPath>,
    /// Places of what is left out of an upload, such as links.
    pub left_out: Vec<PfsPath>,
    /// What cannot be copied, by name, and why. The rest is copied all the same.
    pub failures: Vec<(String, Error)>,
}

/// Which way files go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// To the cloud.
    #[default]
    Up,
    /// From the cloud.
    Down,
    /// Inside the cloud.
    Inside,
}

/// Whether a path is of the cloud.
pub fn is_cloud(text: &str) -> bool {
    text == "/pfs" || text.starts_with("/pfs/")
}

/// Whether a path says that it is a directory.
pub fn ends_as_directory(text: &str) -> bool {
    text.ends_with('/') || text.ends_with("/.")
}

impl Client {
    /// Plans a copy as `cp SRC… DEST` means it: a DEST that is a directory, or ends with a slash,
    /// takes the sources in; directories need `is_recursive`. Patterns are expanded.
    pub fn plan_copy(&self, sources: &[String], to: &str, is_recursive: bool) -> Result<Plan> {
        let direction = direction(sources, to)?;
        let plan = match direction {
            Direction::Up => self.plan_upload(sources, to, is_recursive)?,
            Direction::Down => self.plan_download(sources, to, is_recursive)?,
            Direction::Inside => self.plan_inside(sources, to, is_recursive)?,
        };
        Ok(Plan { direction, ..plan })
    }

    /// Does what was planned, and tells the watcher of every file.
    pub fn carry_out(&self, plan: Plan, options: &Options, watcher: &dyn Watcher) -> Result<()> {
        for (name, error) in plan.failures {
            watcher.left_out(&name, error);
        }
        for directory in &plan.cloud_directories {
            match self.make_directory(directory) {
                // So would everything else.
                Err(error) if error.kind().is_retryable() => return Err(error),
                Err(error) => watcher.left_out(&directory.to_string(), error),
                Ok(_) => {}
            }
        }
        for directory in &plan.local_directories {
            if let Err(source) = std::fs::create_dir_all(directory) {
                let error = Error::io("cannot make a directory", source);
                watcher.left_out(&directory.display().to_string(), error);
            }
        }
        match plan.direction {
            Direction::Up => self.send_files(plan.items, options, watcher),
            Direction::Down => self.receive_files(plan.items, options, watcher),
            Direction::Inside => {
                let pairs = plan.items.into_iter().zip(plan.places).collect();
                in_parallel(COPIES_AT_ONCE, pairs, |(item, place): (Item, PfsPath)| {
                    let asked = Relocate {
                        from: item.path.to_string(),
                        to: place.to_string(),
                        if_absent: options.if_absent,
                    };
                    let told = Cell::new(0);
                    let copied = self.copy_file(&asked, |bytes| {
                        told.set(told.get() + bytes);
                        watcher.moved(bytes);
                    });
                    watcher.moved(item.bytes.saturating_sub(told.get()));
                    let error = copied.err();
                    let moved_bytes = if error.is_some() { 0 } else { item.bytes };
                    watcher.ended(&item, &Outcome { moved_bytes, error });
                });
            }
        }
        // Directories that were there are left as they are where nothing is to be replaced.
        if !options.if_absent {
            in_parallel(DRESSED_AT_ONCE, plan.cloud_attributes, |asked| {
                dressed(&asked.path, self.dress(&asked), watcher);
            });
            for (path, mode, ms) in plan.local_attributes {
                dressed(&path.display().to_string(), dress_directory(&path, mode, ms), watcher);
            }
        }
        Ok(())
    }

    /// Gives a directory its attributes. A file that is in its way has been told already.
    fn dress(&self, asked: &Attributes) -> Result<()> {
        if self.stat(&self.pfs_path(&asked.path)?)?.is_directory() {
            self.set_attributes(asked)?;
        }
        Ok(())
    }

    /// What a path or a pattern leads to; at least one. A name that has the letters of a pattern is
    /// itself, if it is there.
    pub fn expand(&self, text: &str) -> Result<Vec<Entry>> {
        let path = self.pfs_path(text)?;
        match self.stat(&path) {
            Err(error) if error.kind() == Kind::NotFound && has_pattern(text) => {
                self.entries(&ListQuery {
                    path: path.to_string(),
                    is_recursive: false,
                    is_pattern: true,
                    is_itself: true,
                })
            }
            entry => Ok(vec![entry?]),
        }
    }

    /// Everything below a directory.
    pub fn below(&self, path: &PfsPath) -> Result<Vec<Entry>> {
        self.entries(&ListQuery {
            path: path.to_string(),
            is_recursive: true,
            is_pattern: false,
            is_itself: false,
        })
    }

    /// What is in a directory, or matches a pattern.
    pub fn list_path(&self, text: &str, is_recursive: bool) -> Result<Vec<Entry>> {
        let path = self.pfs_path(text)?;
        let is_pattern = has_pattern(text) && self.find(&path)?.is_none();
        self.entries(&ListQuery {
            path: path.to_string(),
            is_recursive,
            is_pattern,
            is_itself: false,
        })
    }

    fn entries(&self, query: &ListQuery) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        self.list(query, |entry| {
            entries.push(entry);
            Ok(())
        })?;
        Ok(entries)
    }

    fn plan_upload(&self, sources: &[String], to: &str, is_recursive: bool) -> Result<Plan> {
        let target = self.pfs_path(to)?;
        let mut plan = Plan::default();
        let files = local_sources(sources, &mut plan.failures)?;
        let there = self.find(&target)?;
        let is_into = is_into(there.as_ref(), to, files.len() + plan.failures.len())?;
        for file in files {
            let place = if is_into { target.join(&name_of(&file.path)?)? } else { target.clone() };
            match file.is_directory {
                false => plan.items.push(Item::up(&file, place)),
                true if !is_recursive => return Err(is_directory(&file.path.display())),
                true => {
                    self.check_no_file(&place)?;
                    self.add_tree(&mut plan, &file.path, &place)?;
                }
            }
        }
        check_distinct(plan.items.iter().map(|item| item.path.to_string()))?;
        Ok(plan)
    }

    /// Adds everything below a directory of this machine. Empty directories are made too.
    pub fn add_tree(&self, plan: &mut Plan, directory: &Path, place: &PfsPath) -> Result<()> {
        let mut left_out = Vec::new();
        let mut skip = |path: &Path| {
            let why = "left out, because it is neither a file nor a directory";
            (self.notice)(&format!("{why}: {}", path.display()));
            let relative = path.strip_prefix(directory).ok().and_then(Path::to_str);
            left_out.extend(relative.and_then(|relative| place.join(relative).ok()));
        };
        let before = plan.failures.len();
        let mut fail = |path: &Path, error| plan.failures.push((path.display().to_string(), error));
        let files = walk(directory, &mut skip, &mut fail);
        plan.left_out.append(&mut left_out);
        let top = LocalFile::named(directory)?;
        plan.dress_cloud(place, top.mode, top.modified_ms);
        if files.is_empty() && plan.failures.len() == before {
            plan.cloud_directories.push(place.clone());
        }
        for (at, file) in files.iter().enumerate() {
            let path = match place.join(&file.relative) {
                Ok(path) => path,
                Err(error) => {
                    plan.failures.push((file.path.display().to_string(), error));
                    continue;
                }
            };
            // What is in a directory follows it.
            let has_files = files.get(at + 1).is_some_and(|next| {
                let rest = next.relative.strip_prefix(&file.relative);
                rest.is_some_and(|rest| rest.starts_with('/'))
            });
            if file.is_directory {
                plan.dress_cloud(&path, file.mode, file.modified_ms);
            }
            match file.is_directory {
                false => plan.items.push(Item::up(file, path)),
                true if !has_files => plan.cloud_directories.push(path),
                true => {}
            }
        }
        Ok(())
    }

    fn plan_download(&self, sources: &[String], to: &str, is_recursive: bool) -> Result<Plan> {
        let found = self.expand_all(sources)?;
        let target = PathBuf::from(to);
        let is_into = target.is_dir() || ends_as_directory(to);
        if found.len() > 1 && !is_into {
            return Err(not_a_directory(to));
        }
        let mut plan = Plan::default();
        let is_one = found.len() == 1;
        for entry in found {
            let place =
                if is_into { target.join(local_name(entry.name())?) } else { target.clone() };
            match entry.kind {
                EntryKind::File => plan.items.push(Item::down(&entry, place)?),
                EntryKind::Directory if !is_recursive => return Err(is_directory(&entry.path)),
                EntryKind::Directory if place.symlink_metadata().is_ok() && !place.is_dir() => {
                    return Err(over_a_file(&place.display()));
                }
                EntryKind::Directory => self.collect(&mut plan, &entry, &place)?,
                _ if is_one => return Err(not_a_file(&entry)),
                _ => plan.failures.push((shown(&entry.path), not_a_file(&entry))),
            }
        }
        check_distinct(plan.items.iter().map(|item| item.local.display().to_string()))?;
        Ok(plan)
    }

    /// Adds a directory of the cloud and everything below it.
    pub fn collect(&self, plan: &mut Plan, directory: &Entry, place: &Path) -> Result<()> {
        let top = &listed(directory)?;
        plan.add_local_directory(directory, place.to_owned());
        for (entry, path) in self.named_below(top, &mut plan.failures)? {
            let names = names_below(&path, top)?.iter().map(|name| local_name(name));
            let local = match names.collect::<Result<PathBuf>>() {
                Ok(relative) => place.join(relative),
                Err(error) => {
                    plan.failures.push((shown(&entry.path), error));
                    continue;
                }
            };
            match entry.kind {
                EntryKind::File => plan.items.push(Item::down(&entry, local)?),
                EntryKind::Directory => plan.add_local_directory(&entry, local),
                _ => self.leave_out(&entry),
            }
        }
        Ok(())
    }

    fn plan_inside(&self, sources: &[String], to: &str, is_recursive: bool) -> Result<Plan> {
        let target = self.pfs_path(to)?;
        let found = self.expand_all(sources)?;
        let is_into = is_into(self.find(&target)?.as_ref(), to, found.len())?;
        let mut plan = Plan::default();
        for entry in found {
            let place = if is_into { target.join(entry.name())? } else { target.clone() };
            match entry.kind {
                EntryKind::File => plan.add_inside(&entry, place)?,
                EntryKind::Directory if !is_recursive => return Err(is_directory(&entry.path)),
                EntryKind::Directory => {
                    let top = listed(&entry)?;
                    check_outside(&top, &place)?;
                    self.check_no_file(&place)?;
                    plan.add_cloud_directory(&entry, place.clone());
                    for (below, path) in self.named_below(&top, &mut plan.failures)? {
                        let place = place.join(&names_below(&path, &top)?.join("/"))?;
                        match below.kind {
                            EntryKind::File => plan.add_inside(&below, place)?,
                            EntryKind::Directory => plan.add_cloud_directory(&below, place),
                            _ => self.leave_out(&below),
                        }
                    }
                }
                _ => return Err(not_a_file(&entry)),
            }
        }
        check_distinct(plan.places.iter().map(PfsPath::to_string))?;
        Ok(plan)
    }

    /// Everything below a directory that has a name which a path can have. What has none is noted
    /// once, and what is in it is passed over.
    pub fn named_below(
        &self,
        top: &PfsPath,
        failures: &mut Vec<(String, Error)>,
    ) -> Result<Vec<(Entry, PfsPath)>> {
        let mut named = Vec::new();
        let mut odd: Option<String> = None;
        for entry in self.below(top)? {
            if odd.as_ref().is_some_and(|odd| entry.path.starts_with(odd.as_str())) {
                continue;
            }
            match listed(&entry) {
                Ok(path) => named.push((entry, path)),
                Err(error) => {
                    odd = Some(format!("{}/", entry.path));
                    failures.push((shown(&entry.path), error));
                }
            }
        }
        Ok(named)
    }

    /// Refuses a place of the cloud where a directory goes and something else is.
    pub fn check_no_file(&self, place: &PfsPath) -> Result<()> {
        match self.find(place)? {
            Some(entry) if !entry.is_directory() => Err(over_a_file(place)),
            _ => Ok(()),
        }
    }

    fn expand_all(&self, sources: &[String]) -> Result<Vec<Entry>> {
        let found = sources.iter().map(|source| self.expand(source)).collect::<Result<Vec<_>>>()?;
        Ok(found.concat())
    }

    fn leave_out(&self, entry: &Entry) {
        (self.notice)(&format!("left out, because it is no file: {}", shown(&entry.path)));
    }
}

impl Plan {
    fn add_local_directory(&mut self, entry: &Entry, local: PathBuf) {
        let (mode, ms) = kept(entry);
        self.local_attributes.push((local.clone(), mode, ms));
        self.local_directories.push(local);
    }

    fn add_cloud_directory(&mut self, entry: &Entry, place: PfsPath) {
        let (mode, ms) = kept(entry);
        self.dress_cloud(&place, mode, ms);
        self.cloud_directories.push(place);
    }

    fn dress_cloud(&mut self, place: &PfsPath, mode: Option<u32>, modified_ms: Option<u64>) {
        let is_top = place.file_name().is_none();
        if !is_top && (mode.is_some() || modified_ms.is_some()) {
            let (path, mode) = (place.to_string(), mode.map(|mode| mode | OWNER_MODE));
            self.cloud_attributes.push(Attributes { path, mode, modified_ms });
        }
    }

    fn add_inside(&mut self, entry: &Entry, place: PfsPath) -> Result<()> {
        self.items.push(Item::down(entry, PathBuf::new())?);
        self.places.push(place);
        Ok(())
    }
}

impl Item {
    /// A file of this machine that goes to a place in the cloud.
    pub fn up(file: &LocalFile, path: PfsPath) -> Item {
        Item {
            local: file.path.clone(),
            path,
            bytes: file.bytes,
            mode: file.mode,
            modified_ms: file.modified_ms,
            etag: String::new(),
        }
    }

    /// A file of the cloud that goes to a place on this machine.
    pub fn down(entry: &Entry, local: PathBuf) -> Result<Item> {
        Ok(Item {
            local,
            path: listed(entry)?,
            bytes: entry.bytes,
            mode: Some(entry.mode).filter(|mode| *mode != 0),
            modified_ms: Some(entry.modified_ms),
            etag: entry.etag.clone(),
        })
    }
}

/// The path of something that the server listed. A name that no path can have was made by a job.
pub fn listed(entry: &Entry) -> Result<PfsPath> {
    PfsPath::parse(&entry.path, "local")
}

/// A name that a job may have made, for people.
fn shown(path: &str) -> String {
    path.replace(char::is_control, "?")
}

/// The names that lead from a directory to something that the server listed in it.
fn names_below<'a>(path: &'a PfsPath, top: &PfsPath) -> Result<&'a [String]> {
    let names = path.components().strip_prefix(top.components());
    names.filter(|_| path.owner() == top.owner()).ok_or_else(|| {
        let message = "the server listed something that is not in the directory";
        Error::new(Kind::Damaged, message).with("directory", top).with("listed", path)
    })
}

/// Permissions and time of a directory, where its store keeps them.
fn kept(entry: &Entry) -> (Option<u32>, Option<u64>) {
    let mode = (entry.mode != 0).then_some(entry.mode | OWNER_MODE);
    (mode, Some(entry.modified_ms).filter(|ms| *ms != 0))
}

/// Tells of a directory that did not get its permissions and time. Some stores keep none, one that
/// belongs to somebody else may not be changed, and one that was not made was told of before.
fn dressed(name: &str, result: Result<()>, watcher: &dyn Watcher) {
    match result {
        Err(error)
            if matches!(error.kind(), Kind::Unsupported | Kind::Forbidden | Kind::NotFound) => {}
        Err(error) => watcher.left_out(name, error),
        Ok(()) => {}
    }
}

fn direction(sources: &[String], to: &str) -> Result<Direction> {
    let clouds = sources.iter().filter(|source| is_cloud(source)).count();
    if clouds > 0 && clouds < sources.len() {
        let message = "some sources are in the cloud and some are not: copy them one after another";
        return Err(Error::invalid(message));
    }
    match (clouds > 0, is_cloud(to)) {
        (false, true) => Ok(Direction::Up),
        (true, false) => Ok(Direction::Down),
        (true, true) => Ok(Direction::Inside),
        (false, false) => {
            let message = "neither is in the cloud: paths there begin with /pfs/; use `cp` for files \
                           of this machine";
            Err(Error::invalid(message).with("destination", to))
        }
    }
}

fn has_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether sources go into the destination: it is a directory, or will be.
fn is_into(there: Option<&Entry>, to: &str, sources: usize) -> Result<bool> {
    match there {
        Some(entry) if entry.is_directory() => Ok(true),
        Some(_) if ends_as_directory(to) || sources > 1 => Err(not_a_directory(to)),
        None if ends_as_directory(to) => Ok(true),
        None if sources > 1 => Err(not_a_directory(to)),
        _ => Ok(false),
    }
}

fn check_outside(top: &PfsPath, place: &PfsPath) -> Result<()> {
    match place.components().starts_with(top.components()) && place.owner() == top.owner() {
        true => {
            let message = "a directory cannot be copied into itself";
            Err(Error::invalid(message).with("path", place))
        }
        false => Ok(()),
    }
}

fn not_a_directory(to: &str) -> Error {
    let message = "several files cannot become one: the destination must be a directory; end it with \
                   a slash to have it made";
    Error::invalid(message).with("destination", to)
}

fn is_directory(path: &impl std::fmt::Display) -> Error {
    Error::invalid("this is a directory: use -r to copy everything in it").with("path", path)
}

fn over_a_file(place: &impl std::fmt::Display) -> Error {
    let message = "a directory cannot take the place of a file: remove that first, or choose \
                   another destination";
    Error::invalid(message).with("destination", place)
}

pub(super) fn not_a_file(entry: &Entry) -> Error {
    let message = "this is a link, a pipe or a socket that a job has made, and no file";
    Error::invalid(message).with("path", shown(&entry.path))
}

fn check_distinct(targets: impl Iterator<Item = String>) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    for target in targets {
        if !seen.insert(target.clone()) {
            let message = "two sources would become the same file: give one another name";
            return Err(Error::new(Kind::Conflict, message).with("path", target));
        }
    }
    Ok(())
}

/// The files that names and patterns of this machine mean. Of several, those that cannot be copied
/// are noted, and keep nobody from copying the rest.
fn local_sources(
    sources: &[String],
    failures: &mut Vec<(String, Error)>,
) -> Result<Vec<LocalFile>> {
    let mut paths = Vec::new();
    for source in sources {
        expand_local(source, &mut paths, failures)?;
    }
    let is_one = paths.len() + failures.len() == 1;
    let mut files = Vec::new();
    for path in paths {
        match LocalFile::named(&path) {
            Err(error) if !is_one => failures.push((path.display().to_string(), error)),
            file => files.push(file?),
        }
    }
    Ok(files)
}

fn expand_local(
    text: &str,
    paths: &mut Vec<PathBuf>,
    failures: &mut Vec<(String, Error)>,
) -> Result<()> {
    let path = Path::new(text);
    if path.symlink_metadata().is_ok() || !has_pattern(text) {
        paths.push(path.to_owned());
        return Ok(());
    }
    let found = glob::glob(text).map_err(|error| {
        Error::invalid(format!("the pattern cannot be read: {}", error.msg)).with("pattern", text)
    })?;
    let before = paths.len() + failures.len();
    for path in found {
        match path {
            Ok(path) => paths.push(path),
            Err(error) => {
                let name = error.path().display().to_string();
                failures.push((name, Error::io("cannot read", error.into())));
            }
        }
    }
    match paths.len() + failures.len() == before {
        true => Err(Error::new(Kind::NotFound, "no file matches").with("pattern", text)),
        false => Ok(()),
    }
}

/// The name of a directory or file in its directory; that of `.` and `a/..` too.
pub fn name_of(path: &Path) -> Result<String> {
    let full = match path.file_name() {
        Some(_) => path.to_owned(),
        None => std::fs::canonicalize(path)
            .map_err(|source| Error::io("cannot read", source).with("path", path.display()))?,
    };
    let name = full.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    name.ok_or_else(|| {
        Error::invalid("this has no name that is UTF-8").with("path", path.display())
    })
}

/// A name of the cloud as one of this machine. Elsewhere than on Linux some names would lead away.
pub fn local_name(name: &str) -> Result<&str> {
    let is_strange = name.contains(['/', '\0']) || (cfg!(windows) && name.contains(['\\', ':']));
    match is_strange || matches!(name, "" | "." | "..") {
        true => Err(Error::invalid("a file here cannot have this name").with("name", name)),
        false => Ok(name),
    }
}
