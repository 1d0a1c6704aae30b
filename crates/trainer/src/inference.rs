//! Answers of a network, without training.

use crate::matching::Matching;
use crate::parameters::Parameters;
use crate::values::View;
use contract::Result;
use engine::Network;
use engine::batch::{Batch, Output};
use std::sync::Arc;

/// A network with values, to be asked.
pub struct Inference {
    network: Arc<Network>,
    parameters: Arc<Parameters>,
    matching: Matching,
    view: View,
}

impl Inference {
    /// Joins a network with the values it needs, which may be those of a larger model.
    ///
    /// # Errors
    /// If a parameter is missing or has another size.
    pub fn new(network: Arc<Network>, parameters: Arc<Parameters>, view: View) -> Result<Self> {
        let matching = Matching::new(&network, &parameters)?;
        Ok(Inference { network, parameters, matching, view })
    }

    /// The network.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// The outputs of the network for a batch, in the order in which the network names them.
    pub fn run(&self, batch: Batch) -> Result<Vec<Output>> {
        let prepared = self.network.prepare(batch)?;
        let dense = self.matching.fetch_dense(&self.network, &self.parameters, self.view)?;
        let values = self.matching.fetch(&self.parameters, &prepared, &dense, self.view)?;
        let values: Vec<&[f32]> = values.iter().map(|values| values.as_slice()).collect();
        let seen = self.network.test(&prepared, &values)?;
        let outputs = &self.network.topology().outputs;
        outputs.iter().map(|layer| self.network.output(&seen, layer)).collect()
    }
}
