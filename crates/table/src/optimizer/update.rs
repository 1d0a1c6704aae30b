//! A rule bound to one parameter: what the stores call for every row and block.
//!
//! It adds to the rule what is the same for all rules: the counters, the decay that untouched
//! sparse rows owe, the average. State and counters of a new row or block are all 0.

use super::average::{self, Average};
use super::decay::{Owed, Terms};
use super::{Optimizer, Rule, Settings};
use contract::Result;
use std::sync::atomic::{AtomicU64, Ordering};

/// The moment of an update, the same for all values of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Now {
    /// Updates before this one; for a read, updates so far.
    pub step: u64,
    /// The learning rate of [`Optimizer::rate`].
    pub rate: f32,
}

/// The state that a value needs beside itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// f32 columns, each as wide as the value.
    pub state: Vec<&'static str>,
    /// One u32 each per row or block.
    pub counters: Vec<&'static str>,
}

/// A rule bound to one parameter.
///
/// Counters stop at their limits or wrap: `touches` stays at `u32::MAX`, where no rule notices;
/// `last_step` is the step modulo 2³², so a row that is not visited for 2³¹ updates or more is not
/// charged for them.
#[derive(Debug, Clone)]
pub struct Update {
    rule: Rule,
    settings: Settings,
    average: Option<Average>,
    columns: Columns,
    /// Columns of the rule, which come before those of the average.
    rule_columns: usize,
    /// Counters come in this order, those of the average last.
    has_touches: bool,
    has_last_step: bool,
    /// [`Terms::correction`] is by updates of the parameter, not of the row.
    corrects_by_step: bool,
    /// [`Terms::correction`] by updates, of a rule that looks at it: of a short row it would cost
    /// more than the update.
    corrections: Vec<f64>,
    recent: Recent,
}

/// The correction that was asked for last, of those beyond the ones that are kept: all rows of an
/// update ask for the same. The number of updates, then the bits of an f32.
#[derive(Debug, Default)]
struct Recent(AtomicU64);

impl Clone for Recent {
    fn clone(&self) -> Self {
        Recent(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Recent {
    /// What `compute` gives, as an f32, whoever has asked before.
    #[inline]
    fn get(&self, updates: u32, compute: impl FnOnce() -> f64) -> f64 {
        let known = self.0.load(Ordering::Relaxed);
        if known >> 32 == u64::from(updates) {
            return f64::from(f32::from_bits(known as u32));
        }
        let correction = compute() as f32;
        let both = u64::from(updates) << 32 | u64::from(correction.to_bits());
        self.0.store(both, Ordering::Relaxed);
        f64::from(correction)
    }
}

/// Values of fewer elements are not worth finding out which instructions the processor has.
const WIDE_ELEMENTS_MIN: usize = 256;

/// Updates whose corrections are computed beforehand.
const CORRECTIONS_KEPT: u32 = 1024;

impl Update {
    /// Binds the model's optimizer to a parameter.
    ///
    /// # Errors
    /// If a number of either cannot be.
    pub fn new(optimizer: &Optimizer, settings: &Settings, is_sparse: bool) -> Result<Update> {
        optimizer.check()?;
        settings.check()?;
        let rule =
            settings.momentum.map_or(optimizer.rule, |own| optimizer.rule.with_momentum(own));
        let has_decay = settings.l1 != 0.0 || settings.l2 != 0.0;
        let corrects_by_step = is_sparse && rule.kernel().correction(1).is_some();
        let counts_touches = rule.kernel().counts_touches() && !corrects_by_step;
        let has_touches = counts_touches || optimizer.average.is_some();
        let has_last_step = is_sparse && has_decay && rule.is_idle_without_gradient();

        let mut columns = Columns { state: rule.kernel().columns(), counters: Vec::new() };
        let rule_columns = columns.state.len();
        columns.counters.extend(has_touches.then_some("touches"));
        columns.counters.extend(has_last_step.then_some("last_step"));
        if optimizer.average.is_some() {
            columns.state.extend(average::COLUMNS);
            columns.counters.extend(average::COUNTERS);
        }
        Ok(Update {
            rule,
            settings: *settings,
            average: optimizer.average,
            columns,
            rule_columns,
            has_touches,
            has_last_step,
            corrects_by_step,
            corrections: (0..CORRECTIONS_KEPT)
                .map_while(|touches| rule.kernel().correction(touches))
                .collect(),
            recent: Recent::default(),
        })
    }

    /// What it keeps beside a value.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// One update. `gradient` is the sum over samples and trainers; `state` has the columns one
    /// after the other, each as long as the value. What the row owes is settled first.
    ///
    /// # Panics
    /// If the lengths do not fit together.
    #[expect(clippy::too_many_arguments, reason = "the parts of a row come from different places")]
    pub fn apply(
        &self,
        now: &Now,
        gradient: &[f32],
        value: &mut [f32],
        state: &mut [f32],
        counters: &mut [u32],
    ) {
        if value.len() < WIDE_ELEMENTS_MIN {
            return self.apply_here(now, gradient, value, state, counters);
        }
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || self.apply_here(now, gradient, value, state, counters),
        );
    }

    /// As [`Update::apply`], for the instructions that the caller is compiled for. They do not
    /// change the bits: no sums are formed across elements, and none are contracted.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "the parts of a row come from different places")]
    pub(crate) fn apply_here(
        &self,
        now: &Now,
        gradient: &[f32],
        value: &mut [f32],
        state: &mut [f32],
        counters: &mut [u32],
    ) {
        assert_eq!(gradient.len(), value.len(), "gradient and value differ in length");
        self.catch_up(now, value, state, counters);
        if self.has_last_step {
            counters[self.last_step()] = (now.step as u32).wrapping_add(1);
        }
        let touches = if self.has_touches {
            counters[0] = counters[0].saturating_add(1);
            counters[0]
        } else {
            0
        };
        let (own, averages) = state.split_at_mut(self.rule_columns * value.len());
        if self.settings.l1 == 0.0 && self.settings.clip.is_none() {
            self.step(self.terms::<false>(now, touches), gradient, value, own);
        } else {
            self.rule.apply(self.terms::<true>(now, touches), gradient, value, own);
        }
        if let Some(average) = &self.average {
            average.add(touches, value, averages, &mut counters[self.average_counters()..]);
        }
    }

    /// What the rule does, where it is not bounded. Rows are short: of a length that is known here
    /// they become a few vector instructions, without loops around them.
    #[inline(always)]
    fn step(&self, terms: Terms<false>, gradient: &[f32], value: &mut [f32], own: &mut [f32]) {
        match value.len() {
            8 => self.rule.apply(terms, &gradient[..8], &mut value[..8], own),
            16 => self.rule.apply(terms, &gradient[..16], &mut value[..16], own),
            32 => self.rule.apply(terms, &gradient[..32], &mut value[..32], own),
            _ => self.rule.apply(terms, gradient, value, own),
        }
    }

    /// Settles the decay that a sparse row owes for the updates that did not touch it; to be called
    /// before a row is read. It takes the present learning rate for all of them. Where
    /// [`Update::needs_catch_up`] is false it does nothing.
    ///
    /// # Panics
    /// If the lengths do not fit together.
    #[inline(always)]
    pub fn catch_up(&self, now: &Now, value: &mut [f32], state: &mut [f32], counters: &mut [u32]) {
        assert_eq!(state.len(), self.columns.state.len() * value.len(), "state of another shape");
        assert_eq!(counters.len(), self.columns.counters.len(), "counters of another shape");
        if self.has_last_step {
            self.settle(now, value, state, counters);
        }
    }

    fn settle(&self, now: &Now, value: &mut [f32], state: &mut [f32], counters: &mut [u32]) {
        if let Some(owed) = self.owed(now, counters) {
            counters[self.last_step()] = now.step as u32;
            self.rule.kernel().settle(&owed, value, state);
        }
    }

    /// Writes the value of a row to `out` as it is now, what it owes settled, and leaves the row
    /// itself as it was: for reads that must not write.
    ///
    /// # Panics
    /// If the lengths do not fit together.
    #[expect(clippy::too_many_arguments, reason = "the parts of a row come from different places")]
    pub fn read(&self, now: &Now, value: &[f32], state: &[f32], counters: &[u32], out: &mut [f32]) {
        out.copy_from_slice(value);
        if let Some(owed) = self.owed(now, counters) {
            self.rule.kernel().settle(&owed, out, state);
        }
    }

    /// Whether rows owe anything while they are not touched.
    pub fn needs_catch_up(&self) -> bool {
        self.has_last_step
    }

    /// The value to save or test with: the average where averaging is on and has begun, else the
    /// value itself, as it was at its last visit.
    pub fn applied<'a>(
        &self,
        value: &'a [f32],
        state: &[f32],
        counters: &[u32],
        scratch: &'a mut Vec<f32>,
    ) -> &'a [f32] {
        if self.average.is_none() {
            return value;
        }
        let averages = &state[self.rule_columns * value.len()..];
        if average::read(averages, &counters[self.average_counters()..], scratch) {
            scratch
        } else {
            value
        }
    }

    #[inline]
    fn owed(&self, now: &Now, counters: &[u32]) -> Option<Owed> {
        if !self.has_last_step {
            return None;
        }
        // Steps never go back. If they did, a negative difference must not be taken for a huge one.
        let updates = (now.step as u32).wrapping_sub(counters[self.last_step()]).cast_signed();
        (updates > 0).then(|| Owed {
            updates: updates.unsigned_abs(),
            rate: now.rate * self.settings.learning_rate,
            l2: self.settings.l2,
            l1: self.settings.l1,
        })
    }

    #[inline]
    fn terms<const BOUNDS: bool>(&self, now: &Now, touches: u32) -> Terms<BOUNDS> {
        let Settings { learning_rate, l1, l2, clip, .. } = self.settings;
        let clip = clip.unwrap_or(f32::INFINITY);
        let rate = now.rate * learning_rate;
        let updates = match self.corrects_by_step {
            true => u32::try_from(now.step).unwrap_or(u32::MAX).saturating_add(1),
            false => touches,
        };
        Terms { rate, l2, l1, clip, touches, correction: self.correction(updates) }
    }

    #[inline]
    fn correction(&self, updates: u32) -> f64 {
        match self.corrections.get(updates as usize) {
            Some(correction) => *correction,
            None if self.corrections.is_empty() => 1.0,
            None => {
                self.recent.get(updates, || self.rule.kernel().correction(updates).unwrap_or(1.0))
            }
        }
    }

    fn last_step(&self) -> usize {
        usize::from(self.has_touches)
    }

    fn average_counters(&self) -> usize {
        usize::from(self.has_touches) + usize::from(self.has_last_step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizer::{AdaGrad, Adam, Momentum, RmsProp};

    const DECAY: Settings =
        Settings { learning_rate: 1.0, momentum: None, l1: 0.0, l2: 0.5, clip: None };

    fn update(rule: Rule, settings: Settings, is_sparse: bool) -> Update {
        Update::new(&Optimizer::new(rule, 0.1), &settings, is_sparse).unwrap()
    }

    #[track_caller]
    fn check_columns(update: &Update, state: &[&str], counters: &[&str]) {
        assert_eq!(update.columns().state, state);
        assert_eq!(update.columns().counters, counters);
    }

    #[test]
    fn a_row_keeps_only_what_its_rule_needs() {
        let (sgd, adagrad) =
            (Rule::Momentum(Momentum::default()), Rule::AdaGrad(AdaGrad::default()));
        let momentum = Settings { momentum: Some(0.9), ..DECAY };
        check_columns(&update(sgd, Settings::default(), true), &[], &[]);
        check_columns(&update(sgd, DECAY, true), &[], &["last_step"]);
        check_columns(&update(sgd, DECAY, false), &[], &[]);
        check_columns(&update(sgd, momentum, true), &["momentum"], &[]);
        check_columns(&update(adagrad, Settings::default(), true), &["square_sum"], &[]);
        check_columns(&update(adagrad, DECAY, true), &["square_sum"], &["last_step"]);
        check_columns(&update(adagrad, momentum, true), &["square_sum", "momentum"], &[]);
        let adam = Rule::Adam(Adam::default());
        let moments = ["first_moment", "second_moment"];
        check_columns(&update(adam, DECAY, true), &moments, &[]);
        check_columns(&update(adam, DECAY, false), &moments, &["touches"]);
        let rmsprop = Rule::RmsProp(RmsProp::default());
        let columns = ["square_mean", "gradient_mean"];
        check_columns(&update(rmsprop, DECAY, false), &columns, &["touches"]);
        let average = Some(Average { window: 0.5, window_max: 10 });
        let averaged = Optimizer { average, ..Optimizer::new(sgd, 0.1) };
        check_columns(
            &Update::new(&averaged, &DECAY, true).unwrap(),
            &["average_sum", "average_error", "average_previous_sum"],
            &["touches", "last_step", "average_count", "average_previous_count"],
        );
    }

    #[test]
    fn long_and_short_values_get_the_same_bits() {
        let rules = ["momentum", "adagrad", "decayed_adagrad", "adadelta", "rmsprop", "adam"];
        let settings = Settings { l1: 0.01, clip: Some(0.3), momentum: Some(0.9), ..DECAY };
        for (name, settings) in rules.iter().flat_map(|name| [(name, DECAY), (name, settings)]) {
            let rule: Rule = serde_json::from_value(serde_json::json!({ "name": name })).unwrap();
            let update = update(rule, settings, false);
            let columns = update.columns().state.len();
            let count = 5 * WIDE_ELEMENTS_MIN + 3;
            let numbers = |salt: usize| -> Vec<f32> {
                (0..count).map(|at| ((at * 31 + salt) % 97) as f32 / 50.0 - 1.0).collect()
            };
            let mut long = (numbers(1), vec![0.0; columns * count]);
            let mut short: Vec<_> =
                long.0.iter().map(|value| ([*value], vec![0.0; columns])).collect();
            for step in 0..3 {
                let (now, gradient) = (Now { step, rate: 0.1 }, numbers(step as usize));
                let mut counters = vec![step as u32; update.columns().counters.len()];
                update.apply(&now, &gradient, &mut long.0, &mut long.1, &mut counters);
                for ((value, state), gradient) in short.iter_mut().zip(gradient.chunks(1)) {
                    let mut counters = vec![step as u32; update.columns().counters.len()];
                    update.apply(&now, gradient, value, state, &mut counters);
                }
            }
            for (at, (value, state)) in short.iter().enumerate() {
                assert_eq!(value[0].to_bits(), long.0[at].to_bits(), "{name} at {at}");
                for (column, number) in state.iter().enumerate() {
                    let other = long.1[column * count + at];
                    assert_eq!(number.to_bits(), other.to_bits(), "{name} at {at}");
                }
            }
        }
    }

    #[test]
    fn a_momentum_of_zero_stays_zero() {
        let rule = Rule::Momentum(Momentum { momentum: 0.9, nesterov: false });
        let own = Settings { momentum: Some(0.0), ..Settings::default() };
        assert!(update(rule, own, false).columns().state.is_empty());
        assert!(!update(rule, Settings::default(), false).columns().state.is_empty());
    }

    #[test]
    fn only_idle_rows_with_decay_owe_anything() {
        let sgd = Rule::Momentum(Momentum::default());
        assert!(update(sgd, DECAY, true).needs_catch_up());
        assert!(!update(sgd, DECAY, false).needs_catch_up());
        assert!(!update(sgd, Settings::default(), true).needs_catch_up());
        assert!(!update(Rule::Adam(Adam::default()), DECAY, true).needs_catch_up());
    }

    #[test]
    fn the_last_step_wraps_and_never_goes_back() {
        let update = update(Rule::Momentum(Momentum::default()), DECAY, true);
        let mut value = [1.0];
        let mut counters = [u32::MAX - 1];
        let mut read = |step: u64| {
            update.catch_up(&Now { step, rate: 1.0 }, &mut value, &mut [], &mut counters);
            (value[0], counters[0])
        };
        assert_eq!(read(u64::from(u32::MAX) + 2), (0.125, 1));
        assert_eq!(read(u64::from(u32::MAX) + 2), (0.125, 1));
        assert_eq!(read(u64::from(u32::MAX)), (0.125, 1));
    }

    #[test]
    fn touches_stop_at_their_limit() {
        let update = update(Rule::Adam(Adam::default()), Settings::default(), false);
        let (mut value, mut state, mut counters) = ([1.0], [0.0; 2], [u32::MAX]);
        update.apply(&Now { step: 0, rate: 0.1 }, &[0.1], &mut value, &mut state, &mut counters);
        assert_eq!(counters, [u32::MAX]);
        assert!(value[0].is_finite() && value[0] < 1.0);
    }

    #[test]
    fn moments_of_a_row_are_corrected_by_the_updates_of_its_parameter() {
        let update = update(Rule::Adam(Adam::default()), Settings::default(), true);
        let first_change = |step: u64| {
            let mut value = [0.0];
            update.apply(&Now { step, rate: 1.0 }, &[0.5], &mut value, &mut [0.0; 2], &mut []);
            -value[0]
        };
        // (1 − β1)/√(1 − β2), once both corrections have faded.
        let uncorrected = 0.1 / 0.001_f32.sqrt();
        assert!((first_change(0) - 1.0).abs() < 1e-5);
        assert!((first_change(100_000) - uncorrected).abs() < 1e-4);
        assert!((first_change(u64::MAX) - uncorrected).abs() < 1e-4);
    }

    #[test]
    #[should_panic(expected = "state of another shape")]
    fn a_state_of_another_shape_is_our_bug() {
        let update = update(Rule::AdaGrad(AdaGrad::default()), DECAY, true);
        update.apply(&Now { step: 0, rate: 0.1 }, &[0.1], &mut [1.0], &mut [], &mut [0]);
    }
}
