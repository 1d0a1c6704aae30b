//! The Secret with which the image of a job is fetched. Pure.

use super::plan;
use crate::submission::Submission;
use contract::api::registry::Credentials;
use contract::{Error, Result};
use serde_json::{Value, json};

/// Its name, if the job names a registry: the job's own, made from the credentials that came with
/// it, or one that is in the namespace already.
pub(super) fn name(submission: &Submission) -> Option<String> {
    let registry = &submission.spec.registry;
    match registry.is_empty() {
        true => None,
        false if submission.secrets.contains_key(registry) => {
            Some(format!("{}-registry", plan::name(&submission.id)))
        }
        false => Some(registry.clone()),
    }
}

/// The Secret, if the credentials came with the job.
pub(super) fn secret(submission: &Submission) -> Result<Option<Value>> {
    let Some(text) = submission.secrets.get(&submission.spec.registry) else { return Ok(None) };
    let Credentials { server, username, password } =
        serde_json::from_str(text.expose()).map_err(|_| {
            Error::invalid(
                "the credentials of a registry are an object with server, username and password",
            )
            .with("registry", &submission.spec.registry)
        })?;
    let config = json!({"auths": { server: {"username": username, "password": password}}});
    Ok(Some(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/dockerconfigjson",
        "metadata": {
            "name": name(submission),
            "labels": plan::labels(submission),
        },
        "stringData": {".dockerconfigjson": config.to_string()},
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::sample;
    use contract::job::JobSpec;
    use contract::secret::Secret;

    #[test]
    fn credentials_become_a_secret_of_the_job() {
        let mut job = sample(JobSpec { registry: "mine".into(), ..JobSpec::default() });
        assert_eq!(name(&job).as_deref(), Some("mine"));
        assert_eq!(secret(&job).unwrap(), None);
        let text = r#"{"server": "hub.example.com", "username": "wu", "password": "p"}"#;
        job.secrets.insert("mine".into(), Secret::new(text));
        assert_eq!(name(&job).as_deref(), Some("job-1-registry"));
        let secret = secret(&job).unwrap().unwrap();
        assert_eq!(
            secret["stringData"][".dockerconfigjson"],
            r#"{"auths":{"hub.example.com":{"password":"p","username":"wu"}}}"#
        );
        assert_eq!(secret["metadata"]["labels"][plan::JOB_LABEL], "job-1");
        job.secrets.insert("mine".into(), Secret::new("p"));
        assert!(super::secret(&job).is_err());
    }
}
