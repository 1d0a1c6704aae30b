//! Who decides: of several servers on one database, one at a time runs the jobs of a datacenter.
//!
//! A row says who it is and counts up while it lives. Another server takes over when the count has
//! stood still for long enough by its own clock, so clocks need not agree. A holder that could not
//! count up for a while stops by itself, earlier than anybody takes over; and every change that it
//! makes checks the row in the same transaction, so that one who was suspended meanwhile changes
//! nothing.

use crate::Cloud;
use crate::database::{Write, failed, number, signed, text};
use contract::{Error, Kind, Result};
use std::time::{Duration, Instant};

/// How often the holder counts up.
pub(crate) const BEAT: Duration = Duration::from_secs(2);
/// The holder stops deciding when it could not count up for this long.
const HOLD: Duration = Duration::from_secs(6);
/// Another one takes over when the count has stood still for this long.
const STALE: Duration = Duration::from_secs(10);

/// A server's view of a lease.
#[derive(Debug)]
pub(crate) struct Lease {
    name: String,
    /// Who held it, at which count, and since when that is so.
    seen: Option<(String, u64, Instant)>,
    /// Until when we hold it.
    held_until: Option<Instant>,
    beaten: Option<Instant>,
}

impl Lease {
    /// The lease of a datacenter.
    pub(crate) fn new(datacenter: &str) -> Self {
        Lease { name: datacenter.to_owned(), seen: None, held_until: None, beaten: None }
    }

    /// Whether we hold it now. Counts up, or takes it over, when it is time to.
    pub(crate) async fn hold(&mut self, cloud: &Cloud) -> bool {
        let is_due = self.beaten.is_none_or(|beaten| beaten.elapsed() >= BEAT);
        if is_due {
            match self.beat(cloud).await {
                Ok(is_ours) => {
                    let now = Instant::now();
                    self.beaten = Some(now);
                    self.held_until = is_ours.then(|| now + HOLD);
                }
                Err(error) => {
                    tracing::warn!(error = error.chain(), lease = self.name, "cannot renew");
                }
            }
        }
        self.held_until.is_some_and(|until| Instant::now() < until)
    }

    async fn beat(&mut self, cloud: &Cloud) -> Result<bool> {
        let mut write = cloud.database.write().await?;
        let current = read(&mut write, &self.name).await?;
        let is_ours = match &current {
            None => true,
            Some((holder, _)) if *holder == cloud.identity => true,
            // With a data directory of its own a server is alone: the holder is an earlier life.
            Some(_) if cloud.is_alone => true,
            Some((holder, beat)) => match &self.seen {
                Some((seen, count, since)) if seen == holder && count == beat => {
                    since.elapsed() >= STALE
                }
                _ => {
                    self.seen = Some((holder.clone(), *beat, Instant::now()));
                    false
                }
            },
        };
        if is_ours {
            let beat = current.map_or(0, |(_, beat)| beat) + 1;
            let sql = "INSERT INTO leases (name, holder, beat) VALUES ($1, $2, $3) \
                       ON CONFLICT (name) DO UPDATE SET holder = $2, beat = $3";
            sqlx::query(sql)
                .bind(&self.name)
                .bind(&cloud.identity)
                .bind(signed(beat))
                .execute(write.connection())
                .await
                .map_err(failed)?;
            write.commit().await?;
        }
        Ok(is_ours)
    }

    /// Lets the next one take over at once.
    pub(crate) async fn release(&mut self, cloud: &Cloud) -> Result<()> {
        self.held_until = None;
        let mut write = cloud.database.write().await?;
        sqlx::query("DELETE FROM leases WHERE name = $1 AND holder = $2")
            .bind(&self.name)
            .bind(&cloud.identity)
            .execute(write.connection())
            .await
            .map_err(failed)?;
        write.commit().await
    }
}

async fn read(write: &mut Write<'_>, name: &str) -> Result<Option<(String, u64)>> {
    let row = sqlx::query("SELECT holder, beat FROM leases WHERE name = $1")
        .bind(name)
        .fetch_optional(write.connection())
        .await
        .map_err(failed)?;
    row.as_ref().map(|row| Ok((text(row, "holder")?, number(row, "beat")?))).transpose()
}

/// Begins to change jobs of a datacenter.
///
/// # Errors
/// [`Kind::Interrupted`] if somebody else decides about them now.
pub(crate) async fn write<'a>(cloud: &'a Cloud, datacenter: &str) -> Result<Write<'a>> {
    let mut write = cloud.database.write().await?;
    match read(&mut write, datacenter).await? {
        Some((holder, _)) if holder == cloud.identity => Ok(write),
        _ => Err(Error::new(Kind::Interrupted, "another server decides about these jobs now")),
    }
}
