//! Lists of files: what a pattern means, and everything below a directory, as it is found. Nothing
//! is collected first, so that a home of millions of files needs no more memory than one directory.

use super::place::PermittedPath;
use super::stores::{Files, missing};
use crate::http::stream::{Lines, line};
use bytes::Bytes;
use contract::api::file::{Entry, ListLine, ListQuery};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use glob::{MatchOptions, Pattern};
use std::sync::Arc;
use std::vec::IntoIter;

/// Lines of one answer's piece.
const LINES: usize = 256;
/// What a pattern may match.
const MATCHES_MAX: usize = 100_000;
/// Directories in directories, which a job could make without end.
const DEPTH_MAX: usize = 512;
/// As shells do it: a name with a dot in front is matched by a dot.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// A list that goes on.
pub(crate) struct Listing {
    files: Arc<dyn Files>,
    is_recursive: bool,
    /// The directories that we are in, each with what is left of it.
    open: Vec<IntoIter<Entry>>,
    /// Tops that wait.
    tops: IntoIter<Entry>,
    is_itself: bool,
    count: u64,
    has_ended: bool,
}

impl Listing {
    /// Begins a list. What cannot be listed at all is refused now.
    pub(crate) async fn begin(place: &PermittedPath, query: &ListQuery) -> Result<Self> {
        let tops = match query.is_pattern {
            true => expand(&*place.files, &place.path).await?,
            false => vec![place.files.stat(place.path.clone()).await?],
        };
        let mut listing = Listing {
            files: Arc::clone(&place.files),
            is_recursive: query.is_recursive,
            open: Vec::new(),
            tops: tops.into_iter(),
            is_itself: query.is_itself,
            count: 0,
            has_ended: false,
        };
        listing.enter_next_top().await?;
        Ok(listing)
    }

    async fn enter_next_top(&mut self) -> Result<()> {
        let Some(top) = self.tops.next() else { return Ok(()) };
        let entries = match top.is_directory() && !self.is_itself {
            true => self.files.list(PfsPath::parse(&top.path, "-")?).await?,
            false => vec![top],
        };
        self.open.push(entries.into_iter());
        Ok(())
    }

    async fn next_entry(&mut self) -> Result<Option<Entry>> {
        loop {
            let Some(current) = self.open.last_mut() else { return Ok(None) };
            let Some(entry) = current.next() else {
                self.open.pop();
                if self.open.is_empty() {
                    self.enter_next_top().await?;
                }
                continue;
            };
            if entry.is_directory() && self.is_recursive {
                self.enter(&entry).await?;
            }
            return Ok(Some(entry));
        }
    }

    async fn enter(&mut self, entry: &Entry) -> Result<()> {
        if self.open.len() >= DEPTH_MAX {
            let message = "there are too many directories in each other";
            return Err(Error::new(Kind::LimitExceeded, message).with("path", &entry.path));
        }
        // A name that no path can have is shown, and not entered.
        let Ok(path) = PfsPath::parse(&entry.path, "-") else { return Ok(()) };
        match self.files.list(path).await {
            Ok(entries) => self.open.push(entries.into_iter()),
            Err(error) if is_no_match(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Lines for Listing {
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>> {
        if self.has_ended {
            return Ok(None);
        }
        let mut text = Vec::new();
        for _ in 0..LINES {
            match self.next_entry().await? {
                Some(entry) => {
                    self.count += 1;
                    text.extend_from_slice(&line(&ListLine::Entry(entry))?);
                }
                None => {
                    self.has_ended = true;
                    text.extend_from_slice(&line(&ListLine::End(self.count))?);
                    break;
                }
            }
        }
        Ok(Some(vec![text.into()]))
    }
}

/// Whether nothing is found there, instead of everything failing: it was removed meanwhile, or is a
/// file or a link that a job has made where a directory would be.
fn is_no_match(error: &Error) -> bool {
    matches!(error.kind(), Kind::NotFound | Kind::Invalid | Kind::Forbidden)
}

/// What a pattern matches, in order.
pub(crate) async fn expand(files: &dyn Files, pattern: &PfsPath) -> Result<Vec<Entry>> {
    let top = match pattern.owner() {
        Some(owner) => PfsPath::home(pattern.datacenter(), owner)?,
        None => PfsPath::public(pattern.datacenter())?,
    };
    let mut found = vec![top];
    for component in pattern.components() {
        let is_pattern = component.contains(['*', '?', '[']);
        let matcher = match is_pattern {
            true => Some(Pattern::new(component).map_err(|error| {
                Error::invalid(format!("the pattern cannot be read: {}", error.msg))
                    .with("pattern", component)
            })?),
            false => None,
        };
        let mut next = Vec::new();
        for path in found {
            let Some(matcher) = &matcher else {
                next.push(path.join(component)?);
                continue;
            };
            let entries = match files.list(path.clone()).await {
                Err(error) if is_no_match(&error) => continue,
                entries => entries?,
            };
            let names = entries.iter().map(Entry::name);
            let matching = names.filter(|name| matcher.matches_with(name, OPTIONS));
            next.extend(matching.filter_map(|name| path.join(name).ok()));
            if next.len() > MATCHES_MAX {
                let message = "the pattern matches too much: use one that matches less";
                return Err(
                    Error::new(Kind::LimitExceeded, message).with("matches_max", MATCHES_MAX)
                );
            }
        }
        found = next;
    }
    let mut entries = Vec::new();
    for path in found {
        match files.stat(path).await {
            Err(error) if is_no_match(&error) => {}
            entry => entries.push(entry?),
        }
    }
    match entries.is_empty() {
        true => Err(missing(pattern)),
        false => Ok(entries),
    }
}
