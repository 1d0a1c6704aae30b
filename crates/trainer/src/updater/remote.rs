//! The optimizer on the parameter servers.
//!
//! Trainer 0 brings the values that were set or trained before; all others the servers make
//! themselves, by the function that [`Values`] has too. A step pushes its gradients and pulls dense
//! values in one round trip, and in the same one the rows of the next batch, where that is known;
//! else they are pulled when it comes. Static parameters stay here.
//!
//! Where rows do not wait for other trainers (async, bounded staleness, hybrid), their part of a
//! round trip goes on beside the next step, and what it brings is for the step after that:
//!
//! ```text
//! computing   n            n+1            n+2
//! dense         push, pull     push, pull
//! rows          push n ──────▶ push n+1 ──────▶
//!               pull n+2 ────▶ pull n+3 ──────▶
//! ```
//!
//! So a step is computed from rows that lack the last gradients of its own trainer, and needs to
//! know two batches ahead. If fewer are known, because a reader is slower than the training, a step
//! waits for its rows. Dense values are always waited for: every step of a trainer changes all of
//! them, and computing from values without its own last step costs far more than it gains (click
//! models, Adam: 0.04 of the AUC of a first pass, where late rows cost 0.001; docs/pserver.md).
//!
//! At most one step is under way, so that what servers have of a trainer that dies is a sequence of
//! whole batches and at most one that is on some shards only.

use super::{Resume, Rows, Updater, read};
use crate::ready::{Computed, Ready};
use crate::recipe::{Own, Recipe};
use crate::servers::Servers;
use crate::values::{DescriptionIndex, Values, View};
use contract::Result;
use contract::port::Endpoint;
use pserver::client::{Addresses, Blocking, ClientConfig, Interrupt, Restored, fresh_incarnation};
use std::sync::Arc;
use table::model::{Model, Parameter};
use table::optimizer::{Momentum, Optimizer, Rule};

/// How to reach the servers, and as whom.
pub struct RemoteConfig {
    /// Rank, number of trainers, ports, token, TLS, timeouts. Its model is replaced by the one
    /// that is trained.
    pub client: ClientConfig,
    /// Where the servers are.
    pub addresses: Box<dyn Addresses>,
    /// Asked while a call waits; an error ends the call.
    pub interrupt: Option<Interrupt>,
}

impl RemoteConfig {
    /// Defaults for one of `trainers` trainers, with servers that stay where they are.
    pub fn new(rank: u32, trainers: u32, addresses: Vec<Endpoint>) -> Self {
        let optimizer = Optimizer::new(Rule::Momentum(Momentum::default()), 0.0);
        let nothing = Model { seed: 0, optimizer, parameters: Vec::new() };
        let mut client = ClientConfig::new(rank, trainers, fresh_incarnation(), nothing);
        // The keys of a batch come from the engine, each once.
        client.keys_are_unique = true;
        RemoteConfig { client, addresses: Box::new(addresses), interrupt: None }
    }
}

/// Trains some of the parameters on the servers.
pub struct Remote {
    values: Arc<Values>,
    servers: Arc<Servers>,
    /// The next step may be computed while the rows of one are on their way.
    can_overlap: bool,
    is_resting: bool,
}

struct AnyAddresses(Box<dyn Addresses>);

impl Addresses for AnyAddresses {
    fn addresses(&self) -> Vec<Endpoint> {
        self.0.addresses()
    }
}

impl Remote {
    /// Joins the servers with the `trained` parameters, brings or fetches their values.
    ///
    /// # Errors
    /// As [`Blocking::connect`].
    pub fn new(
        values: Arc<Values>,
        recipe: &Recipe,
        trained: &[DescriptionIndex],
        config: RemoteConfig,
    ) -> Result<Remote> {
        let describe = |&index: &DescriptionIndex| {
            let description = values.description(index);
            let Own { settings, mode } = recipe.own(description);
            Parameter { settings, mode, ..description.into() }
        };
        let described = trained.iter().map(describe).collect();
        let optimizer = recipe.optimizer.clone();
        let model = Model { seed: values.seed(), optimizer, parameters: described };
        let client_config = ClientConfig { model, ..config.client };
        let addresses = AnyAddresses(config.addresses);
        let client = Blocking::connect(client_config, addresses, config.interrupt)?;
        let can_overlap = client.client().can_overlap();
        let servers = Arc::new(Servers::new(client, Arc::clone(&values), trained));
        let mut remote = Remote { values, servers, can_overlap, is_resting: false };
        let start = remote.client().start();
        if start.has_left {
            return Ok(remote);
        }
        remote.is_resting = start.is_resting;
        if remote.rank().0 == 0 {
            if start.needs_values {
                remote.bring()?;
            }
            remote.client().begin()?;
        }
        trained.iter().for_each(|index| remote.values.give_away(*index));
        remote.servers.renew()?;
        Ok(remote)
    }

    /// The servers, for what is not part of a step.
    pub(crate) fn servers(&self) -> &Arc<Servers> {
        &self.servers
    }

    fn client(&self) -> &Blocking {
        self.servers.client()
    }

    /// Ends a rest, if there is one; the dense values are then the current ones.
    fn wake(&mut self) -> Result<bool> {
        if !self.is_resting {
            return Ok(false);
        }
        self.client().wake()?;
        self.is_resting = false;
        self.servers.renew()?;
        Ok(true)
    }

    /// Sends the values that differ from the first ones. Rows that are on other servers are an
    /// error: they would be lost.
    fn bring(&self) -> Result<()> {
        for (here, there) in self.servers.parameters() {
            let description = self.values.description(here);
            if description.is_sparse {
                self.values.scan(here, View::Present, &mut |keys, values| {
                    self.servers.store_rows(there, keys, description.width(), values)
                })?;
            } else if let Some(values) = self.values.changed(here) {
                self.servers.store_dense(there, &values)?;
            }
        }
        Ok(())
    }

    /// The rows that have come for a batch, or else those that the servers have now.
    fn rows(&self, batch: &Ready) -> Result<Rows> {
        if let Some(rows) = batch.take_rows(self.servers.writes()) {
            return Ok(rows);
        }
        // They may be on their way.
        self.servers.settle()?;
        if let Some(rows) = batch.take_rows(self.servers.writes()) {
            return Ok(rows);
        }
        let wanted = batch.wanted();
        let mut rows = self.servers.room(&wanted);
        let mut pulls = Vec::new();
        self.servers.homes().add_rows(&wanted, &mut rows, &mut pulls);
        if !pulls.is_empty() {
            self.client().pull(&mut pulls)?;
        }
        Ok(rows)
    }
}

impl Updater for Remote {
    fn fetch(&mut self, batch: &Ready) -> Result<Vec<Arc<Vec<f32>>>> {
        if self.wake()? {
            // What has come is of the time before the rest.
            batch.take_rows(self.servers.writes());
        }
        self.servers.settle_dense()?;
        let rows = self.rows(batch)?;
        let wanted = batch.wanted();
        let fetched = wanted.iter().zip(rows).map(|(wanted, rows)| match rows {
            Some(rows) => {
                let rows = Arc::new(rows);
                self.servers.lend(&rows);
                Ok(rows)
            }
            None => read(&self.values, wanted),
        });
        fetched.collect()
    }

    fn update(&mut self, step: &Arc<Computed>, ahead: &[Arc<Ready>]) -> Result<()> {
        self.servers.settle()?;
        self.wake()?;
        let writes = self.servers.writes();
        let lacks_rows = |batch: &&Arc<Ready>| !batch.has_rows(writes);
        let lacking = ahead.iter().take(self.lookahead()).filter(lacks_rows).cloned().collect();
        if !self.can_overlap {
            return self.servers.step(step, lacking);
        }
        // One that lacks rows is computed when this step has brought them.
        let is_next_begun = ahead.first().is_some_and(|next| next.has_rows(writes));
        self.servers.begin_step(step, lacking, is_next_begun)
    }

    fn lookahead(&self) -> usize {
        if self.can_overlap { 2 } else { 1 }
    }

    fn settle(&mut self) -> Result<()> {
        self.servers.settle()
    }

    fn under_way(&self) -> u64 {
        u64::from(self.servers.is_stepping())
    }

    fn start_pass(&mut self) -> Result<()> {
        Ok(())
    }

    fn finish_pass(&mut self) -> Result<()> {
        self.servers.settle()?;
        self.client().finish_pass()?;
        self.is_resting = false;
        // The others may have had more batches.
        self.servers.renew()
    }

    fn rest(&mut self) -> Result<()> {
        self.servers.settle()?;
        if !self.is_resting {
            self.client().rest()?;
            self.is_resting = true;
        }
        Ok(())
    }

    fn next_cut(&self) -> Option<u64> {
        Some(self.client().position().cut + 1)
    }

    fn restored(&self) -> Option<Restored> {
        Some(self.client().restored())
    }

    fn resume(&self) -> Resume {
        let start = self.client().start();
        Resume {
            is_resumed: start.version > 0,
            pass: start.pass,
            batches: start.batches,
            has_left: start.has_left,
            is_elastic: start.is_elastic,
        }
    }

    fn goodbye(&mut self) -> Result<()> {
        self.servers.settle()?;
        self.client().goodbye()
    }

    fn rank(&self) -> (u32, u32) {
        let config = self.client().client().config();
        (config.rank, config.trainers)
    }
}
