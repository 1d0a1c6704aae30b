//! The body of the original's submit, as a job. Pure.

use contract::job::{FaultTolerance, JobSpec, Resources, RoleResources};
use contract::quantity::Quantity;
use contract::{Error, Result};
use serde::{Deserialize, Deserializer};

/// What the original's client sends; what is absent has the default of the original's server.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SubmitBody {
    pub(super) name: String,
    #[serde(rename = "jobPackage")]
    pub(super) job_package: String,
    pub(super) parallelism: u32,
    #[serde(deserialize_with = "quantity")]
    cpu: Quantity,
    #[serde(deserialize_with = "quantity")]
    gpu: Quantity,
    memory: Quantity,
    pservers: u32,
    #[serde(deserialize_with = "quantity")]
    pscpu: Quantity,
    psmemory: Quantity,
    entry: String,
    topology: String,
    passes: u32,
    image: String,
    pub(super) registry: String,
    faulttolerant: bool,
    // The original's client sends one spelling, its server reads the other.
    #[serde(alias = "minInstance")]
    min_instance: u32,
    #[serde(alias = "maxInstance")]
    max_instance: u32,
    pub(super) datacenter: String,
}

impl Default for SubmitBody {
    fn default() -> Self {
        let gibibyte = Quantity::from_milli((1 << 30) * 1000);
        SubmitBody {
            name: "paddle-cluster-job".to_owned(),
            job_package: String::new(),
            parallelism: 1,
            cpu: Quantity::whole(1),
            gpu: Quantity::ZERO,
            memory: gibibyte,
            pservers: 1,
            pscpu: Quantity::whole(1),
            psmemory: gibibyte,
            entry: String::new(),
            topology: String::new(),
            passes: 1,
            image: String::new(),
            registry: String::new(),
            faulttolerant: false,
            min_instance: 1,
            max_instance: 1,
            datacenter: String::new(),
        }
    }
}

fn quantity<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Quantity, D::Error> {
    Quantity::deserialize(deserializer)
}

/// What the names of registries begin with in the original's requests.
pub(super) const REGISTRY_PREFIX: &str = "pcloud-registry-";

/// The name of a registry as its user typed it.
pub(super) fn registry_name(name: &str) -> &str {
    name.strip_prefix(REGISTRY_PREFIX).unwrap_or(name)
}

impl SubmitBody {
    /// The job that was asked for. Its package is looked for elsewhere.
    pub(super) fn spec(&self) -> Result<JobSpec> {
        if self.datacenter.is_empty() {
            return Err(Error::invalid("datacenter: name the one to run in"));
        }
        let trainer = Resources { cpu: Some(self.cpu), memory: Some(self.memory), gpu: self.gpu };
        let pserver =
            Resources { cpu: Some(self.pscpu), memory: Some(self.psmemory), gpu: Quantity::ZERO };
        let fault_tolerance = self.faulttolerant.then(|| FaultTolerance {
            min_trainers: self.min_instance.clamp(1, self.parallelism.max(1)),
            max_trainers: self.max_instance.max(self.parallelism),
        });
        Ok(JobSpec {
            name: self.name.clone(),
            trainers: self.parallelism,
            pservers: self.pservers,
            master: self.faulttolerant,
            resources: RoleResources { trainer, pserver, ..RoleResources::default() },
            entry: self.entry.clone(),
            topology: self.topology.clone(),
            passes: Some(self.passes),
            image: self.image.clone(),
            registry: registry_name(&self.registry).to_owned(),
            fault_tolerance,
            // The original has no flag for it, and gives every job servers.
            allow_idle: true,
            ..JobSpec::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_original_client_sends_is_a_job() {
        let json = r#"{"name":"demo","jobPackage":"./demo","parallelism":10,"cpu":2,"gpu":0,
            "memory":"1Gi","pservers":3,"pscpu":1,"psmemory":"512Mi","topology":"",
            "entry":"python train.py","passes":2,"image":"","registry":"pcloud-registry-hub",
            "faulttolerant":true,"minInstance":2,"maxInstance":20,"datacenter":"dc1"}"#;
        let body: SubmitBody = serde_json::from_str(json).unwrap();
        let spec = body.spec().unwrap();
        assert_eq!((spec.trainers, spec.pservers, spec.passes), (10, 3, Some(2)));
        assert_eq!(spec.resources.trainer.cpu, Some(Quantity::whole(2)));
        assert_eq!(spec.registry, "hub");
        let tolerance = FaultTolerance { min_trainers: 2, max_trainers: 20 };
        assert_eq!((spec.master, spec.fault_tolerance), (true, Some(tolerance)));
    }

    #[test]
    fn what_is_absent_is_what_it_was_in_the_original() {
        let body: SubmitBody = serde_json::from_str(r#"{"datacenter":"dc1"}"#).unwrap();
        let spec = body.spec().unwrap();
        assert_eq!(
            (spec.name.as_str(), spec.trainers, spec.pservers),
            ("paddle-cluster-job", 1, 1)
        );
        assert!(SubmitBody::default().spec().is_err());
    }
}
