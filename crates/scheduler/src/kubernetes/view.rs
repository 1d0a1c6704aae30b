//! What the cluster knows of all our jobs in a namespace, kept up to date by watches: one list of
//! each kind at the beginning, then only what changes.

use super::api::{ask, refusal};
use super::plan::JOB_LABEL;
use super::state::Seen;
use contract::{Error, Kind, Result};
use futures_util::TryStreamExt;
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, ListParams, WatchEvent, WatchParams,
};
use kube::{Api, Client};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Between two attempts to list a kind again after its watch has broken.
const PAUSE: Duration = Duration::from_secs(1);
/// A server ends a watch after a while; the next one goes on where it ended.
const WATCH_SECONDS: u32 = 290;

/// A kind of object.
pub(super) struct Kinds {
    pub(super) secrets: ApiResource,
    pub(super) jobs: ApiResource,
    pub(super) groups: ApiResource,
    pub(super) pods: ApiResource,
    pub(super) nodes: ApiResource,
}

pub(super) fn kinds() -> Kinds {
    let kind = |group: &str, version: &str, kind: &str, plural: &str| {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    };
    Kinds {
        secrets: kind("", "v1", "Secret", "secrets"),
        jobs: kind("batch.volcano.sh", "v1alpha1", "Job", "jobs"),
        groups: kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
        pods: kind("", "v1", "Pod", "pods"),
        nodes: kind("", "v1", "Node", "nodes"),
    }
}

type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

/// The objects of a namespace.
pub(super) struct View {
    secrets: Objects,
    jobs: Objects,
    groups: Objects,
    pods: Objects,
    /// Nodes do not change while people look.
    nodes: Vec<Value>,
    watches: Vec<JoinHandle<()>>,
}

impl Drop for View {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

impl View {
    /// Lists everything, and begins to watch. Must be called on a runtime.
    pub(super) async fn open(client: &Client, namespace: &str) -> Result<View> {
        let kinds = kinds();
        let of = |kind: &ApiResource| {
            Api::<DynamicObject>::namespaced_with(client.clone(), namespace, kind)
        };
        let mut watches = Vec::new();
        let mut watch = async |api: Api<DynamicObject>, selector: &str| -> Result<Objects> {
            let objects = Objects::default();
            let version = list(&api, selector, &objects).await?;
            let kept = keep(api, selector.to_owned(), objects.clone(), version);
            watches.push(tokio::spawn(kept));
            Ok(objects)
        };
        let secrets = watch(of(&kinds.secrets), JOB_LABEL).await?;
        let jobs = watch(of(&kinds.jobs), JOB_LABEL).await.map_err(no_volcano)?;
        let groups = watch(of(&kinds.groups), "").await?;
        let pods = watch(of(&kinds.pods), JOB_LABEL).await?;
        let nodes = Api::<DynamicObject>::all_with(client.clone(), &kinds.nodes);
        // Users of a namespace need not be allowed to look at nodes.
        let nodes = ask("list the nodes", nodes.list(&ListParams::default())).await;
        let nodes = nodes.map(|list| list.items.iter().map(value).collect()).unwrap_or_default();
        Ok(View { secrets, jobs, groups, pods, nodes, watches })
    }

    /// The names of all jobs of which there is a Secret.
    pub(super) fn names(&self) -> Vec<String> {
        lock(&self.secrets).keys().cloned().collect()
    }

    /// Everything about one job.
    ///
    /// # Errors
    /// There is no Secret of this name.
    pub(super) fn job(&self, name: &str) -> Result<Seen> {
        let secret = lock(&self.secrets)
            .get(name)
            .cloned()
            .ok_or_else(|| Error::new(Kind::NotFound, "there is no such job").with("id", name))?;
        let job = lock(&self.jobs).get(name).cloned().unwrap_or_default();
        let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
        let group = lock(&self.groups).get(&format!("{name}-{uid}")).cloned().unwrap_or_default();
        let is_own = |pod: &&Value| pod["metadata"]["labels"][JOB_LABEL] == name;
        let pods = lock(&self.pods).values().filter(is_own).cloned().collect();
        Ok(Seen { secret, job, group, pods, nodes: self.nodes.clone() })
    }

    /// Takes in what this process has just written, before the watch brings it.
    pub(super) fn put_secret(&self, secret: Value) {
        let name = secret["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        lock(&self.secrets).insert(name, secret);
    }

    /// As [`View::put_secret`], for what was deleted.
    pub(super) fn remove(&self, name: &str) {
        lock(&self.secrets).remove(name);
        lock(&self.jobs).remove(name);
    }
}

fn no_volcano(error: Error) -> Error {
    match error.kind() {
        Kind::NotFound => {
            let message = "this cluster has no Volcano, which starts all pods of a job together: \
                           install it";
            Error::new(Kind::Unsupported, message).because(error)
        }
        _ => error,
    }
}

fn lock(objects: &Objects) -> std::sync::MutexGuard<'_, BTreeMap<String, Value>> {
    objects.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// Fills the objects, and returns the version to watch from.
async fn list(api: &Api<DynamicObject>, selector: &str, objects: &Objects) -> Result<String> {
    let list = ask("list objects", api.list(&ListParams::default().labels(selector))).await?;
    let all = list
        .items
        .iter()
        .map(|object| (object.metadata.name.clone().unwrap_or_default(), value(object)));
    *lock(objects) = all.collect();
    Ok(list.metadata.resource_version.unwrap_or_default())
}

async fn keep(api: Api<DynamicObject>, selector: String, objects: Objects, mut version: String) {
    loop {
        if let Err(error) = follow(&api, &selector, &objects, &mut version).await {
            tracing::debug!(error = error.chain(), "a watch has ended; listing again");
            tokio::time::sleep(PAUSE).await;
            match list(&api, &selector, &objects).await {
                Ok(newest) => version = newest,
                Err(error) => tracing::warn!(error = error.chain(), "the cluster is out of reach"),
            }
        }
    }
}

/// Takes changes in until the watch ends. An error means that everything has to be listed again.
async fn follow(
    api: &Api<DynamicObject>,
    selector: &str,
    objects: &Objects,
    version: &mut String,
) -> Result<()> {
    let parameters = WatchParams::default().labels(selector).timeout(WATCH_SECONDS);
    let stream = ask("watch objects", api.watch(&parameters, version)).await?;
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.try_next().await.map_err(|e| refusal("watch objects", e))? {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                *version = object.metadata.resource_version.clone().unwrap_or_default();
                let name = object.metadata.name.clone().unwrap_or_default();
                lock(objects).insert(name, value(&object));
            }
            WatchEvent::Deleted(object) => {
                *version = object.metadata.resource_version.clone().unwrap_or_default();
                lock(objects).remove(&object.metadata.name.unwrap_or_default());
            }
            WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
            WatchEvent::Error(status) => {
                return Err(refusal("watch objects", kube::Error::Api(status)));
            }
        }
    }
    Ok(())
}
