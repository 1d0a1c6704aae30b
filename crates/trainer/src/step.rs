//! One step: fetch values, forward and backward, hand gradients to the updater; and what callers
//! may look at between the two halves.

use crate::ahead::{Announced, Fed, Preparer};
use crate::matching::Matching;
use crate::model_file::{self, Beside, WriteState};
use crate::parameters::Parameters;
use crate::ready::{Computed, Preparation, Ready};
use crate::recipe::Recipe;
use crate::servers::Servers;
use crate::updater::{Local, Remote, RemoteConfig, Resume, Updater};
use crate::values::View;
use contract::{Error, Result};
use engine::batch::{Batch, Output, Rows};
use engine::evaluator::Tally;
use engine::{Culprit, Network, NetworkIndex, Seen};
use pserver::client::Restored;
use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use table::gradient::{Gradient, are_finite};
use table::optimizer::Optimizer;

/// A network, its values, and who changes them.
pub struct Trainer {
    network: Arc<Network>,
    parameters: Arc<Parameters>,
    matching: Arc<Matching>,
    recipe: Recipe,
    updater: Box<dyn Updater>,
    /// Where the updater trains, unless it is in this process.
    servers: Option<Arc<Servers>>,
    position: Position,
    batch_tally: Tally,
    pass_tally: Tally,
    /// Since [`Trainer::start_period`] was called, if it was.
    period_tally: Option<Tally>,
    test_tally: Tally,
    last: Option<Last>,
    /// Makes batches ready that were announced; started with the first.
    preparer: Option<Preparer>,
    /// Batches that were announced and not computed yet.
    coming: VecDeque<Announced>,
    test_view: View,
    /// While a test is under way: its dense values, in the order of the network.
    tested: Option<Vec<Option<Arc<Vec<f32>>>>>,
}

/// Where a training is. What layers leave to chance follows from it, so that a process that goes on
/// for another one draws what that would have drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    /// Passes that are finished.
    pass: u64,
    /// Batches of the pass under way that were applied.
    batches: u64,
}

impl Position {
    /// As one number: passes above, batches below.
    fn number(self) -> u64 {
        self.pass << 32 | self.batches
    }

    fn of(number: u64) -> Self {
        Position { pass: number >> 32, batches: number & u64::from(u32::MAX) }
    }
}

/// What a batch gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Summed over samples and costs.
    pub cost: f64,
    /// Samples of the batch.
    pub samples: usize,
    /// The figures of the evaluators over this batch.
    pub metrics: Vec<(String, f64)>,
}

/// The batch that was computed last.
struct Last {
    computed: Arc<Computed>,
    seen: Seen,
    /// In the order of the network: new values of what is measured, not learnt.
    measured: Vec<Option<Vec<f32>>>,
    is_due: bool,
}

impl Trainer {
    /// Trains in this process.
    ///
    /// # Errors
    /// If network, parameters and optimizer do not fit together.
    pub fn local(
        network: Arc<Network>,
        parameters: Arc<Parameters>,
        recipe: impl Into<Recipe>,
    ) -> Result<Trainer> {
        let matching = Matching::for_training(&network, &parameters)?;
        let recipe = recipe.into();
        let values = Arc::clone(parameters.values());
        let trained = matching.trained();
        let updater = Local::new(values, recipe.clone(), &trained)?;
        parameters.keep_here(&trained);
        Trainer::new(network, parameters, (matching, recipe), Box::new(updater))
    }

    /// Trains through parameter servers, together with other trainers.
    ///
    /// # Errors
    /// As [`Trainer::local`], and if the servers cannot be joined.
    pub fn remote(
        network: Arc<Network>,
        parameters: Arc<Parameters>,
        recipe: impl Into<Recipe>,
        config: RemoteConfig,
    ) -> Result<Trainer> {
        let matching = Matching::for_training(&network, &parameters)?;
        let recipe = recipe.into();
        let values = Arc::clone(parameters.values());
        let updater = Remote::new(values, &recipe, &matching.trained(), config)?;
        let servers = Arc::clone(updater.servers());
        parameters.attach(&servers);
        let trainer = Trainer::new(network, parameters, (matching, recipe), Box::new(updater))?;
        Ok(Trainer { servers: Some(servers), ..trainer })
    }

    fn new(
        network: Arc<Network>,
        parameters: Arc<Parameters>,
        (matching, recipe): (Matching, Recipe),
        updater: Box<dyn Updater>,
    ) -> Result<Trainer> {
        let Resume { pass, batches, .. } = updater.resume();
        Ok(Trainer {
            batch_tally: network.tally()?,
            pass_tally: network.tally()?,
            period_tally: None,
            test_tally: network.tally()?,
            network,
            parameters,
            matching: Arc::new(matching),
            updater,
            servers: None,
            position: Position { pass, batches },
            last: None,
            preparer: None,
            coming: VecDeque::new(),
            test_view: view_of(&recipe.optimizer),
            recipe,
            tested: None,
        })
    }

    /// The network.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// The values.
    pub fn parameters(&self) -> &Arc<Parameters> {
        &self.parameters
    }

    /// Says which batch comes after those that were announced before, so that it is made ready, and
    /// its rows come, while others are computed and applied. What comes to nothing is told by
    /// [`Trainer::forward_backward`].
    pub fn announce(&mut self, batch: Batch) -> Result<Announced> {
        let preparer = match &self.preparer {
            Some(preparer) => preparer,
            None => self.preparer.insert(Preparer::start(self.preparation())?),
        };
        let batch = preparer.announce(batch);
        self.coming.push_back(batch.share());
        Ok(batch)
    }

    /// How many batches it pays to announce before they are computed.
    pub fn lookahead(&self) -> usize {
        self.updater.lookahead().max(1)
    }

    /// The batch as it is computed. Those that were announced before it will not come any more.
    fn make_ready(&mut self, batch: Fed) -> Result<Arc<Ready>> {
        match batch {
            Fed::Given(batch) => self.preparation().prepare(batch),
            Fed::Announced(announced) => {
                if let Some(place) = self.coming.iter().position(|one| one.is_same(&announced)) {
                    self.coming.drain(..=place);
                }
                announced.take(&self.preparation())
            }
        }
    }

    fn preparation(&self) -> Preparation {
        let (network, matching) = (Arc::clone(&self.network), Arc::clone(&self.matching));
        Preparation { network, matching }
    }

    /// Computes cost and gradients of a batch. Values change only in [`Trainer::update`].
    ///
    /// # Errors
    /// [`contract::Kind::Invalid`] if the batch does not fit the network, or if the cost or a
    /// gradient is not a number; the error then names where that came up first.
    pub fn forward_backward(&mut self, batch: impl Into<Fed>) -> Result<Step> {
        self.last = None;
        let ready = self.make_ready(batch.into())?;
        let prepared = ready.prepared();
        let values = self.updater.fetch(&ready)?;
        // Trainers of one job must not drop the same places out.
        let (rank, trainers) = self.updater.rank();
        let step = self.position.number().wrapping_mul(trainers.into()).wrapping_add(rank.into());
        let trained = self.network.train_shared(prepared, &values, step)?;
        if !trained.cost.is_finite() {
            let values: Vec<&[f32]> = values.iter().map(|values| values.as_slice()).collect();
            let culprit = self.network.find_culprit(prepared, &values, step)?;
            return Err(not_a_number(trained.cost, culprit));
        }
        self.check_gradients(&trained.gradients)?;
        self.batch_tally.clear();
        self.batch_tally.add(&trained.seen)?;
        self.pass_tally.add(&trained.seen)?;
        if let Some(period) = &mut self.period_tally {
            period.add(&trained.seen)?;
        }
        let (cost, samples) = (trained.cost, prepared.samples());
        let engine::Trained { gradients, measured, seen, .. } = trained;
        let computed = Arc::new(Computed::new(ready, gradients));
        self.last = Some(Last { computed, seen, measured, is_due: true });
        Ok(Step { cost, samples, metrics: self.batch_tally.read() })
    }

    /// Applies the gradients of the last batch, once, and takes over what it measured. Servers that
    /// do not train in step may have them a little later: see [`Trainer::under_way`].
    ///
    /// # Errors
    /// If there is no batch whose gradients were not applied yet, and as of the updater: that a batch
    /// before could not be applied may be told here.
    pub fn update(&mut self) -> Result<()> {
        let last = self.last.as_mut().filter(|last| last.is_due).ok_or_else(|| {
            Error::new(
                contract::Kind::Conflict,
                "there is no gradient to apply; call forward_backward before each update",
            )
        })?;
        last.is_due = false;
        let preparation = Preparation {
            network: Arc::clone(&self.network),
            matching: Arc::clone(&self.matching),
        };
        let known = self.coming.iter().take(self.updater.lookahead());
        let ahead: Vec<_> = known.map_while(|batch| batch.look(&preparation)).collect();
        let (updater, computed) = (&mut self.updater, &last.computed);
        match updater.keeps_state() {
            true => {
                let prepared = computed.ready().prepared();
                self.network.share(prepared, || updater.update(computed, &ahead))?;
            }
            false => updater.update(computed, &ahead)?,
        }
        self.position.batches += 1;
        let measured = self.network.parameters().iter().zip(&mut last.measured);
        for (parameter, values) in measured {
            if let Some(values) = values.take() {
                self.parameters.store(&parameter.name, &values)?;
            }
        }
        Ok(())
    }

    /// The parameters that this training measures, where others are learnt: their names, and the
    /// values that they have once the last batch is applied. Servers do not keep them.
    pub fn measured(&self) -> Result<Vec<(String, Vec<f32>)>> {
        let parameters = self.network.parameters().iter().enumerate();
        let measured = parameters.filter(|(place, _)| self.network.is_measured(*place));
        let values = measured.map(|(place, parameter)| {
            let newest = self.last.as_ref().and_then(|last| last.measured[place].clone());
            let values = match newest {
                Some(values) => values,
                None => self.parameters.fetch(&parameter.name, View::Present)?,
            };
            Ok((parameter.name.clone(), values))
        });
        values.collect()
    }

    /// The gradient of a parameter in the last batch; `None` if there is none.
    pub fn gradient(&self, name: &str) -> Option<Gradient<'_, NetworkIndex>> {
        let last = self.last.as_ref()?;
        let number = self.network.parameters().iter().position(|one| one.name == name)?;
        last.computed.gradient(NetworkIndex(number))
    }

    /// The output of a layer for the last batch. What the network was asked for is as it was
    /// computed; other layers are computed again, as in a test and with the values of now.
    pub fn look(&self, layer: &str) -> Result<Output> {
        let last = self.last.as_ref().ok_or_else(|| {
            Error::new(contract::Kind::Conflict, "there is no batch whose outputs could be seen")
        })?;
        if let Ok(output) = self.network.output(&last.seen, layer) {
            return Ok(output);
        }
        let wanted = last.computed.ready().wanted();
        let values =
            wanted.iter().map(|wanted| self.parameters.fetch_wanted(wanted, View::Present));
        let values = values.collect::<Result<Vec<_>>>()?;
        let values: Vec<&[f32]> = values.iter().map(|values| values.as_slice()).collect();
        self.network.look(last.computed.ready().prepared(), &values, layer)
    }

    /// The gradient of the output of a layer for the last batch, where an evaluator watches it.
    pub fn look_gradient(&self, layer: &str) -> Result<Output> {
        let last = self.last.as_ref().ok_or_else(|| {
            Error::new(contract::Kind::Conflict, "there is no batch whose gradients could be seen")
        })?;
        let output = self.network.output(&last.seen, layer)?;
        let rows = Rows::Dense(self.network.output_gradient(&last.seen, layer)?);
        Ok(Output { rows, ids: None, ..output })
    }

    /// A pass over the data begins: its figures are counted anew. Batches that were announced in a
    /// pass that was broken off do not come any more.
    pub fn start_pass(&mut self) -> Result<()> {
        self.coming.clear();
        self.pass_tally.clear();
        self.updater.start_pass()
    }

    /// A pass is over; with several trainers this waits for all.
    pub fn finish_pass(&mut self) -> Result<()> {
        self.coming.clear();
        self.updater.finish_pass()?;
        self.position = Position { pass: self.position.pass + 1, batches: 0 };
        Ok(())
    }

    /// There is no data for now, but there may be some in this pass: other trainers do not wait for
    /// this one until its next step.
    pub fn rest(&mut self) -> Result<()> {
        self.coming.clear();
        self.updater.rest()
    }

    /// How many of the last updates are under way: nobody has confirmed yet that they were applied.
    pub fn under_way(&self) -> u64 {
        self.updater.under_way()
    }

    /// Waits until no update is under way.
    ///
    /// # Errors
    /// If one could not be applied.
    pub fn settle(&mut self) -> Result<()> {
        self.updater.settle()
    }

    /// The first checkpoint that will have all gradients but those that are under way; `None`
    /// without servers.
    pub fn next_cut(&self) -> Option<u64> {
        self.updater.next_cut()
    }

    /// The epoch of the servers and the checkpoint it began with; `None` without servers.
    pub fn restored(&self) -> Option<Restored> {
        self.updater.restored()
    }

    /// Where this trainer goes on, if an earlier process of its rank has trained before.
    pub fn resume(&self) -> Resume {
        self.updater.resume()
    }

    /// The figures of the evaluators since the pass began.
    pub fn pass_metrics(&self) -> Vec<(String, f64)> {
        self.pass_tally.read()
    }

    /// The figures of the evaluators are from now on also counted for a period, which ends with
    /// the next call.
    pub fn start_period(&mut self) -> Result<()> {
        match &mut self.period_tally {
            Some(period) => period.clear(),
            None => self.period_tally = Some(self.network.tally()?),
        }
        Ok(())
    }

    /// The figures of the evaluators since the period began; none if none did.
    pub fn period_metrics(&self) -> Vec<(String, f64)> {
        self.period_tally.as_ref().map(Tally::read).unwrap_or_default()
    }

    /// Saves the model, averages where the optimizer averages, with further files beside it; and,
    /// where the optimizer is in this process, what is needed to go on with the training.
    pub fn save(&self, directory: &Path, files: Vec<(String, Vec<u8>)>) -> Result<()> {
        let write =
            |writer: &mut dyn Write| self.updater.write_state(self.position.number(), writer);
        let state = self.updater.keeps_state().then_some(&write as &WriteState<'_>);
        let beside = Beside { files, state };
        model_file::save_directory(&self.parameters, directory, self.test_view, &beside)
    }

    /// Goes on where [`Trainer::save`] was called, whose values were loaded before. Whether the
    /// directory has what is needed: if not, the optimizer begins anew.
    ///
    /// # Errors
    /// [`contract::Kind::Conflict`] if it is of another optimizer or network, and nothing was
    /// changed; if the file is damaged.
    pub fn load_state(&mut self, directory: &Path) -> Result<bool> {
        if !self.updater.keeps_state() {
            return Ok(false);
        }
        let Some((mut reader, bytes)) = model_file::open_state(directory)? else {
            return Ok(false);
        };
        let named = |error: Error| error.with("directory", directory.display());
        let counts = self.updater.read_state(&mut reader, bytes).map_err(named)?;
        self.position = Position::of(counts.position);
        Ok(true)
    }

    /// Begins a test with the values of now: averages, where the optimizer averages.
    pub fn test_begin(&mut self) -> Result<()> {
        self.test_tally.clear();
        self.tested =
            Some(self.matching.fetch_dense(&self.network, &self.parameters, self.test_view)?);
        Ok(())
    }

    /// The cost, summed, and the samples of a batch of the test.
    ///
    /// # Errors
    /// If no test was begun, and as of the network.
    pub fn test_batch(&mut self, batch: Batch) -> Result<(f64, usize)> {
        let dense = self.tested.as_ref().ok_or_else(|| {
            Error::new(contract::Kind::Conflict, "no test was begun; call test_begin first")
        })?;
        let prepared = self.network.prepare(batch)?;
        let values = self.matching.fetch(&self.parameters, &prepared, dense, self.test_view)?;
        let values: Vec<&[f32]> = values.iter().map(|values| values.as_slice()).collect();
        let seen = self.network.test(&prepared, &values)?;
        self.test_tally.add(&seen)?;
        Ok((self.network.cost(&seen)?, prepared.samples()))
    }

    /// The figures of the evaluators since the test began.
    pub fn test_metrics(&self) -> Vec<(String, f64)> {
        self.test_tally.read()
    }

    /// Leaves the servers for good; rows that live there can then no longer be read or saved.
    pub fn goodbye(&mut self) -> Result<()> {
        self.updater.goodbye()?;
        if let Some(servers) = self.servers.take() {
            self.parameters.detach(&servers);
        }
        Ok(())
    }

    /// A gradient that is not a number would destroy the parameter; an infinite one too, unless it
    /// is clipped.
    fn check_gradients(&self, gradients: &[Option<Vec<f32>>]) -> Result<()> {
        for (number, gradient) in gradients.iter().enumerate() {
            let Some(gradient) = gradient.as_ref().filter(|one| !are_finite(one)) else { continue };
            let index = self.matching.index(NetworkIndex(number));
            let description = self.parameters.description(index);
            let is_clipped = self.recipe.own(description).settings.clip.is_some();
            if !is_clipped || gradient.iter().any(|number| number.is_nan()) {
                return Err(Error::invalid(format!(
                    "the gradient of a parameter is not a number although the cost is; {ADVICE}"
                ))
                .with("parameter", &description.name));
            }
        }
        Ok(())
    }
}

const ADVICE: &str = "try a smaller learning rate or a gradient_clipping_threshold, or look at the \
                      data of this batch; the parameters are as before it";

fn not_a_number(cost: f64, culprit: Option<Culprit>) -> Error {
    let error = Error::invalid(format!("the cost is not a number; {ADVICE}")).with("cost", cost);
    match culprit {
        Some(Culprit::Data(layer)) => error.with("first seen in the data of", layer),
        Some(Culprit::Parameter(name)) => error.with("first seen in parameter", name),
        Some(Culprit::Layer(layer)) => error.with("first seen in the output of layer", layer),
        None => error,
    }
}

fn view_of(optimizer: &Optimizer) -> View {
    if optimizer.average.is_some() { View::Averaged } else { View::Present }
}
