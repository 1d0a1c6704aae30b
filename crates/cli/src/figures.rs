//! What trainers say of their progress, put together: the newest pass and batch, the mean of costs
//! and metrics, the sum of speeds. Pure.

use scheduler::JobRecord;
use serde_json::Value;
use std::collections::BTreeMap;

/// The newest figures of all trainers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// The highest pass.
    pub pass: Option<f64>,
    /// The highest batch.
    pub batch: Option<f64>,
    /// The mean cost.
    pub cost: Option<f64>,
    /// The mean of each metric.
    pub metrics: BTreeMap<String, f64>,
    /// The sum of the trainers' speeds.
    pub samples_per_second: Option<f64>,
}

impl Figures {
    /// Reads the figures of a record. What is not a number is passed over: programs write them.
    pub fn of(record: &JobRecord) -> Figures {
        let reports: Vec<&Value> =
            record.replicas.iter().filter_map(|replica| replica.metrics.as_ref()).collect();
        let numbers = |name: &str| -> Vec<f64> {
            reports.iter().filter_map(|report| report.get(name)?.as_f64()).collect()
        };
        let newest = |name: &str| numbers(name).into_iter().reduce(f64::max);
        let mut metrics: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for report in &reports {
            for (name, value) in
                report.get("metrics").and_then(Value::as_object).into_iter().flatten()
            {
                if let Some(value) = value.as_f64() {
                    metrics.entry(name.clone()).or_default().push(value);
                }
            }
        }
        Figures {
            pass: newest("pass"),
            batch: newest("batch"),
            cost: mean(&numbers("cost")),
            metrics: metrics
                .into_iter()
                .filter_map(|(name, values)| Some((name, mean(&values)?)))
                .collect(),
            samples_per_second: numbers("samples_per_second").into_iter().reduce(|a, b| a + b),
        }
    }
}

fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}
