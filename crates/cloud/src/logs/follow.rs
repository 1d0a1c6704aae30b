//! The logs of a job as a stream, until the job has ended and all of it was sent.

use super::news;
use super::service::{Reader, Wanted};
use crate::Cloud;
use crate::blocking::blocking;
use crate::datacenters::Datacenter;
use crate::http::stream::{HEARTBEAT, Lines, line};
use crate::jobs::row::JobRow;
use crate::jobs::service;
use bytes::Bytes;
use contract::api::log::LogPiece;
use contract::state::State;
use contract::{Error, Kind, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often archive and database are looked at where another server may write them.
const LOOK: Duration = Duration::from_millis(500);
/// The same where this one does, which tells what happens.
const LOOK_RARELY: Duration = Duration::from_secs(10);
/// What is read at once; more is read when that was taken.
const BYTES_AT_ONCE: usize = 1 << 20;

/// Somebody who follows a job's logs.
pub(super) struct Follower {
    cloud: Arc<Cloud>,
    datacenter: Arc<Datacenter>,
    uid: String,
    /// Absent while it reads.
    reader: Option<Reader>,
    news: news::Reader,
    is_over: bool,
    /// When the archive was read to its end.
    read: Option<Instant>,
    /// When it was looked last whether the job is over.
    looked: Option<Instant>,
}

impl Follower {
    pub(super) fn new(
        cloud: &Arc<Cloud>,
        datacenter: Arc<Datacenter>,
        row: &JobRow,
        wanted: Wanted,
    ) -> Self {
        Follower {
            cloud: Arc::clone(cloud),
            // From here on everything is told: what was before is read.
            news: news::Reader::new(datacenter.news.of(&row.uid)),
            datacenter,
            uid: row.uid.clone(),
            reader: Some(Reader::new(row, wanted)),
            is_over: row.state.is_final(),
            read: None,
            looked: None,
        }
    }

    /// What is new, from memory if that can be.
    async fn read(&mut self, interval: Duration) -> Result<Vec<LogPiece>> {
        let Some(mut reader) = self.reader.take() else {
            return Err(Error::new(Kind::Io, "a follower lost its place"));
        };
        let is_due = self.read.is_none_or(|read| read.elapsed() >= interval);
        let mut known = None;
        if !is_due && !self.is_over {
            known = reader.next_in_memory(&self.news.news, BYTES_AT_ONCE);
        }
        let pieces = match known {
            Some(pieces) => pieces,
            None => {
                let (logs, is_over) = (self.datacenter.store.logs(&self.uid), self.is_over);
                let (back, pieces) = blocking(move || {
                    let pieces = reader.next(&logs, is_over, BYTES_AT_ONCE)?;
                    Ok((reader, pieces))
                })
                .await?;
                reader = back;
                self.read = pieces.is_empty().then(Instant::now);
                pieces
            }
        };
        if !pieces.is_empty() {
            self.news.report(reader.places());
        }
        self.reader = Some(reader);
        Ok(pieces)
    }
}

impl Lines for Follower {
    async fn next(&mut self) -> Result<Option<Vec<Bytes>>> {
        let deadline = Instant::now() + HEARTBEAT;
        loop {
            // Before anything is read: what is written after this is told again.
            let news = Arc::clone(&self.news.news);
            let notified = news.changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            let interval = if news.is_written_here() { LOOK_RARELY } else { LOOK };
            let was_over = self.is_over;
            let pieces = self.read(interval).await?;
            if !pieces.is_empty() {
                return pieces.iter().map(line).collect::<Result<_>>().map(Some);
            }
            if was_over {
                return Ok(None);
            }
            if news.has_ended() || self.looked.is_none_or(|looked| looked.elapsed() >= interval) {
                self.looked = Some(Instant::now());
                let row = service::get(&self.cloud, &self.uid).await?;
                // Its end is written after its logs are complete.
                self.is_over = row.is_none_or(|row| row.state.is_final());
                if self.is_over {
                    continue;
                }
            }
            if Instant::now() >= deadline {
                return Ok(Some(Vec::new()));
            }
            tokio::select! {
                () = &mut notified => {}
                () = tokio::time::sleep(interval.min(deadline - Instant::now())) => {}
            }
        }
    }
}
