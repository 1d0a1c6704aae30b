//! What the cluster knows of all our jobs, kept up to date by watches: one list of each kind at the
//! beginning, then only what changes.

use super::api::{ask, refusal};
use super::plain::controller;
use super::plan::{JOB_LABEL, ORIGIN_LABEL};
use super::state::{Seen, is_going, is_over};
use super::why;
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
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Between two attempts to list a kind again after its watch has broken.
const PAUSE: Duration = Duration::from_secs(1);
/// A server ends a watch after a while; the next one goes on where it ended.
const WATCH_SECONDS: u32 = 290;
/// How long a watch may be silent before everything is listed again: a server sends a bookmark each
/// minute, unless it hangs.
const SILENCE: Duration = Duration::from_secs(150);
/// How long the cluster may be out of reach before what was seen last counts no more.
const STALE: Duration = Duration::from_secs(10);

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
    pub(super) queues: ApiResource,
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
        queues: kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues"),
        services: kind("", "v1", "Service", "services"),
        servers: kind("apps", "v1", "StatefulSet", "statefulsets"),
        trainers: kind("batch", "v1", "Job", "jobs"),
        pods: kind("", "v1", "Pod", "pods"),
        nodes: kind("", "v1", "Node", "nodes"),
        events: kind("", "v1", "Event", "events"),
    }
}

/// The job of an object by its label, the object's name, and its namespace. Whoever may make objects
/// in one namespace can give them the labels and names of another's.
type Key = (String, String, String);
type Objects = Arc<Mutex<BTreeMap<Key, Value>>>;
/// Why kinds without which nothing is known of a job cannot be listed, and since when.
type Lost = Arc<Mutex<BTreeMap<String, (Instant, Kind, String)>>>;

/// The objects of all jobs.
pub(super) struct View {
    secrets: Objects,
    jobs: Objects,
    groups: Objects,
    queues: Objects,
    /// Of jobs without Volcano.
    trainers: Objects,
    pods: Objects,
    nodes: Objects,
    /// Warnings, by the object that they are about.
    events: Objects,
    lost: Lost,
    /// What jobs have been stuck in, and since when, as far as this process has looked.
    stuck: Mutex<BTreeMap<String, (String, Instant)>>,
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
        let lost = Lost::default();
        let of = |kind: &ApiResource, labels: &str, fields: &str| Source {
            api: match scope {
                Scope::Namespace(name) => Api::namespaced_with(client.clone(), name, kind),
                Scope::Origin(_) => Api::all_with(client.clone(), kind),
            },
            kind: format!("{}/{}", kind.api_version, kind.plural),
            labels: labels.to_owned(),
            fields: fields.to_owned(),
            lost: Some(lost.clone()),
        };
        let mut view = View {
            secrets: Objects::default(),
            jobs: Objects::default(),
            groups: Objects::default(),
            queues: Objects::default(),
            trainers: Objects::default(),
            pods: Objects::default(),
            nodes: Objects::default(),
            events: Objects::default(),
            lost: lost.clone(),
            stuck: Mutex::default(),
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
        let everywhere = |kind: &ApiResource| Source {
            api: Api::all_with(client.clone(), kind),
            lost: None,
            ..of(kind, "", "")
        };
        // That a job waits is also in its PodGroup, and would hide why a pod cannot be made.
        let events = of(&kinds.events, "", "type=Warning,reason!=PodGroupPending");
        let events = Source { lost: None, ..events };
        let mut explaining =
            vec![(everywhere(&kinds.nodes), view.nodes.clone()), (events, view.events.clone())];
        if has_jobs {
            explaining.push((everywhere(&kinds.queues), view.queues.clone()));
        }
        // They only explain. Users of a namespace need not be allowed to look at them.
        for (source, objects) in explaining {
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

    /// Whether what is known here is what the cluster says now.
    ///
    /// # Errors
    /// The API server has not answered for a while, or lets nobody look any more.
    pub(super) fn check(&self) -> Result<()> {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = lost.values().min_by_key(|(since, ..)| *since);
        match longest.filter(|(since, ..)| since.elapsed() > STALE) {
            None => Ok(()),
            Some((_, kind, why)) => {
                let message = "the cluster cannot be asked how its jobs are";
                Err(Error::new(*kind, message).with("last", why))
            }
        }
    }

    /// How long a job has been stuck in this way, as far as this process has looked. Timestamps of
    /// the cluster are of other clocks.
    pub(super) fn stuck_for(&self, name: &str, way: Option<String>) -> Duration {
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(way) = way else {
            stuck.remove(name);
            return Duration::ZERO;
        };
        let known = stuck.entry(name.to_owned()).or_insert_with(|| (way.clone(), Instant::now()));
        if known.0 != way {
            *known = (way, Instant::now());
        }
        known.1.elapsed()
    }

    /// The names of all jobs of which there is a Secret.
    pub(super) fn names(&self) -> Vec<String> {
        let secrets = lock(&self.secrets);
        let is_job = |job: &str, name: &str, secret: &Value| job == name && !is_going(secret);
        let there = secrets.iter().filter(|((job, name, _), one)| is_job(job, name, one));
        let mut names: Vec<String> = there.map(|((_, name, _), _)| name.clone()).collect();
        names.dedup();
        names
    }

    /// The Secret of a job. Of several in different namespaces the first is the job's: ids are never
    /// used again.
    fn secret(&self, name: &str) -> Option<Value> {
        let secrets = lock(&self.secrets);
        let begin = (name.to_owned(), name.to_owned(), String::new());
        let all =
            secrets.range(begin..).take_while(|((job, own, _), _)| job == name && own == name);
        let there = all.map(|(_, secret)| secret).filter(|secret| !is_going(secret));
        let made =
            |secret: &&Value| secret["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
        there.min_by_key(made).cloned()
    }

    /// Everything about one job.
    ///
    /// # Errors
    /// There is no Secret of this name.
    pub(super) fn job(&self, name: &str) -> Result<Seen> {
        let missing = || Error::new(Kind::NotFound, "there is no such job").with("id", name);
        let secret = self.secret(name).ok_or_else(missing)?;
        let namespace = namespace_of(&secret);
        let of_name = |objects: &Objects, own: &str| {
            let key = (name.to_owned(), own.to_owned(), namespace.to_owned());
            lock(objects).get(&key).cloned().unwrap_or_default()
        };
        let job = of_name(&self.jobs, name);
        let trainers = of_name(&self.trainers, &controller(name, Role::Trainer));
        let uid = job["metadata"]["uid"].as_str().unwrap_or_default();
        // Volcano gives it the labels of its job.
        let group = of_name(&self.groups, &format!("{name}-{uid}"));
        let of_job = (String::new(), why::queue(&job).to_owned(), String::new());
        let queue = lock(&self.queues).get(&of_job).cloned().unwrap_or_default();
        let pods = self.pods_of(name, namespace);
        let event_about = |about: &str| {
            let key = (String::new(), about.to_owned(), namespace.to_owned());
            lock(&self.events).get(&key).cloned()
        };
        let warning = |pod: &Value| {
            let about = pod["metadata"]["name"].as_str()?.to_owned();
            let event = event_about(&about)?;
            let is_own = event["involvedObject"]["uid"] == pod["metadata"]["uid"];
            is_own.then_some((about, event))
        };
        // What makes the pods is not always watched: warnings older than the job are of another one.
        let made = &secret["metadata"]["creationTimestamp"];
        let about_maker = |maker: String| {
            let event = event_about(&maker)?;
            let is_own = event["lastTimestamp"].as_str() >= made.as_str();
            is_own.then_some((maker, event))
        };
        let warnings = pods.iter().filter_map(warning);
        let makers = Role::ALL.map(|role| controller(name, role));
        let makers = makers.into_iter().chain([name.to_owned()]);
        let warnings = warnings.chain(makers.filter_map(about_maker)).collect();
        let nodes = lock(&self.nodes).values().cloned().collect();
        let is_busy = |pod: &Value| pod["spec"]["nodeName"].is_string() && !is_over(pod);
        let neighbours = match job["status"]["state"]["phase"].as_str() {
            // They only tell why a job waits.
            None | Some("Pending") => {
                let all = lock(&self.pods);
                let is_own = |job: &str, place: &str| job == name && place == namespace;
                let others =
                    all.iter().filter(|((job, _, place), pod)| is_busy(pod) && !is_own(job, place));
                others.map(|(_, pod)| pod.clone()).collect()
            }
            Some(_) => Vec::new(),
        };
        Ok(Seen { secret, job, trainers, group, queue, pods, nodes, warnings, neighbours })
    }

    fn pods_of(&self, name: &str, namespace: &str) -> Vec<Value> {
        let begin = (name.to_owned(), String::new(), String::new());
        let pods = lock(&self.pods);
        let own = pods.range(begin..).take_while(|((job, ..), _)| job == name);
        let own = own.filter(|((.., place), _)| place == namespace);
        own.map(|(_, value)| value.clone()).collect()
    }

    /// Takes in what this process has just written, before the watch brings it.
    pub(super) fn put_secret(&self, secret: Value) {
        lock(&self.secrets).insert(key(&secret), secret);
    }

    /// As if a job had been stuck in this way for so long.
    #[cfg(test)]
    pub(super) fn age(&self, name: &str, way: &str, by: Duration) {
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        stuck.insert(name.to_owned(), (way.to_owned(), Instant::now().checked_sub(by).unwrap()));
    }

    /// As [`View::put_secret`], for what was deleted.
    pub(super) fn remove(&self, name: &str) {
        let Some(secret) = self.secret(name) else { return };
        let key = |own: &str| (name.to_owned(), own.to_owned(), namespace_of(&secret).to_owned());
        lock(&self.secrets).remove(&key(name));
        lock(&self.jobs).remove(&key(name));
        lock(&self.trainers).remove(&key(&controller(name, Role::Trainer)));
        self.stuck_for(name, None);
    }
}

pub(super) fn namespace_of(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
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
    let (metadata, namespace) = (&value["metadata"], namespace_of(value).to_owned());
    match &value["involvedObject"]["name"] {
        Value::Null => (text(&metadata["labels"][JOB_LABEL]), text(&metadata["name"]), namespace),
        about => (String::new(), text(about), namespace),
    }
}

/// Where objects of one kind come from.
struct Source {
    api: Api<DynamicObject>,
    /// Its name, with that of its group.
    kind: String,
    labels: String,
    fields: String,
    /// `None` for a kind that only explains.
    lost: Option<Lost>,
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
            let begun = Instant::now();
            let followed = self.follow(&objects, &mut version).await;
            // A server that is shutting down ends every watch as soon as it has begun.
            if followed.is_ok() && begun.elapsed() < PAUSE {
                tokio::time::sleep(PAUSE).await;
            }
            if let Err(error) = followed {
                tracing::debug!(error = error.chain(), "a watch has ended; listing again");
                tokio::time::sleep(PAUSE).await;
                match self.list(&objects).await {
                    Ok(newest) => {
                        version = newest;
                        self.note(None);
                    }
                    Err(error) => self.note(Some(error)),
                }
            }
        }
    }

    /// Notes that the kind cannot be listed, or can be again.
    fn note(&self, error: Option<Error>) {
        let Some(lost) = &self.lost else { return };
        let mut lost = lost.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            None => drop(lost.remove(&self.kind)),
            // The first reason is kept: one that changes all the time tells nothing new.
            Some(error) => {
                let why = || (Instant::now(), error.kind(), error.chain());
                lost.entry(self.kind.clone()).or_insert_with(why);
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
        loop {
            let Ok(event) = tokio::time::timeout(SILENCE, stream.try_next()).await else {
                return Err(Error::new(Kind::Timeout, "the API server has fallen silent"));
            };
            let Some(event) = event.map_err(|error| refusal("watch objects", error))? else {
                return Ok(());
            };
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view() -> View {
        View {
            secrets: Objects::default(),
            jobs: Objects::default(),
            groups: Objects::default(),
            queues: Objects::default(),
            trainers: Objects::default(),
            pods: Objects::default(),
            nodes: Objects::default(),
            events: Objects::default(),
            lost: Lost::default(),
            stuck: Mutex::default(),
            watches: Vec::new(),
        }
    }

    fn object(namespace: &str, name: &str, made: &str) -> Value {
        json!({"metadata": {
            "namespace": namespace, "name": name, "creationTimestamp": made,
            "labels": {JOB_LABEL: "job-1"},
        }})
    }

    #[test]
    fn objects_of_another_namespace_are_of_another_job() {
        let view = view();
        view.put_secret(object("wu", "job-1", "2026-01-01T00:00:00Z"));
        view.put_secret(object("eve", "job-1", "2026-01-02T00:00:00Z"));
        for namespace in ["eve", "wu"] {
            let pod = object(namespace, "job-1-trainer-0", "2026-01-01T00:00:00Z");
            lock(&view.pods).insert(key(&pod), pod);
        }
        assert_eq!(view.names(), ["job-1"]);
        let seen = view.job("job-1").unwrap();
        assert_eq!(namespace_of(&seen.secret), "wu");
        let pods: Vec<&str> = seen.pods.iter().map(namespace_of).collect();
        assert_eq!(pods, ["wu"]);
    }

    #[test]
    fn what_is_stuck_in_another_way_is_stuck_anew() {
        let view = view();
        assert_eq!(view.stuck_for("job-1", None), Duration::ZERO);
        view.stuck_for("job-1", Some("unmade".into()));
        let since = view.stuck.lock().unwrap()["job-1"].1;
        view.stuck_for("job-1", Some("unmade".into()));
        assert_eq!(view.stuck.lock().unwrap()["job-1"].1, since);
        view.stuck_for("job-1", Some("trainer-0".into()));
        assert!(view.stuck.lock().unwrap()["job-1"].1 > since);
        view.stuck_for("job-1", None);
        assert!(view.stuck.lock().unwrap().is_empty());
    }
}
