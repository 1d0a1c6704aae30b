//! The optimizer on the parameter servers.
//!
//! Trainer 0 brings the values that were set or trained before; all others the servers make
//! themselves, by the function that [`Values`] has too. A step pushes its gradients and pulls dense
//! values in one round trip, and in the same one the rows of the next batch, where that is known;
//! else they are pulled when it comes. Static parameters stay here.

use super::{Resume, Rows, Updater, Wanted, read};
use crate::recipe::{Own, Recipe};
use crate::servers::Servers;
use crate::values::{DescriptionIndex, Values, View};
use contract::Result;
use contract::port::Endpoint;
use pserver::client::{
    Addresses, Blocking, ClientConfig, Interrupt, Pull, Restored, fresh_incarnation,
};
use std::sync::Arc;
use table::gradient::Gradient;
use table::model::{Model, ModelIndex, Parameter};
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
    /// The dense parameters that are trained, with memory for their next values.
    dense: Vec<Copied>,
    is_resting: bool,
}

/// A dense parameter on the servers, which is copied after every step.
struct Copied {
    here: DescriptionIndex,
    there: ModelIndex,
    spare: Vec<f32>,
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
        let servers = Arc::new(Servers::new(client, trained));
        let copied = |&here: &DescriptionIndex| {
            let there = servers.index(here).filter(|_| !values.description(here).is_sparse)?;
            Some(Copied { here, there, spare: Vec::new() })
        };
        let dense = trained.iter().filter_map(copied).collect();
        let mut remote = Remote { values, servers, dense, is_resting: false };
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
        remote.renew()?;
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
        self.renew()?;
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

    /// Copies the dense parameters from the servers.
    fn renew(&mut self) -> Result<()> {
        self.exchange(None, &mut Vec::new(), &[])
    }

    /// Pushes a step, if there is one, and copies the dense parameters, and the `rows` of what is
    /// wanted, from the servers: all in one round trip.
    fn exchange(
        &mut self,
        step: Option<(&[Gradient<'_>], u64)>,
        rows: &mut Rows,
        wanted: &[Wanted<'_>],
    ) -> Result<()> {
        let mut pulls = Vec::with_capacity(self.dense.len() + rows.len());
        for Copied { here, there, spare } in &mut self.dense {
            spare.resize(self.values.elements(*here)? as usize, 0.0);
            pulls.push(Pull::Dense { parameter: *there, out: spare });
        }
        self.servers.add_rows(wanted, rows, &mut pulls);
        let client = self.servers.client();
        match step {
            Some((gradients, samples)) => {
                client.push_pull(gradients, samples, &mut pulls).map(|_| ())?;
            }
            None => client.pull(&mut pulls)?,
        }
        for Copied { here, spare, .. } in &mut self.dense {
            *spare = self.values.renew(*here, std::mem::take(spare));
        }
        Ok(())
    }

    /// Memory for the rows of what is wanted.
    fn room(&self, wanted: &[Wanted<'_>]) -> Rows {
        let room = |wanted: &Wanted<'_>| {
            let keys = wanted.keys.filter(|_| self.servers.index(wanted.parameter).is_some())?;
            Some(vec![0.0; keys.len() * self.values.description(wanted.parameter).width()])
        };
        wanted.iter().map(room).collect()
    }
}

impl Updater for Remote {
    fn fetch(&mut self, wanted: &[Wanted<'_>], rows: Option<Rows>) -> Result<Vec<Arc<Vec<f32>>>> {
        let is_late = self.wake()?;
        let rows = match rows {
            Some(rows) if !is_late => rows,
            _ => {
                let mut rows = self.room(wanted);
                let mut pulls = Vec::new();
                self.servers.add_rows(wanted, &mut rows, &mut pulls);
                if !pulls.is_empty() {
                    self.client().pull(&mut pulls)?;
                }
                rows
            }
        };
        let fetched = wanted.iter().zip(rows).map(|(wanted, rows)| match rows {
            Some(rows) => Ok(Arc::new(rows)),
            None => read(&self.values, wanted),
        });
        fetched.collect()
    }

    fn update(
        &mut self,
        gradients: &[Gradient<'_, DescriptionIndex>],
        samples: u64,
        next: Option<&[Wanted<'_>]>,
    ) -> Result<Option<Rows>> {
        self.wake()?;
        let there =
            |gradient: &Gradient<'_, DescriptionIndex>| self.servers.index(*gradient.parameter());
        let gradients: Vec<Gradient<'_>> = gradients
            .iter()
            .filter_map(|gradient| Some(gradient.with_parameter(there(gradient)?)))
            .collect();
        let mut rows = self.room(next.unwrap_or_default());
        self.exchange(Some((&gradients[..], samples)), &mut rows, next.unwrap_or_default())?;
        Ok(next.map(|_| rows))
    }

    fn start_pass(&mut self) -> Result<()> {
        Ok(())
    }

    fn finish_pass(&mut self) -> Result<()> {
        self.client().finish_pass()?;
        self.is_resting = false;
        // The others may have had more batches.
        self.renew()
    }

    fn rest(&mut self) -> Result<()> {
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
        self.client().goodbye()
    }

    fn rank(&self) -> (u32, u32) {
        let config = self.client().client().config();
        (config.rank, config.trainers)
    }
}
