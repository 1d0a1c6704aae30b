//! Which of the model's parameters are those of a network: by name, once, before anything runs.

use crate::description::Description;
use crate::parameters::Parameters;
use crate::updater::Wanted;
use crate::values::{DescriptionIndex, View};
use contract::{Error, Kind, Result};
use engine::{Network, NetworkIndex, Prepared};
use std::sync::Arc;

/// The model's parameters that a network needs.
pub(crate) struct Matching {
    /// By index in the network.
    indices: Vec<DescriptionIndex>,
    is_trained: Vec<bool>,
}

impl Matching {
    /// Finds the network's parameters.
    ///
    /// # Errors
    /// If one is missing or has another size.
    pub(crate) fn new(network: &Network, parameters: &Parameters) -> Result<Matching> {
        let mut matching = Matching { indices: Vec::new(), is_trained: Vec::new() };
        for needed in network.parameters() {
            let index = parameters.index(&needed.name).map_err(|_| {
                Error::new(
                    Kind::NotFound,
                    "the network needs a parameter that the model does not have; create the \
                     parameters from this network, or load a model that has it",
                )
                .with("parameter", &needed.name)
            })?;
            let description = parameters.description(index);
            if description.dims != needed.dims {
                let [rows, columns] = description.dims;
                return Err(Error::invalid(format!(
                    "the parameter is {rows} x {columns} in the model but {} x {} in the network",
                    needed.dims[0], needed.dims[1]
                ))
                .with("parameter", &needed.name));
            }
            matching.indices.push(index);
            matching.is_trained.push(!needed.is_static && !description.is_static);
        }
        Ok(matching)
    }

    /// As [`Matching::new`], for training: sparse must mean sparse in both.
    pub(crate) fn for_training(network: &Network, parameters: &Parameters) -> Result<Matching> {
        let matching = Matching::new(network, parameters)?;
        for (needed, &index) in network.parameters().iter().zip(&matching.indices) {
            let Description { name, is_sparse, .. } = parameters.description(index);
            if needed.is_sparse != *is_sparse {
                return Err(Error::invalid(
                    "the parameter is sparse in one of model and network but not in both; \
                     give sparse_update the same value in both",
                )
                .with("parameter", name)
                .with("model", is_sparse)
                .with("network", needed.is_sparse));
            }
        }
        Ok(matching)
    }

    /// The model's parameter for one of the network's.
    pub(crate) fn index(&self, in_network: NetworkIndex) -> DescriptionIndex {
        self.indices[in_network.0]
    }

    /// The parameters that training changes, in the order of the network.
    pub(crate) fn trained(&self) -> Vec<DescriptionIndex> {
        let both = self.indices.iter().zip(&self.is_trained);
        both.filter(|(_, is_trained)| **is_trained).map(|(index, _)| *index).collect()
    }

    /// What a batch needs, in the order of the network.
    pub(crate) fn wanted<'a>(&self, prepared: &'a Prepared) -> Vec<Wanted<'a>> {
        let all = self.indices.iter().enumerate();
        all.map(|(number, &parameter)| {
            let keys = prepared.keys(NetworkIndex(number));
            Wanted { parameter, keys }
        })
        .collect()
    }

    /// The values that no batch changes, in the order of the network; `None` for those that are
    /// looked up by key. Waits for servers, where they have what is viewed.
    pub(crate) fn fetch_dense(
        &self,
        network: &Network,
        parameters: &Parameters,
        view: View,
    ) -> Result<Vec<Option<Arc<Vec<f32>>>>> {
        let all = network.parameters().iter().zip(&self.indices);
        let dense = all.map(|(needed, &parameter)| match needed.is_sparse {
            true => Ok(None),
            false => parameters.fetch_wanted(&Wanted { parameter, keys: None }, view).map(Some),
        });
        dense.collect()
    }

    /// The values for a batch that is only looked at, in the order of the network.
    pub(crate) fn fetch(
        &self,
        parameters: &Parameters,
        prepared: &Prepared,
        dense: &[Option<Arc<Vec<f32>>>],
        view: View,
    ) -> Result<Vec<Arc<Vec<f32>>>> {
        let wanted = self.wanted(prepared);
        let all = wanted.iter().zip(dense).map(|(wanted, dense)| match dense {
            Some(dense) => Ok(Arc::clone(dense)),
            None => parameters.fetch_wanted(wanted, view),
        });
        all.collect()
    }
}
