//! The optimizer on the parameter servers.
//!
//! Trainer 0 brings the values that were set or trained before; all others the servers make
//! themselves, by the function that [`Parameters`] has too. A step pulls the rows of its batch,
//! then pushes gradients and pulls dense values in one go. Static parameters stay here.

use super::{Given, Updater, Wanted, read};
use crate::parameters::{Parameters, View};
use crate::recipe::{Own, Recipe};
use contract::Result;
use contract::port::Endpoint;
use pserver::client::{
    Addresses, Blocking, ClientConfig, Gradient, Interrupt, Pull, Restored, Value,
    fresh_incarnation,
};
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
    parameters: Arc<Parameters>,
    client: Arc<Blocking>,
    /// By place in the servers' model: the place in [`Parameters::descriptions`].
    trained: Vec<usize>,
    /// By place in [`Parameters::descriptions`]: the place in the servers' model.
    remote_places: Vec<Option<usize>>,
    /// By place in the servers' model: memory for the next dense values.
    spare: Vec<Vec<f32>>,
    is_resting: bool,
}

struct Servers(Box<dyn Addresses>);

impl Addresses for Servers {
    fn addresses(&self) -> Vec<Endpoint> {
        self.0.addresses()
    }
}

impl Remote {
    /// Joins the servers with the parameters at `trained`, brings or fetches their values.
    ///
    /// # Errors
    /// As [`Blocking::connect`].
    pub fn new(
        parameters: Arc<Parameters>,
        recipe: &Recipe,
        trained: &[usize],
        config: RemoteConfig,
    ) -> Result<Remote> {
        let descriptions = parameters.descriptions();
        let describe = |&place: &usize| {
            let Own { settings, mode } = recipe.own(&descriptions[place]);
            Parameter { settings, mode, ..(&descriptions[place]).into() }
        };
        let described = trained.iter().map(describe).collect();
        let optimizer = recipe.optimizer.clone();
        let model = Model { seed: parameters.seed(), optimizer, parameters: described };
        let client_config = ClientConfig { model, ..config.client };
        let client = Blocking::connect(client_config, Servers(config.addresses), config.interrupt)?;
        let client = Arc::new(client);
        let mut remote_places = vec![None; descriptions.len()];
        for (at, &place) in trained.iter().enumerate() {
            remote_places[place] = Some(at);
        }
        let mut remote = Remote {
            client,
            trained: trained.to_vec(),
            remote_places,
            spare: vec![Vec::new(); trained.len()],
            is_resting: false,
            parameters,
        };
        if remote.rank().0 == 0 {
            if remote.client.start().needs_values {
                remote.bring()?;
            }
            remote.client.begin()?;
        }
        for (at, &place) in trained.iter().enumerate() {
            remote.parameters.attach(place, &remote.client, at);
        }
        remote.renew(&[], None)?;
        Ok(remote)
    }

    /// The connection, for what is not part of a step: checkpoints, statistics.
    pub fn client(&self) -> &Blocking {
        &self.client
    }

    /// Ends a rest; the values are then those of now.
    fn wake(&mut self) -> Result<()> {
        if !self.is_resting {
            return Ok(());
        }
        self.client.wake()?;
        self.is_resting = false;
        self.renew(&[], None)
    }

    /// Sends the values that differ from the first ones.
    fn bring(&self) -> Result<()> {
        for (parameter, &place) in self.trained.iter().enumerate() {
            if self.parameters.descriptions()[place].is_sparse {
                self.parameters.scan_local(place, &mut |keys, values| {
                    self.client.set(&[Value::Sparse { parameter, keys, values }])
                })?;
            } else if let Some(values) = self.parameters.changed(place) {
                self.client.set(&[Value::Dense { parameter, values: &values }])?;
            }
        }
        Ok(())
    }

    /// Pushes a step, if there is one, and copies the dense parameters from the servers.
    fn renew(&mut self, gradients: &[Gradient<'_>], samples: Option<u64>) -> Result<()> {
        let mut pulls = Vec::new();
        for ((parameter, out), &place) in self.spare.iter_mut().enumerate().zip(&self.trained) {
            let description = &self.parameters.descriptions()[place];
            if let (false, Some(elements)) = (description.is_sparse, description.elements()) {
                out.resize(elements as usize, 0.0);
                pulls.push(Pull::Dense { parameter, out });
            }
        }
        match samples {
            Some(samples) => self.client.push_pull(gradients, samples, &mut pulls).map(|_| ())?,
            None => self.client.pull(&mut pulls)?,
        }
        for (spare, &place) in self.spare.iter_mut().zip(&self.trained) {
            if !self.parameters.descriptions()[place].is_sparse {
                *spare = self.parameters.renew(place, std::mem::take(spare));
            }
        }
        Ok(())
    }
}

impl Updater for Remote {
    fn fetch(&mut self, wanted: &[Wanted<'_>]) -> Result<Vec<Arc<Vec<f32>>>> {
        self.wake()?;
        let descriptions = self.parameters.descriptions();
        let mut rows: Vec<Option<Vec<f32>>> = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let keys = wanted.keys.filter(|_| self.remote_places[wanted.place].is_some());
            let width = descriptions[wanted.place].width();
            rows.push(keys.map(|keys| vec![0.0; keys.len() * width]));
        }
        let mut pulls = Vec::new();
        for (wanted, rows) in wanted.iter().zip(&mut rows) {
            let at = self.remote_places[wanted.place];
            if let (Some(parameter), Some(keys), Some(out)) = (at, wanted.keys, rows) {
                pulls.push(Pull::Sparse { parameter, keys, out });
            }
        }
        if !pulls.is_empty() {
            self.client.pull(&mut pulls)?;
        }
        let fetched = wanted.iter().zip(rows).map(|(wanted, rows)| match rows {
            Some(rows) => Ok(Arc::new(rows)),
            None => read(&self.parameters, wanted, View::Present),
        });
        fetched.collect()
    }

    fn update(&mut self, gradients: &[Given<'_>], samples: u64) -> Result<()> {
        self.wake()?;
        let gradients: Vec<Gradient<'_>> = gradients
            .iter()
            .filter_map(|given| {
                let (parameter, values) = (self.remote_places[given.place]?, given.values);
                Some(match given.keys {
                    Some(keys) => Gradient::Sparse { parameter, keys, values },
                    None => Gradient::Dense { parameter, values },
                })
            })
            .collect();
        self.renew(&gradients, Some(samples))
    }

    fn start_pass(&mut self) -> Result<()> {
        Ok(())
    }

    fn finish_pass(&mut self) -> Result<()> {
        self.client.finish_pass()?;
        self.is_resting = false;
        // The others may have had more batches.
        self.renew(&[], None)
    }

    fn rest(&mut self) -> Result<()> {
        if !self.is_resting {
            self.client.rest()?;
            self.is_resting = true;
        }
        Ok(())
    }

    fn next_cut(&self) -> Option<u64> {
        Some(self.client.position().cut + 1)
    }

    fn restored(&self) -> Vec<Restored> {
        self.client.restored()
    }

    fn goodbye(&mut self) -> Result<()> {
        self.client.goodbye()?;
        for &place in &self.trained {
            self.parameters.detach(place);
        }
        Ok(())
    }

    fn rank(&self) -> (u32, u32) {
        let config = self.client.client().config();
        (config.rank, config.trainers)
    }
}
