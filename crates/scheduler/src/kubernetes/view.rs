//! What the cluster knows of all our jobs, kept up to date by watches: one list of each kind at the
//! beginning, then only what changes.

use super::api::{ask, refusal};
use super::plain::controller;
use super::plan::{JOB_LABEL, ORIGIN_LABEL};
use super::state::{Seen, is_going, is_over};
use contract::name::JobId;
use contract::role::Role;
use contract::{Error, Kind, Result};
use futures_util::TryStreamExt;
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, ListParams, WatchEvent, WatchParams,
};
use kube::{Api, Client};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Between two attempts to list a kind again after its watch has broken.
const PAUSE: Duration = Duration::from_secs(1);
/// A server ends a watch after a while; the next one goes on where it ended.
const WATCH_SECONDS: u32 = 290;

/// Which jobs are looked at.
#[derive(Debug, Clone)]
pub(super) enum Scope {
    /// Those of one namespace.
    Namespace(String),
    /// Those of one origin, in all namespaces.
    Origin(String),
}

/// The kinds of objects that jobs are made of.
pub(super) struct Kinds {
    pub(super) secrets: ApiResource,
    pub(super) jobs: ApiResource,
    pub(super) groups: ApiResource,
    pub(super) services: ApiResource,
    pub(super) servers: ApiResource,
    pub(super) trainers: ApiResource,
    pub(super) pods: ApiResource,
    pub(super) nodes: ApiResource,
    pub(super) events: ApiResource,
}

pub(super) fn kind(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

pub(super) fn kinds() -> Kinds {
    Kinds {
        secrets: kind("", "v1", "Secret", "secrets"),
        jobs: kind("batch.volcano.sh", "v1alpha1", "Job", "jobs"),
        groups: kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
        services: kind("", "v1", "Service", "services"),
        servers: kind("apps", "v1", "StatefulSet", "statefulsets"),
        trainers: kind("batch", "v1", "Job", "jobs"),
        pods: kind("", "v1", "Pod", "pods"),
        nodes: kind("", "v1", "Node", "nodes"),
        events: kind("", "v1", "Event", "events"),
    }
}

/// The job of an object by its label, and the object's name.
type Key = (String, String);
type Objects = Arc<Mutex<BTreeMap<Key, Value>>>;

/// The objects of all jobs.
pub(super) struct View {
    secrets: Objects,
    jobs: Objects,
    groups: Objects,
    /// Of jobs without Volcano.
    trainers: Objects,
    pods: Objects,
    nodes: Objects,
    /// Warnings, by the object that they are about.
    events: Objects,
    watches: Vec<JoinHandle<()>>,
}

impl Drop for View {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

impl View {
    /// Lists everything, and begins to watch. Must be called on a runtime.
    pub(super) async fn open(client: &Client, scope: &Scope, has_volcano: bool) -> Result<View> {
        let kinds = kinds();
        let own = match scope {
            Scope::Namespace(_) => JOB_LABEL.to_owned(),
            Scope::Origin(origin) => format!("{JOB_LABEL},{ORIGIN_LABEL}={}", JobId::of(origin)),
        };
        let of = |kind: &ApiResource, labels: &str, fields: &str| Source {
            api: match scope {
                Scope::Namespace(name) => Api::namespaced_with(client.clone(), name, kind),
                Scope::Origin(_) => Api::all_with(client.clone(), kind),
            },
            labels: labels.to_owned(),
            fields: fields.to_owned(),
        };
        let mut view = View {
            secrets: Objects::default(),
            jobs: Objects::default(),
            groups: Objects::default(),
            trainers: Objects::default(),
            pods: Objects::default(),
            nodes: Objects::default(),
            events: Objects::default(),
            watches: Vec::new(),
        };
        view.watch(of(&kinds.secrets, &own, ""), view.secrets.clone()).await?;
        // Who may only make jobs of one kind has no others.
        let is_refused = |watched: &Result<()>| {
            watched.as_ref().is_err_and(|error| error.kind() == Kind::Forbidden)
        };
        let mut has_jobs = false;
        if has_volcano {
            let watched = view.watch(of(&kinds.jobs, &own, ""), view.jobs.clone()).await;
            if !is_refused(&watched) {
                watched?;
                view.watch(of(&kinds.groups, &own, ""), view.groups.clone()).await?;
                has_jobs = true;
            }
        }
        let watched = view.watch(of(&kinds.trainers, &own, ""), view.trainers.clone()).await;
        if !(has_jobs && is_refused(&watched)) {
            watched?;
        }
        view.watch(of(&kinds.pods, &own, ""), view.pods.clone()).await?;
        let all = Api::all_with(client.clone(), &kinds.nodes);
        let nodes = Source { api: all, labels: String::new(), fields: String::new() };
        // That a job waits is also in its PodGroup, and would hide why a pod cannot be made.
        let events = of(&kinds.events, "", "type=Warning,reason!=PodGroupPending");
        // They only explain. Users of a namespace need not be allowed to look at them.
        for (source, objects) in [(nodes, view.nodes.clone()), (events, view.events.clone())] {
            if let Err(error) = view.watch(source, objects).await {
                tracing::debug!(error = error.chain(), "reasons will be shorter");
            }
        }
        Ok(view)
    }

    async fn watch(&mut self, source: Source, objects: Objects) -> Result<()> {
        let version = source.list(&objects).await?;
        self.watches.push(tokio::spawn(source.keep(objects, version)));
        Ok(())
    }

    /// The names of all jobs of which there is a Secret.
    pub(super) fn names(&self) -> Vec<String> {
        let secrets = lock(&self.secrets);
        let there = secrets.iter().filter(|(_, secret)| !is_going(secret));
        there.map(|((_, name), _)| name.clone()).collect()
    }

    /// Everything about one job.
    ///
    /// # Errors
    /// There is no Secret of this name.
    pub(super) fn job(&self, name: &str) -> Result<Seen> {
        let key = (name.to_owned(), name.to_owned());
        let secret =
            lock(&self.secrets).get(&key).filter(|secret| !is_going(secret)).cloned().ok_or_else(
                || Error::new(Kind::NotFound, "there is no such job").with("id", name),
            )?;
        let job = lock(&self.jobs).get(&key).cloned().unwrap_or_default();
        let trainers = (name.to_owned(), controller(name, Role::Trainer));
        let trainers = lock(&self.trainers).get(&trainers).cloned().unwrap_or_default();
        let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
        // Volcano gives it the labels of its job.
        let group = (name.to_owned(), format!("{name}-{uid}"));
        let group = lock(&self.groups).get(&group).cloned().unwrap_or_default();
        let pods = of_job(&self.pods, name);
        let warning = |pod: &Value| {
            let about = pod["metadata"]["name"].as_str()?.to_owned();
            let event = lock(&self.events).get(&(String::new(), about.clone())).cloned()?;
            let is_own = event["involvedObject"]["uid"] == pod["metadata"]["uid"];
            is_own.then_some((about, event))
        };
        // What makes the pods is not always watched: warnings older than the job are of another one.
        let made = &secret["metadata"]["creationTimestamp"];
        let about_maker = |maker: String| {
            let event = lock(&self.events).get(&(String::new(), maker.clone())).cloned()?;
            let is_own = event["lastTimestamp"].as_str() >= made.as_str();
            is_own.then_some((maker, event))
        };
        let warnings = pods.iter().filter_map(warning);
        let makers = Role::ALL.map(|role| controller(name, role));
        let makers = makers.into_iter().chain([name.to_owned()]);
        let warnings = warnings.chain(makers.filter_map(about_maker)).collect();
        let nodes = lock(&self.nodes).values().cloned().collect();
        let is_busy = |pod: &&Value| pod["spec"]["nodeName"].is_string() && !is_over(pod);
        let neighbours = match job["status"]["state"]["phase"].as_str() {
            // They only tell why a job waits.
            None | Some("Pending") => lock(&self.pods).values().filter(is_busy).cloned().collect(),
            Some(_) => Vec::new(),
        };
        Ok(Seen { secret, job, trainers, group, pods, nodes, warnings, neighbours })
    }

    /// Takes in what this process has just written, before the watch brings it.
    pub(super) fn put_secret(&self, secret: Value) {
        lock(&self.secrets).insert(key(&secret), secret);
    }

    /// As [`View::put_secret`], for what was deleted.
    pub(super) fn remove(&self, name: &str) {
        let key = (name.to_owned(), name.to_owned());
        lock(&self.secrets).remove(&key);
        lock(&self.jobs).remove(&key);
        lock(&self.trainers).remove(&(name.to_owned(), controller(name, Role::Trainer)));
    }
}

fn of_job(objects: &Objects, name: &str) -> Vec<Value> {
    let begin = (name.to_owned(), String::new());
    let objects = lock(objects);
    let own = objects.range(begin..).take_while(|((job, _), _)| job == name);
    own.map(|(_, value)| value.clone()).collect()
}

fn lock(objects: &Objects) -> MutexGuard<'_, BTreeMap<Key, Value>> {
    objects.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An object as the API server sent it, without the list of who wrote which field.
pub(super) fn value(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    value
}

/// Under which key an object is kept. An event counts for the pod that it is about, so that there
/// is one for each.
fn key(value: &Value) -> Key {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match &value["involvedObject"]["name"] {
        Value::Null => {
            (text(&value["metadata"]["labels"][JOB_LABEL]), text(&value["metadata"]["name"]))
        }
        about => (String::new(), text(about)),
    }
}

/// Where objects of one kind come from.
struct Source {
    api: Api<DynamicObject>,
    labels: String,
    fields: String,
}

impl Source {
    /// Fills the objects, and returns the version to watch from.
    async fn list(&self, objects: &Objects) -> Result<String> {
        let parameters = ListParams::default().labels(&self.labels).fields(&self.fields);
        let list = ask("list objects", self.api.list(&parameters)).await?;
        let all = list.items.iter().map(value).map(|value| (key(&value), value));
        *lock(objects) = all.collect();
        Ok(list.metadata.resource_version.unwrap_or_default())
    }

    async fn keep(self, objects: Objects, mut version: String) {
        loop {
            if let Err(error) = self.follow(&objects, &mut version).await {
                tracing::debug!(error = error.chain(), "a watch has ended; listing again");
                tokio::time::sleep(PAUSE).await;
                match self.list(&objects).await {
                    Ok(newest) => version = newest,
                    Err(error) => {
                        tracing::warn!(error = error.chain(), "the cluster is out of reach");
                    }
                }
            }
        }
    }

    /// Takes changes in until the watch ends. An error means that everything has to be listed
    /// again.
    async fn follow(&self, objects: &Objects, version: &mut String) -> Result<()> {
        let parameters = WatchParams::default().labels(&self.labels).fields(&self.fields);
        let parameters = parameters.timeout(WATCH_SECONDS);
        let stream = ask("watch objects", self.api.watch(&parameters, version)).await?;
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = stream.try_next().await.map_err(|e| refusal("watch objects", e))? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    *version = object.metadata.resource_version.clone().unwrap_or_default();
                    let value = value(&object);
                    lock(objects).insert(key(&value), value);
                }
                WatchEvent::Deleted(object) => {
                    *version = object.metadata.resource_version.clone().unwrap_or_default();
                    let value = value(&object);
                    let (mut objects, key) = (lock(objects), key(&value));
                    let name = &value["metadata"]["name"];
                    // Of a pod's events another may have come since.
                    if objects.get(&key).is_some_and(|known| known["metadata"]["name"] == *name) {
                        objects.remove(&key);
                    }
                }
                WatchEvent::Bookmark(bookmark) => *version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => {
                    return Err(refusal("watch objects", kube::Error::Api(status)));
                }
            }
        }
        Ok(())
    }
}
