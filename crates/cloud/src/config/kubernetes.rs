//! A datacenter whose jobs are pods of a Kubernetes cluster, and what that makes of a job's place.

use contract::api::quota::Limits;
use contract::name::JobId;
use contract::quantity::Quantity;
use contract::{Error, Result};
use scheduler::kubernetes::Kubernetes;
use scheduler::kubernetes::api::Access;
use scheduler::submission::{CLOUD, KubernetesPlace, Tenant, Volume, VolumeSource};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A Kubernetes cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesConfig {
    /// The kubeconfig; absent for the service account of the server's pod.
    #[serde(default)]
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; empty for its current one.
    #[serde(default)]
    pub context: String,
    /// The namespace of all jobs.
    #[serde(default)]
    pub namespace: String,
    /// What the names of users' namespaces begin with, instead of one namespace for all.
    #[serde(default)]
    pub namespace_prefix: String,
    /// The ClusterRole that users have in their own namespaces, such as `view`.
    #[serde(default)]
    pub user_role: String,
    /// The image of jobs that name none.
    #[serde(default)]
    pub image: String,
    /// Secrets of the namespace with which images are fetched.
    #[serde(default)]
    pub pull_secrets: Vec<String>,
    /// The queue of Volcano; empty for its default one.
    #[serde(default)]
    pub queue: String,
    /// Whether jobs are Volcano's; absent to ask the cluster whether it has Volcano.
    #[serde(default)]
    pub volcano: Option<bool>,
    /// Where pods find the directory that is `files` here.
    #[serde(with = "serde_yaml_ng::with::singleton_map")]
    pub volume: VolumeSource,
}

/// Roles of every cluster that are for whoever may read all files: the volume can be mounted as a
/// whole, and the server trusts what is in the Secrets of jobs.
const TRUSTED_ROLES: [&str; 3] = ["edit", "admin", "cluster-admin"];
/// The longest name of a namespace.
const NAMESPACE_BYTES_MAX: usize = 63;

impl KubernetesConfig {
    pub(super) fn check(&self) -> Result<()> {
        match (self.namespace.is_empty(), self.namespace_prefix.is_empty()) {
            (true, true) => Err(Error::invalid(
                "backend kubernetes needs a namespace for all jobs, or a namespace_prefix for one \
                 of each user",
            )),
            (false, false) => Err(Error::invalid(
                "namespace and namespace_prefix exclude each other: use one of them",
            )),
            (false, true) if !self.user_role.is_empty() => Err(Error::invalid(
                "user_role: users have roles in namespaces of their own, use namespace_prefix",
            )),
            _ if TRUSTED_ROLES.contains(&self.user_role.as_str()) => {
                let message = "user_role: its holders may write Secrets and make pods, and so reach \
                               the files of other users: use `view`, or a ClusterRole that only reads";
                Err(Error::invalid(message).with("user_role", &self.user_role))
            }
            (true, false)
                if self.namespace_prefix.len() + JobId::BYTES_MAX > NAMESPACE_BYTES_MAX =>
            {
                let most = NAMESPACE_BYTES_MAX - JobId::BYTES_MAX;
                Err(Error::invalid(format!("namespace_prefix: use at most {most} characters"))
                    .with("namespace_prefix", &self.namespace_prefix))
            }
            _ => Ok(()),
        }
    }

    /// What runs the jobs.
    pub(crate) fn backend(&self) -> Kubernetes {
        let access = Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() };
        match self.namespace.is_empty() {
            true => Kubernetes::everywhere(access, CLOUD),
            false => Kubernetes::new(access, &self.namespace),
        }
    }

    /// Where a job runs, and what its pods see of the files.
    pub(crate) fn place(
        &self,
        (dc, user): (&str, &str),
        home: &Path,
        limits: &Limits,
    ) -> KubernetesPlace {
        let volume = |path: String, sub_path: &str, here: Option<&Path>| Volume {
            source: self.volume.clone(),
            path,
            sub_path: sub_path.to_owned(),
            is_read_only: here.is_none(),
            here: here.map(Path::to_owned),
        };
        let tenant = self.namespace.is_empty().then(|| Tenant {
            user: user.to_owned(),
            role: self.user_role.clone(),
            quota: hard(limits),
        });
        KubernetesPlace {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            namespace: match &tenant {
                Some(_) => format!("{}{}", self.namespace_prefix, JobId::of(user)),
                None => self.namespace.clone(),
            },
            image: self.image.clone(),
            pull_secrets: self.pull_secrets.clone(),
            volumes: vec![
                volume(format!("/pfs/{dc}/home/{user}"), &format!("home/{user}"), Some(home)),
                volume(format!("/pfs/{dc}/public"), "public", None),
                volume("/pfs/public".to_owned(), "public", None),
            ],
            tenant,
            volcano: self.volcano,
        }
    }
}

/// Limits as a ResourceQuota has them.
fn hard(limits: &Limits) -> BTreeMap<String, String> {
    let mut hard = BTreeMap::new();
    let mut add = |names: &[&str], amount: Option<String>| {
        for name in names {
            hard.extend(amount.clone().map(|amount| ((*name).to_owned(), amount)));
        }
    };
    let text = |amount: Option<Quantity>| amount.map(|amount| amount.to_string());
    add(&["requests.cpu", "limits.cpu"], text(limits.cpu));
    add(&["requests.memory", "limits.memory"], text(limits.memory));
    add(&["requests.nvidia.com/gpu"], text(limits.gpu));
    add(&["pods"], limits.replicas.map(|count| count.to_string()));
    hard
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<KubernetesConfig> {
        let own: KubernetesConfig = serde_yaml_ng::from_str(yaml).unwrap();
        own.check()?;
        Ok(own)
    }

    #[test]
    fn every_kind_of_volume_can_be_named() {
        for volume in [
            "{host_path: {path: /srv}}",
            "{claim: {claim: files}}",
            "{nfs: {server: 10.0.0.1, path: /export}}",
            "{cephfs: {monitors: ['10.0.0.1:6789'], path: /, user: admin, secret: ceph}}",
        ] {
            read(&format!("{{namespace: paddle, volume: {volume}}}")).unwrap();
        }
    }

    #[test]
    fn one_namespace_or_one_of_each_user() {
        let volume = "volume: {claim: {claim: files}}";
        let error = |text: &str| read(&format!("{{{text}{volume}}}")).unwrap_err().to_string();
        insta::assert_snapshot!(error(""), @"backend kubernetes needs a namespace for all jobs, or a namespace_prefix for one of each user");
        insta::assert_snapshot!(error("namespace: a, namespace_prefix: b, "), @"namespace and namespace_prefix exclude each other: use one of them");
        insta::assert_snapshot!(error("namespace: a, user_role: view, "), @"user_role: users have roles in namespaces of their own, use namespace_prefix");
        let trusted = error("namespace_prefix: a, user_role: edit, ");
        assert!(trusted.contains("user_role: its holders may write Secrets"), "{trusted}");
        insta::assert_snapshot!(error("namespace_prefix: a-very-long-prefix-, "), @"namespace_prefix: use at most 15 characters (namespace_prefix: a-very-long-prefix-)");
    }

    #[test]
    fn a_quota_is_told_to_the_cluster() {
        let limits = Limits {
            cpu: Some(Quantity::whole(4)),
            gpu: Some(Quantity::whole(1)),
            replicas: Some(10),
            ..Limits::default()
        };
        let hard = hard(&limits);
        let text: Vec<String> = hard.iter().map(|(name, most)| format!("{name}={most}")).collect();
        assert_eq!(text.join(" "), "limits.cpu=4 pods=10 requests.cpu=4 requests.nvidia.com/gpu=1");
    }
}
