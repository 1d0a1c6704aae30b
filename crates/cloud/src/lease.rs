//! Who decides: of several servers on one database, one at a time runs the jobs of a datacenter.
//!
//! A row says who it is and counts up while it lives. Another server takes over when the count has
//! stood still for long enough by its own clock, so clocks need not agree. A holder that could not
//! count up for a while stops by itself, earlier than anybody takes over; and every change that it
//! makes checks the row in the same transaction, so that one who was suspended meanwhile changes
//! nothing.
//!
//! Jobs of some backends have processes on the machine of the server that started them. While there
//! are such jobs, a server on another machine leaves the lease alone, also when nobody counts: it
//! cannot tell whether they run, and would run them twice. So the row also says which machine it is.

use crate::Cloud;
use crate::database::{Write, failed, number, signed, text};
use crate::datacenters::Datacenter;
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
    /// Whether jobs belong to the machine of the server that started them.
    is_of_machine: bool,
    /// The name of the machine that has them, if no server lives there.
    stranded: Option<String>,
    /// Who held it, at which count, and since when that is so.
    seen: Option<(String, u64, Instant)>,
    /// Until when we hold it.
    held_until: Option<Instant>,
    beaten: Option<Instant>,
}

impl Lease {
    /// The lease of a datacenter.
    pub(crate) fn new(datacenter: &Datacenter) -> Self {
        Lease {
            name: datacenter.name.clone(),
            is_of_machine: datacenter.config.backend.has_processes_here(),
            stranded: None,
            seen: None,
            held_until: None,
            beaten: None,
        }
    }

    /// The name of the machine that has processes of its jobs, if no server lives there.
    pub(crate) fn stranded(&self) -> Option<&str> {
        self.stranded.as_deref()
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
        let is_free = match &current {
            None => true,
            Some(row) if row.holder == cloud.identity || row.holder.is_empty() => true,
            // With a data directory of its own a server is alone: the holder is an earlier life.
            Some(_) if cloud.is_alone => true,
            Some(Row { holder, beat, .. }) => match &self.seen {
                Some((seen, count, since)) if seen == holder && count == beat => {
                    since.elapsed() >= STALE
                }
                _ => {
                    self.seen = Some((holder.clone(), *beat, Instant::now()));
                    false
                }
            },
        };
        let machine = &cloud.outside.machine;
        let elsewhere = current.as_ref().filter(|row| {
            let is_elsewhere = !row.machine.is_empty() && row.machine != *machine;
            is_free && is_elsewhere && self.is_of_machine && !cloud.is_alone
        });
        self.stranded = match elsewhere {
            Some(row) if has_started(&mut write, &self.name).await? => Some(row.host.clone()),
            _ => None,
        };
        let is_ours = is_free && self.stranded.is_none();
        if is_ours {
            let beat = current.map_or(0, |row| row.beat) + 1;
            let sql = "INSERT INTO leases (name, holder, beat, machine, host) \
                       VALUES ($1, $2, $3, $4, $5) ON CONFLICT (name) \
                       DO UPDATE SET holder = $2, beat = $3, machine = $4, host = $5";
            sqlx::query(sql)
                .bind(&self.name)
                .bind(&cloud.identity)
                .bind(signed(beat))
                .bind(machine)
                .bind(&cloud.outside.host)
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
        // Jobs go on, where they are.
        sqlx::query("UPDATE leases SET holder = '' WHERE name = $1 AND holder = $2")
            .bind(&self.name)
            .bind(&cloud.identity)
            .execute(write.connection())
            .await
            .map_err(failed)?;
        write.commit().await
    }
}

/// What the database says of a lease.
struct Row {
    /// Empty when it was let go.
    holder: String,
    beat: u64,
    /// Empty if an earlier release held it.
    machine: String,
    host: String,
}

/// Whether jobs of a datacenter were started and are not done.
async fn has_started(write: &mut Write<'_>, datacenter: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM jobs WHERE datacenter = $1 AND is_forgotten = 0 \
               AND stage <> 'queued' LIMIT 1";
    let row = sqlx::query(sql).bind(datacenter).fetch_optional(write.connection()).await;
    Ok(row.map_err(failed)?.is_some())
}

async fn read(write: &mut Write<'_>, name: &str) -> Result<Option<Row>> {
    let row = sqlx::query("SELECT holder, beat, machine, host FROM leases WHERE name = $1")
        .bind(name)
        .fetch_optional(write.connection())
        .await
        .map_err(failed)?;
    let lease = |row| {
        Ok(Row {
            holder: text(row, "holder")?,
            beat: number(row, "beat")?,
            machine: text(row, "machine")?,
            host: text(row, "host")?,
        })
    };
    row.as_ref().map(lease).transpose()
}

/// Begins to change jobs of a datacenter.
///
/// # Errors
/// [`Kind::Interrupted`] if somebody else decides about them now.
pub(crate) async fn write<'a>(cloud: &'a Cloud, datacenter: &str) -> Result<Write<'a>> {
    let mut write = cloud.database.write().await?;
    match read(&mut write, datacenter).await? {
        Some(row) if row.holder == cloud.identity => Ok(write),
        _ => Err(Error::new(Kind::Interrupted, "another server decides about these jobs now")),
    }
}
