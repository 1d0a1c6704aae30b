//! How gradients change values: the update rules and what surrounds them. Pure; slices in, slices
//! out. Who calls it when is the shard's business, where rows and blocks live the store's.
//!
//! [`Optimizer`] and [`Settings`] are descriptions, of the model and of one parameter. Together
//! they make an [`Update`], which the stores call for every row or block. The formulas, and what
//! is different from the original, are in `docs/optimizers.md`.

mod adadelta;
mod adagrad;
mod adam;
mod adamax;
mod average;
pub(crate) mod check;
mod decay;
mod decayed_adagrad;
mod ftrl;
mod momentum;
mod rmsprop;
mod schedule;
mod update;

pub use adadelta::AdaDelta;
pub use adagrad::AdaGrad;
pub use adam::Adam;
pub use adamax::Adamax;
pub use average::Average;
pub use decayed_adagrad::DecayedAdaGrad;
pub use ftrl::Ftrl;
pub use momentum::Momentum;
pub use rmsprop::RmsProp;
pub use schedule::{Schedule, Segments};
pub use update::{Columns, Now, Update};

use check::Accepted;
use contract::Result;
use decay::{Owed, Terms};
use serde::{Deserialize, Serialize};

/// What all parameters of a model have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optimizer {
    /// The update rule.
    pub rule: Rule,
    /// How the learning rate changes.
    #[serde(default)]
    pub schedule: Schedule,
    /// The learning rate that the schedule starts from, 0 or more. Gradients are sums over samples
    /// and trainers, so it usually has the batch size as divisor.
    pub learning_rate: f64,
    /// Whether and how the values are averaged over time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<Average>,
}

impl Optimizer {
    /// A rule at a constant rate, without averaging.
    pub fn new(rule: Rule, learning_rate: f64) -> Self {
        Optimizer { rule, schedule: Schedule::Constant, learning_rate, average: None }
    }

    /// Finds the first thing that cannot be: field, value, what is accepted.
    pub fn check(&self) -> Result<()> {
        self.rule.kernel().check()?;
        self.schedule.check()?;
        Accepted::NotNegative.check("learning_rate", self.learning_rate)?;
        self.average.as_ref().map_or(Ok(()), Average::check)
    }

    /// The learning rate of an update up to which, its own batch included, all trainers have
    /// processed `samples` samples, in pass `pass` (from 0); before the multiplier of a parameter.
    pub fn rate(&self, samples: u64, pass: u64) -> f32 {
        self.schedule.rate(self.learning_rate, samples, pass) as f32
    }
}

/// An update rule. In JSON the variants have the original's names, as in `{"name": "rmsprop"}`,
/// with the rule's own fields beside it; a field left out has the original's default.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Rule {
    /// SGD, with or without momentum.
    Momentum(Momentum),
    /// AdaGrad.
    AdaGrad(AdaGrad),
    /// AdaGrad that forgets.
    #[serde(rename = "decayed_adagrad")]
    DecayedAdaGrad(DecayedAdaGrad),
    /// AdaDelta.
    AdaDelta(AdaDelta),
    /// RMSProp.
    RmsProp(RmsProp),
    /// Adam.
    Adam(Adam),
    /// Adamax.
    Adamax(Adamax),
    /// FTRL-Proximal.
    Ftrl(Ftrl),
}

impl Rule {
    fn kernel(&self) -> &dyn Kernel {
        match self {
            Rule::Momentum(rule) => rule,
            Rule::AdaGrad(rule) => rule,
            Rule::DecayedAdaGrad(rule) => rule,
            Rule::AdaDelta(rule) => rule,
            Rule::RmsProp(rule) => rule,
            Rule::Adam(rule) => rule,
            Rule::Adamax(rule) => rule,
            Rule::Ftrl(rule) => rule,
        }
    }

    /// One update; the columns lie in `state` one after the other.
    #[inline(always)]
    fn apply<const BOUNDS: bool>(
        &self,
        terms: Terms<BOUNDS>,
        gradient: &[f32],
        value: &mut [f32],
        state: &mut [f32],
    ) {
        match self {
            Rule::Momentum(rule) => rule.apply(terms, gradient, value, state),
            Rule::AdaGrad(rule) => rule.apply(terms, gradient, value, state),
            Rule::DecayedAdaGrad(rule) => rule.apply(terms, gradient, value, state),
            Rule::AdaDelta(rule) => rule.apply(terms, gradient, value, state),
            Rule::RmsProp(rule) => rule.apply(terms, gradient, value, state),
            Rule::Adam(rule) => rule.apply(terms, gradient, value, state),
            Rule::Adamax(rule) => rule.apply(terms, gradient, value, state),
            Rule::Ftrl(rule) => rule.apply(terms, gradient, value, state),
        }
    }

    /// The rule with the momentum of a parameter, where it has one at all.
    fn with_momentum(mut self, momentum: f32) -> Self {
        match &mut self {
            Rule::Momentum(Momentum { momentum: own, .. })
            | Rule::AdaGrad(AdaGrad { momentum: own, .. })
            | Rule::DecayedAdaGrad(DecayedAdaGrad { momentum: own, .. })
            | Rule::AdaDelta(AdaDelta { momentum: own, .. })
            | Rule::RmsProp(RmsProp { momentum: own, .. }) => *own = f64::from(momentum),
            Rule::Adam(_) | Rule::Adamax(_) | Rule::Ftrl(_) => {}
        }
        self
    }

    /// Whether an update with a gradient of 0 changes nothing but the value, and by decay alone,
    /// so that any number of them can be made up for later.
    fn is_idle_without_gradient(&self) -> bool {
        match self {
            Rule::Momentum(rule) => rule.momentum == 0.0,
            Rule::AdaGrad(rule) => rule.momentum == 0.0,
            _ => false,
        }
    }
}

/// What one parameter has of its own. Every number means itself: a 0 is a 0, not "as the others".
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Multiplies the learning rate; 0 or more.
    pub learning_rate: f32,
    /// Replaces the momentum of a rule that has one, at least 0 and below 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub momentum: Option<f32>,
    /// The L1 rate, 0 or more.
    pub l1: f32,
    /// The L2 rate, 0 or more.
    pub l2: f32,
    /// The largest absolute value of an element of the merged gradient, more than 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip: Option<f32>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { learning_rate: 1.0, momentum: None, l1: 0.0, l2: 0.0, clip: None }
    }
}

impl Settings {
    /// Finds the first thing that cannot be: field, value, what is accepted.
    pub fn check(&self) -> Result<()> {
        let number = |number: f32| f64::from(number);
        Accepted::NotNegative.check("settings.learning_rate", number(self.learning_rate))?;
        Accepted::Fraction.check("settings.momentum", self.momentum.map_or(0.0, number))?;
        Accepted::NotNegative.check("settings.l1", number(self.l1))?;
        Accepted::NotNegative.check("settings.l2", number(self.l2))?;
        Accepted::Positive.check("settings.clip", self.clip.map_or(1.0, number))
    }
}

/// What every rule is, beside its `apply`.
trait Kernel {
    /// Whether its numbers can be.
    fn check(&self) -> Result<()>;

    /// The f32 columns it keeps beside the value.
    fn columns(&self) -> Vec<&'static str>;

    /// Whether it looks at [`Terms::touches`].
    fn counts_touches(&self) -> bool {
        false
    }

    /// [`Terms::correction`] after so many updates, if it looks at it.
    fn correction(&self, _touches: u32) -> Option<f64> {
        None
    }

    /// The updates without a gradient that a row has missed; only for a rule that
    /// [is idle](Rule::is_idle_without_gradient) in them.
    fn settle(&self, owed: &Owed, value: &mut [f32], _state: &[f32]) {
        owed.settle(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> serde_json::Result<Optimizer> {
        serde_json::from_str(json)
    }

    #[test]
    fn rules_have_the_names_and_defaults_of_the_original() {
        let rules = [
            ("momentum", Rule::Momentum(Momentum { momentum: 0.0, nesterov: false })),
            ("adagrad", Rule::AdaGrad(AdaGrad { epsilon: 1e-6, momentum: 0.0 })),
            ("decayed_adagrad", Rule::DecayedAdaGrad(DecayedAdaGrad::default())),
            ("adadelta", Rule::AdaDelta(AdaDelta { rho: 0.95, epsilon: 1e-6, momentum: 0.0 })),
            ("rmsprop", Rule::RmsProp(RmsProp { rho: 0.95, epsilon: 1e-6, momentum: 0.0 })),
            ("adam", Rule::Adam(Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 })),
            ("adamax", Rule::Adamax(Adamax { beta1: 0.9, beta2: 0.999 })),
            ("ftrl", Rule::Ftrl(Ftrl { beta: 1.0 })),
        ];
        for (name, rule) in rules {
            let json = format!(r#"{{"rule": {{"name": "{name}"}}, "learning_rate": 0.1}}"#);
            let optimizer = parse(&json).unwrap();
            assert_eq!(optimizer, Optimizer::new(rule, 0.1));
            optimizer.check().unwrap();
            let text = serde_json::to_string(&optimizer).unwrap();
            assert_eq!(parse(&text).unwrap(), optimizer);
        }
    }

    #[test]
    fn unknown_rules_and_fields_are_refused() {
        insta::assert_snapshot!(
            parse(r#"{"rule": {"name": "adam", "beta3": 1}, "learning_rate": 1}"#).unwrap_err(),
            @"unknown field `beta3`, expected one of `beta1`, `beta2`, `epsilon` at line 1 column 37"
        );
        let error = parse(r#"{"rule": {"name": "sgd"}, "learning_rate": 1}"#).unwrap_err();
        assert!(error.to_string().contains("`momentum`"), "{error}");
    }

    #[test]
    fn a_check_finds_every_number_that_cannot_be() {
        let sgd = Rule::Momentum(Momentum::default());
        let bad = [
            Optimizer::new(sgd, f64::NAN),
            Optimizer::new(sgd, -1.0),
            Optimizer::new(Rule::Momentum(Momentum { momentum: 1.0, nesterov: true }), 1.0),
            Optimizer::new(Rule::AdaGrad(AdaGrad { epsilon: 0.0, ..AdaGrad::default() }), 1.0),
            Optimizer::new(Rule::AdaDelta(AdaDelta { rho: 1.0, ..AdaDelta::default() }), 1.0),
            Optimizer::new(Rule::RmsProp(RmsProp { rho: -0.1, ..RmsProp::default() }), 1.0),
            Optimizer::new(Rule::Adam(Adam { beta2: 1.5, ..Adam::default() }), 1.0),
            Optimizer::new(Rule::Adamax(Adamax { beta1: f64::NAN, beta2: 0.9 }), 1.0),
            Optimizer::new(Rule::Ftrl(Ftrl { beta: -1.0 }), 1.0),
            Optimizer {
                average: Some(Average { window: 0.0, window_max: 1 }),
                ..Optimizer::new(sgd, 1.0)
            },
            Optimizer {
                average: Some(Average { window: 0.5, window_max: 0 }),
                ..Optimizer::new(sgd, 1.0)
            },
        ];
        let errors: Vec<_> =
            bad.iter().map(|optimizer| optimizer.check().unwrap_err().to_string()).collect();
        insta::assert_snapshot!(errors.join("\n"), @r"
        learning_rate must be a finite number, 0 or more (value: NaN)
        learning_rate must be a finite number, 0 or more (value: -1)
        rule.momentum must be at least 0 and below 1 (value: 1)
        rule.epsilon must be a finite number, more than 0 (value: 0)
        rule.rho must be at least 0 and below 1 (value: 1)
        rule.rho must be at least 0 and below 1 (value: -0.1)
        rule.beta2 must be at least 0 and below 1 (value: 1.5)
        rule.beta1 must be at least 0 and below 1 (value: NaN)
        rule.beta must be a finite number, 0 or more (value: -1)
        average.window must be a finite number, more than 0 (value: 0)
        average.window_max must be at least 1 (value: 0)
        ");
    }

    #[test]
    fn a_check_finds_every_setting_that_cannot_be() {
        let bad = [
            Settings { learning_rate: -1.0, ..Settings::default() },
            Settings { momentum: Some(1.0), ..Settings::default() },
            Settings { l1: f32::NAN, ..Settings::default() },
            Settings { l2: f32::INFINITY, ..Settings::default() },
            Settings { clip: Some(0.0), ..Settings::default() },
        ];
        let errors: Vec<_> =
            bad.iter().map(|settings| settings.check().unwrap_err().to_string()).collect();
        insta::assert_snapshot!(errors.join("\n"), @r"
        settings.learning_rate must be a finite number, 0 or more (value: -1)
        settings.momentum must be at least 0 and below 1 (value: 1)
        settings.l1 must be a finite number, 0 or more (value: NaN)
        settings.l2 must be a finite number, 0 or more (value: inf)
        settings.clip must be a finite number, more than 0 (value: 0)
        ");
    }
}
