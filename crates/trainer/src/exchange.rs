//! A round trip of a step, or of a part of it: gradients out, dense values and the rows of later
//! batches in.
//!
//! An exchange owns all that it reads and writes, so that it can go on beside the computing of the
//! next step; what it brought is taken over by whoever waits for it, at a moment of his choice, so
//! that no value changes while a step is computed. Its memory goes from one exchange to the next.

use crate::ready::{Computed, Ready};
use crate::servers::Homes;
use crate::updater::{Rows, Wanted};
use crate::values::Values;
use contract::Result;
use pserver::client::{Client, Part, Pull};
use std::sync::Arc;
use table::gradient::Gradient;

/// A round trip, with everything that it needs.
pub(crate) struct Exchange {
    homes: Arc<Homes>,
    part: Part,
    step: Option<Arc<Computed>>,
    /// Batches whose rows it brings.
    ahead: Vec<(Arc<Ready>, Rows)>,
    /// Where the values of the dense parameters go, in the order of [`Homes::copied`].
    dense: Vec<Vec<f32>>,
    /// How often rows had been set from here when it began.
    writes: u64,
}

/// Memory of earlier exchanges.
#[derive(Default)]
pub(crate) struct Memory {
    dense: Vec<Vec<f32>>,
    rows: Vec<Vec<f32>>,
    /// Rows that a step was computed from, and perhaps still is.
    lent: Vec<Arc<Vec<f32>>>,
}

/// Buffers of rows that are kept.
const ROWS_KEPT_MAX: usize = 64;

impl Exchange {
    /// A round trip with the gradients of a step, if there is one. Rows of the batches `ahead` come
    /// with whatever part has rows; how often some were set from here is in `writes`.
    pub(crate) fn new(
        homes: Arc<Homes>,
        values: &Values,
        (part, step, ahead, writes): (Part, Option<Arc<Computed>>, Vec<Arc<Ready>>, u64),
        memory: &mut Memory,
    ) -> Result<Exchange> {
        let ahead = ahead.into_iter().map(|batch| {
            let rows = memory.room(&homes, values, &batch.wanted());
            (batch, rows)
        });
        let ahead = ahead.collect();
        let copies = if matches!(part, Part::Rows { .. }) { 0 } else { homes.copied.len() };
        let mut dense = if copies == 0 { Vec::new() } else { std::mem::take(&mut memory.dense) };
        dense.resize_with(copies, Vec::new);
        for ((here, _), out) in homes.copied.iter().zip(&mut dense) {
            out.resize(values.elements(*here)? as usize, 0.0);
        }
        Ok(Exchange { homes, part, step, ahead, dense, writes })
    }

    /// Makes the round trip.
    pub(crate) async fn run(mut self, client: Arc<Client>) -> Result<Self> {
        let Exchange { homes, part, step, ahead, dense, .. } = &mut self;
        let copied = homes.copied.iter().zip(dense);
        let mut pulls: Vec<Pull<'_>> = copied
            .map(|((_, parameter), out)| Pull::Dense { parameter: *parameter, out })
            .collect();
        for (batch, rows) in ahead {
            homes.add_rows(&batch.wanted(), rows, &mut pulls);
        }
        match step {
            None if pulls.is_empty() => {}
            None => client.pull(&mut pulls).await?,
            Some(step) => {
                let samples = step.samples();
                let is_of_part = |is_rows: bool| match part {
                    Part::Whole => true,
                    Part::Dense => !is_rows,
                    Part::Rows { .. } => is_rows,
                };
                let gradients = step.gradients().into_iter().filter_map(|gradient| {
                    let there = homes.index(*gradient.parameter())?;
                    let is_here = is_of_part(gradient.keys().is_some());
                    is_here.then(|| gradient.with_parameter(there))
                });
                let gradients: Vec<Gradient<'_>> = gradients.collect();
                client.push_pull_part(*part, &gradients, samples, &mut pulls).await?;
            }
        }
        Ok(self)
    }

    /// Takes over what came; gives its memory back.
    pub(crate) fn land(self, values: &Values, memory: &mut Memory) {
        if !self.dense.is_empty() {
            let copied = self.homes.copied.iter().zip(self.dense);
            memory.dense = copied.map(|((here, _), dense)| values.renew(*here, dense)).collect();
        }
        for (batch, rows) in self.ahead {
            batch.put_rows(rows, self.writes);
        }
    }
}

impl Memory {
    /// Room for the rows of what is wanted, as far as they are on the servers.
    pub(crate) fn room(&mut self, homes: &Homes, values: &Values, wanted: &[Wanted<'_>]) -> Rows {
        self.reclaim();
        let room = |wanted: &Wanted<'_>| {
            let keys = wanted.keys.filter(|_| homes.index(wanted.parameter).is_some())?;
            let mut rows = self.rows.pop().unwrap_or_default();
            rows.resize(keys.len() * values.description(wanted.parameter).width(), 0.0);
            Some(rows)
        };
        wanted.iter().map(room).collect()
    }

    /// Takes note of rows whose memory can be used again when nobody reads them any more.
    pub(crate) fn lend(&mut self, rows: &Arc<Vec<f32>>) {
        if self.lent.len() < ROWS_KEPT_MAX {
            self.lent.push(Arc::clone(rows));
        }
    }

    fn reclaim(&mut self) {
        for rows in std::mem::take(&mut self.lent) {
            match Arc::try_unwrap(rows) {
                Ok(rows) if self.rows.len() < ROWS_KEPT_MAX => self.rows.push(rows),
                Ok(_) => {}
                Err(rows) => self.lent.push(rows),
            }
        }
    }
}
