//! Which of the model's parameters are those of a network: by name, once, before anything runs.

use crate::description::Description;
use crate::parameters::{Parameters, View};
use crate::updater::{Wanted, read};
use contract::{Error, Kind, Result};
use engine::{Network, Prepared};
use std::sync::Arc;

/// Places of a network's parameters in [`Parameters::descriptions`], by their place in the network.
pub(crate) struct Matching {
    places: Vec<usize>,
    is_trained: Vec<bool>,
}

impl Matching {
    /// Finds the network's parameters.
    ///
    /// # Errors
    /// If one is missing or has another size.
    pub(crate) fn new(network: &Network, parameters: &Parameters) -> Result<Matching> {
        let mut matching = Matching { places: Vec::new(), is_trained: Vec::new() };
        for needed in network.parameters() {
            let place = parameters.index(&needed.name).map_err(|_| {
                Error::new(
                    Kind::NotFound,
                    "the network needs a parameter that the model does not have; create the \
                     parameters from this network, or load a model that has it",
                )
                .with("parameter", &needed.name)
            })?;
            let description = &parameters.descriptions()[place];
            if description.dims != needed.dims {
                let [rows, columns] = description.dims;
                return Err(Error::invalid(format!(
                    "the parameter is {rows} x {columns} in the model but {} x {} in the network",
                    needed.dims[0], needed.dims[1]
                ))
                .with("parameter", &needed.name));
            }
            matching.places.push(place);
            matching.is_trained.push(!needed.is_static && !description.is_static);
        }
        Ok(matching)
    }

    /// As [`Matching::new`], for training: sparse must mean sparse in both.
    pub(crate) fn for_training(network: &Network, parameters: &Parameters) -> Result<Matching> {
        let matching = Matching::new(network, parameters)?;
        for (needed, &place) in network.parameters().iter().zip(&matching.places) {
            let Description { name, is_sparse, .. } = &parameters.descriptions()[place];
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

    /// The parameter of the model at a place of the network.
    pub(crate) fn place(&self, in_network: usize) -> usize {
        self.places[in_network]
    }

    /// The parameters that training changes, in the order of the network.
    pub(crate) fn trained(&self) -> Vec<usize> {
        let both = self.places.iter().zip(&self.is_trained);
        both.filter(|(_, is_trained)| **is_trained).map(|(place, _)| *place).collect()
    }

    /// What a batch needs, by place in the network.
    pub(crate) fn wanted<'a>(&self, prepared: &'a Prepared) -> Vec<Wanted<'a>> {
        let all = self.places.iter().enumerate();
        all.map(|(at, &place)| Wanted { place, keys: prepared.keys(at) }).collect()
    }

    /// The values that no batch changes, by place in the network; `None` for those that are looked
    /// up by key.
    pub(crate) fn dense(
        &self,
        network: &Network,
        parameters: &Parameters,
        view: View,
    ) -> Result<Vec<Option<Arc<Vec<f32>>>>> {
        let all = network.parameters().iter().zip(&self.places);
        let dense = all.map(|(needed, &place)| match needed.is_sparse {
            true => Ok(None),
            false => read(parameters, &Wanted { place, keys: None }, view).map(Some),
        });
        dense.collect()
    }

    /// The values for a batch that is only looked at, by place in the network.
    pub(crate) fn values(
        &self,
        parameters: &Parameters,
        prepared: &Prepared,
        dense: &[Option<Arc<Vec<f32>>>],
        view: View,
    ) -> Result<Vec<Arc<Vec<f32>>>> {
        let wanted = self.wanted(prepared);
        let all = wanted.iter().zip(dense).map(|(wanted, dense)| match dense {
            Some(dense) => Ok(Arc::clone(dense)),
            None => read(parameters, wanted, view),
        });
        all.collect()
    }
}
