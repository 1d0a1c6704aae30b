//! Jobs as pods of a Kubernetes cluster: jobs of Volcano where it has that, else of what every
//! cluster has.
//!
//! A job is one Secret, made first and at once: it holds the submission, the token and the package,
//! so a job is either accepted or was never there, whatever happens to whoever submits it. All other
//! objects are made from it and belong to it, and go with it. States come from watches ([`view`]),
//! translated by pure functions ([`state`]); output comes from the pods ([`logs`]), or from a volume
//! that they and this machine share ([`files`]), as their figures do ([`figures`]).

pub mod api;
pub mod peers;
pub mod plan;

mod end;
#[cfg(test)]
mod fake;
mod figures;
mod files;
mod logs;
mod package;
mod plain;
mod registry;
mod state;
mod tenant;
mod verdict;
mod view;
mod volcano;
mod volumes;
mod why;

use crate::backend::{Accepted, Backend, Cursor, JobSummary, LogPiece, Metrics};
use crate::jobs::segments::parse_cursor;
use crate::plan::JobPlan;
use crate::record::JobRecord;
use crate::replica::ReplicaId;
use crate::submission::{KubernetesPlace, Package, Place, Submission, Tenant, check_id};
use api::{Access, ask, connect};
use contract::state::State;
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use logs::Streams;
use serde_json::{Value, json};
use state::{ENDING, Seen, name_of};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use view::{Kinds, Scope, View, kind, kinds, namespace_of, value};

/// Who writes fields of objects that others may also write.
const MANAGER: &str = "paddlecloud";
/// What an error has of a job that was refused and could not be taken away again: why not.
pub const LEFT: &str = "left on the cluster, because of";
/// How long the removal of an earlier object is waited for, and between two looks at it.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(60);
const REMOVAL_PAUSE: Duration = Duration::from_millis(250);

/// The jobs of one namespace, or of one origin in all namespaces.
pub struct Kubernetes {
    access: Access,
    scope: Scope,
    client: OnceCell<Client>,
    has_volcano: OnceCell<bool>,
    view: OnceCell<View>,
    /// By job and replica.
    streams: Mutex<BTreeMap<(String, ReplicaId), Arc<Streams>>>,
    /// The namespaces of users as this process made them.
    tenants: Mutex<BTreeMap<String, Tenant>>,
}

impl Kubernetes {
    /// The jobs of a namespace. Nothing is asked of the cluster yet.
    pub fn new(access: Access, namespace: &str) -> Kubernetes {
        Kubernetes::of_scope(access, Scope::Namespace(namespace.to_owned()))
    }

    /// The jobs of an origin, in whatever namespaces they are. Needs rights in all of them.
    pub fn everywhere(access: Access, origin: &str) -> Kubernetes {
        Kubernetes::of_scope(access, Scope::Origin(origin.to_owned()))
    }

    /// The backend of a place.
    pub fn of(place: &KubernetesPlace) -> Kubernetes {
        let KubernetesPlace { kubeconfig, context, namespace, .. } = place;
        let access = Access { kubeconfig: kubeconfig.clone(), context: context.clone() };
        Kubernetes::new(access, namespace)
    }

    fn of_scope(access: Access, scope: Scope) -> Kubernetes {
        Kubernetes {
            access,
            scope,
            client: OnceCell::new(),
            has_volcano: OnceCell::new(),
            view: OnceCell::new(),
            streams: Mutex::new(BTreeMap::new()),
            tenants: Mutex::new(BTreeMap::new()),
        }
    }

    /// The objects of a job, as `--dry-run` prints them: those of Volcano, unless it is not to be
    /// used. What is secret is not shown.
    pub fn manifests(submission: &Submission) -> Result<Vec<Value>> {
        let place = place(submission)?;
        let mut secret = plan::secret(submission, None)?;
        for key in [plan::TOKEN_KEY, plan::SUBMISSION_KEY] {
            secret["stringData"][key] = json!("***");
        }
        let mut manifests = vec![secret];
        match place.volcano {
            Some(false) => manifests.extend(plain::objects(submission, place)?),
            _ => manifests.push(volcano::job(submission, place)?),
        }
        for manifest in &mut manifests {
            manifest["metadata"]["namespace"] = json!(place.namespace);
        }
        Ok(manifests)
    }

    /// What was asked for when a job was submitted.
    pub async fn submission(&self, id: &str) -> Result<Submission> {
        Ok(self.seen(id).await?.0)
    }

    async fn client(&self) -> Result<&Client> {
        self.client.get_or_try_init(|| connect(&self.access)).await
    }

    async fn view(&self) -> Result<&View> {
        let client = self.client().await?;
        let has_volcano = self.has_volcano().await?;
        self.view.get_or_try_init(|| View::open(client, &self.scope, has_volcano)).await
    }

    /// Whether the cluster has Volcano.
    async fn has_volcano(&self) -> Result<bool> {
        let client = self.client().await?;
        let look = || async {
            let jobs = kinds().jobs;
            let known = client.list_api_group_resources(&jobs.api_version);
            match ask("look for Volcano", known).await {
                Ok(known) => Ok(known.resources.iter().any(|one| one.name == jobs.plural)),
                Err(error) if error.kind() == Kind::NotFound => Ok(false),
                // The first question of all: whether there is anybody to ask.
                Err(error) if error.kind().is_retryable() => {
                    let message = "the API server cannot be reached: is the cluster up, and the \
                                   kubeconfig the right one?";
                    let server = api::server(&self.access).await;
                    Err(Error::new(error.kind(), message).with("server", server).because(error))
                }
                Err(error) => Err(error),
            }
        };
        self.has_volcano.get_or_try_init(look).await.copied()
    }

    /// Whether a job of this place is one of Volcano.
    async fn uses_volcano(&self, place: &KubernetesPlace) -> Result<bool> {
        let has_volcano = self.has_volcano().await?;
        if place.volcano == Some(true) && !has_volcano {
            let message = "this cluster has no Volcano, which starts all pods of a job together: \
                           install it, or do without (--volcano no; `volcano: false` for a cloud)";
            return Err(Error::new(Kind::Unsupported, message));
        }
        Ok(place.volcano.unwrap_or(has_volcano))
    }

    /// Looks at the cluster for the first time, as every other call does: where this fails, nothing
    /// was asked of it.
    pub async fn reach(&self) -> Result<()> {
        let looked = self.view().await.map(drop);
        looked.map_err(|error| match &self.scope {
            Scope::Namespace(namespace) => explain(error, namespace),
            Scope::Origin(_) => error,
        })
    }

    /// Refuses a job whose PriorityClass is not there: Volcano would pass over that. Who may not look
    /// is told when pods cannot be made.
    async fn check_priority(&self, submission: &Submission) -> Result<()> {
        let Some(name) = volcano::priority_class(submission.spec.priority) else { return Ok(()) };
        let kind = kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
        let all: Api<DynamicObject> = Api::all_with(self.client().await?.clone(), &kind);
        match ask("look for the job's PriorityClass", all.get(name)).await {
            Err(error) if error.kind() == Kind::NotFound => {
                let message = format!(
                    "the cluster has no PriorityClass {name}: have it created, as by `kubectl create \
                     priorityclass {name} --value=1000`, or leave the priority out"
                );
                Err(Error::invalid(message).with("priority", submission.spec.priority))
            }
            Err(error) if error.kind() != Kind::Forbidden => Err(error),
            _ => Ok(()),
        }
    }

    async fn objects(&self, kind: &ApiResource, namespace: &str) -> Result<Api<DynamicObject>> {
        let client = self.client().await?.clone();
        Ok(Api::namespaced_with(client, namespace, kind))
    }

    async fn make(&self, submission: &Submission, package: Option<Vec<u8>>) -> Result<Accepted> {
        let place = place(submission)?;
        plan::check(submission, place)?;
        // Whoever may not look at jobs makes none: nobody would know what became of it.
        self.view().await?;
        self.check_priority(submission).await?;
        let parts = self.parts(submission, place).await?;
        if let Some(tenant) = &place.tenant {
            self.move_in(&place.namespace, tenant).await?;
        }
        let secret = plan::secret(submission, package.as_deref())?;
        let secrets = self.objects(&kinds().secrets, &place.namespace).await?;
        let name = plan::name(&submission.id);
        let created = create_anew("create the job's Secret", &secrets, &secret).await;
        let (accepted, secret) = match created {
            Ok(secret) => (Accepted::New, secret),
            Err(error) if error.kind() == Kind::AlreadyExists => {
                let there = ask("look at the job", secrets.get(name.as_str())).await?;
                (known(submission, &there)?, there)
            }
            Err(error) => return Err(error),
        };
        // Of a job that was ended meanwhile nothing is made again.
        let annotations = secret.metadata.annotations.as_ref();
        let is_ended = annotations.is_some_and(|all| all.contains_key(ENDING));
        let made = match is_ended {
            true => Ok(()),
            false => self.make_parts(parts, place, &secret).await,
        };
        if let Err(error) = made {
            let undone = match accepted {
                Accepted::New => self.unmake(place, name.as_str()).await,
                Accepted::Known => Ok(()),
            };
            // What it failed for comes first, whatever became of the rest.
            return Err(match undone {
                Ok(()) => error,
                Err(left) => error.with(LEFT, left.chain()),
            });
        }
        if let Some(view) = self.view.get() {
            view.put_secret(value(&secret));
        }
        Ok(accepted)
    }

    /// Everything that belongs to the Secret of a job.
    async fn parts(&self, submission: &Submission, place: &KubernetesPlace) -> Result<Vec<Value>> {
        let mut parts = Vec::from_iter(registry::secret(submission)?);
        match self.uses_volcano(place).await? {
            true => parts.push(volcano::job(submission, place)?),
            false => parts.extend(plain::objects(submission, place)?),
        }
        Ok(parts)
    }

    /// Makes everything that belongs to the Secret of a job, unless it is there.
    async fn make_parts(
        &self,
        parts: Vec<Value>,
        place: &KubernetesPlace,
        secret: &DynamicObject,
    ) -> Result<()> {
        for manifest in parts {
            let objects = self.objects(&kind_of(&manifest), &place.namespace).await?;
            match create_anew("create the job", &objects, &owned(manifest, secret)).await {
                Ok(_) => {}
                Err(error) if error.kind() == Kind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes the namespace of a user, and brings it up to date.
    async fn move_in(&self, namespace: &str, tenant: &Tenant) -> Result<()> {
        let is_done = |known: &BTreeMap<String, Tenant>| known.get(namespace) == Some(tenant);
        if is_done(&self.tenants.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(());
        }
        let kind = kind("", "v1", "Namespace", "namespaces");
        let all = Api::all_with(self.client().await?.clone(), &kind);
        let manifest = tenant::namespace(namespace, tenant);
        match ask("create the user's namespace", create(&all, &manifest)).await {
            Ok(_) => {}
            Err(error) if error.kind() == Kind::AlreadyExists => {
                let there = ask("look at the user's namespace", all.get(namespace)).await?;
                if !tenant::is_own(&value(&there), tenant) {
                    let message = "a namespace of this name is there and is not this user's: \
                                   choose another namespace_prefix";
                    let error = Error::new(Kind::Conflict, message);
                    return Err(error.with("namespace", namespace).with("user", &tenant.user));
                }
            }
            Err(error) => return Err(error.with("namespace", namespace)),
        }
        let parameters = PatchParams::apply(MANAGER).force();
        for (kind, manifest) in tenant::furniture(tenant) {
            let objects = self.objects(&kind, namespace).await?;
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
            let (what, patch) = ("furnish the user's namespace", Patch::Apply(&manifest));
            let error = |error: Error| error.with("namespace", namespace).with("kind", &kind.kind);
            ask(what, objects.patch(name, &parameters, &patch)).await.map_err(error)?;
        }
        let mut known = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(namespace.to_owned(), tenant.clone());
        Ok(())
    }

    /// Deletes what was made of a job before something of it was refused.
    async fn unmake(&self, place: &KubernetesPlace, name: &str) -> Result<()> {
        let has_job = self.uses_volcano(place).await?;
        self.delete((&place.namespace, name), has_job).await
    }

    /// Deletes the job's Secret and everything that belongs to it, a Volcano job first.
    async fn delete(&self, (namespace, name): (&str, &str), has_job: bool) -> Result<()> {
        if has_job {
            self.delete_one(&kinds().jobs, (namespace, name), &DeleteParams::foreground()).await?;
        }
        self.delete_one(&kinds().secrets, (namespace, name), &DeleteParams::foreground()).await
    }

    /// Deletes an object, unless it is gone.
    async fn delete_one(
        &self,
        kind: &ApiResource,
        (namespace, name): (&str, &str),
        parameters: &DeleteParams,
    ) -> Result<()> {
        let objects = self.objects(kind, namespace).await?;
        match ask("delete the job", objects.delete(name, parameters)).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Kind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn seen(&self, id: &str) -> Result<(Submission, Seen)> {
        check_id(id)?;
        let view = self.view().await?;
        view.check()?;
        let seen = view.job(plan::name(id).as_str()).map_err(|error| error.with("job", id))?;
        Ok((submission(&seen.secret)?, seen))
    }

    async fn look(&self, id: &str) -> Result<JobRecord> {
        let (submission, seen) = self.seen(id).await?;
        let mut record = state::record(&submission, place(&submission)?, &seen);
        self.conclude(&submission, &seen, &record).await?;
        let sources = figures(&submission, record.trainers)?;
        if !sources.is_empty() {
            // A file that cannot be read hides nothing else of the job.
            let newest =
                |own: figures::Source| (own.replica, figures::newest(&own).unwrap_or_default());
            let newest = blocking(move || Ok(sources.into_iter().map(newest).collect::<Vec<_>>()));
            for (id, newest) in newest.await? {
                if let Some(own) = record.replicas.iter_mut().find(|own| own.replica == id) {
                    own.metrics = newest;
                }
            }
        }
        Ok(record)
    }

    async fn resize(&self, id: &str, trainers: u32) -> Result<()> {
        let (submission, seen) = self.seen(id).await?;
        let place = place(&submission)?;
        let record = state::record(&submission, place, &seen);
        record.check_scale(submission.spec.fault_tolerance, trainers)?;
        let patch = volcano::resize(&seen.job, trainers);
        let jobs = self.objects(&kinds().jobs, &place.namespace).await?;
        let (name, parameters) = (plan::name(id), PatchParams::default());
        let patch = Patch::Merge(&patch);
        ask("scale the job", jobs.patch(name.as_str(), &parameters, &patch)).await.map(drop)
    }

    async fn read(&self, id: &str, replica: ReplicaId, cursor: &Cursor) -> Result<LogPiece> {
        let (submission, seen) = self.seen(id).await?;
        let place = place(&submission)?;
        let record = state::record(&submission, place, &seen);
        if record.replica(replica).is_none() {
            let error = Error::new(Kind::NotFound, "the job has no such replica");
            return Err(error.with("replica", replica));
        }
        let is_over = record.state.is_final();
        let log = plan::log(&submission, place, replica)?;
        // Who has begun with a pod's own output goes on with it.
        let is_of_pod = cursor.0.contains(':');
        let file = if is_of_pod { None } else { files::here(place, &log) };
        if let Some((root, way)) = file {
            let (root, own) = (root.to_owned(), cursor.clone());
            match blocking(move || files::read(&root, &way, &own, is_over)).await? {
                Some(piece) => return Ok(piece),
                // The entry writes no file before it starts the program; if it never does, the pod
                // says why. A file that was read and is gone is not told again from another source.
                None if !is_over || parse_cursor(&cursor.0)? > 0 => {
                    let (bytes, next) = (Vec::new(), cursor.clone());
                    return Ok(LogPiece { bytes, next, skipped_bytes: 0, is_last: is_over });
                }
                None => {}
            }
        }
        let pod = state::pod_of(&seen, &volcano::pod_name(&submission, replica));
        if !is_of_pod {
            parse_cursor(&cursor.0)?;
        }
        let streams = {
            let mut all = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry((id.to_owned(), replica)).or_default().clone()
        };
        let pods: Api<Pod> = Api::namespaced(self.client().await?.clone(), &place.namespace);
        streams.take_up(&pods, pod).await;
        Ok(streams.piece(cursor, is_over))
    }
}

impl Backend for Kubernetes {
    fn check(&self, submission: &Submission) -> Result<()> {
        plan::check(submission, place(submission)?)
    }

    fn plan(&self, submission: &Submission) -> Result<JobPlan> {
        plan::replicas(submission, place(submission)?)
    }

    fn submit<'a>(
        &'a self,
        submission: &'a Submission,
        package: Option<&'a Path>,
    ) -> BoxFuture<'a, Result<Accepted>> {
        Box::pin(async move {
            self.check(submission)?;
            let packed = match (&submission.package, package) {
                (Package::Dispatch(manifest), Some(folder)) => {
                    let (manifest, folder) = (manifest.clone(), folder.to_owned());
                    Some(blocking(move || package::pack(&manifest, &folder)).await?)
                }
                (Package::Dispatch(_), None) => {
                    return Err(Error::invalid("a package that is dispatched needs its directory"));
                }
                (Package::Present(_), _) => None,
            };
            let namespace = &place(submission)?.namespace;
            self.make(submission, packed).await.map_err(|error| explain(error, namespace))
        })
    }

    fn list<'a>(
        &'a self,
        origin: &'a str,
        since_ms: Option<u64>,
    ) -> BoxFuture<'a, Result<Vec<JobSummary>>> {
        Box::pin(async move {
            let view = self.view().await?;
            view.check()?;
            let mut all = Vec::new();
            for name in view.names() {
                // It may be deleted while we look.
                let Ok(seen) = view.job(&name) else { continue };
                let Ok(submission) = submission(&seen.secret) else {
                    tracing::warn!(secret = name, "this Secret has the label of a job and is none");
                    continue;
                };
                if submission.origin != origin {
                    continue;
                }
                let record = state::record(&submission, place(&submission)?, &seen);
                // One that cannot be ended hides none of the others.
                if let Err(error) = self.conclude(&submission, &seen, &record).await {
                    tracing::warn!(job = name, error = error.chain(), "cannot end a job");
                }
                if since_ms.is_none_or(|at| record.changed_ms >= at) {
                    all.push(record.into());
                }
            }
            Ok(all)
        })
    }

    fn observe<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<JobRecord>> {
        Box::pin(self.look(id))
    }

    fn logs<'a>(
        &'a self,
        id: &'a str,
        replica: ReplicaId,
        cursor: &'a Cursor,
    ) -> BoxFuture<'a, Result<LogPiece>> {
        Box::pin(self.read(id, replica, cursor))
    }

    fn metrics<'a>(&'a self, id: &'a str, cursor: &'a Cursor) -> BoxFuture<'a, Result<Metrics>> {
        Box::pin(async move {
            let (submission, seen) = self.seen(id).await?;
            let record = state::record(&submission, place(&submission)?, &seen);
            // Those of pods that share no volume with this machine are out of reach.
            let sources = figures(&submission, record.trainers)?;
            let cursor = cursor.clone();
            blocking(move || figures::read(&sources, &cursor)).await
        })
    }

    fn scale<'a>(&'a self, id: &'a str, trainers: u32) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.resize(id, trainers))
    }

    fn kill<'a>(&'a self, id: &'a str, is_forced: bool) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.end(id, is_forced))
    }

    fn forget<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (submission, seen) = self.seen(id).await?;
            let place = place(&submission)?;
            let record = state::record(&submission, place, &seen);
            if !record.state.is_final() {
                let error = Error::new(Kind::Conflict, "the job has not ended: kill it first");
                return Err(error.with("job", id).with("state", record.state));
            }
            let name = plan::name(id);
            // What it is made of counts: Volcano may have gone since.
            self.delete((&place.namespace, name.as_str()), !seen.job.is_null()).await?;
            self.view().await?.remove(name.as_str());
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.retain(|(job, _), _| job != id);
            Ok(())
        })
    }
}

fn place(submission: &Submission) -> Result<&KubernetesPlace> {
    match &submission.place {
        Place::Kubernetes(place) => Ok(place),
        other => {
            let message = "this backend runs jobs on Kubernetes alone";
            Err(Error::invalid(message).with("place", other.name()))
        }
    }
}

/// Where the trainers' figures are on this machine.
fn figures(submission: &Submission, trainers: u32) -> Result<Vec<figures::Source>> {
    let place = place(submission)?;
    let mut sources = Vec::new();
    for replica in figures::trainers(trainers) {
        let path = plan::figures(submission, place, replica)?;
        let found = files::here(place, &path).map(|(root, way)| (root.to_owned(), way));
        sources.extend(found.map(|(root, way)| figures::Source { replica, root, way }));
    }
    Ok(sources)
}

/// Reads files, where that keeps nobody else waiting.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|source| Error::invalid("a read broke off").because(source))?
}

/// A refusal, with what can be done about it.
fn explain(error: Error, namespace: &str) -> Error {
    let fix = match error.kind() {
        Kind::Forbidden => "this account lacks a right: docs/kubernetes.md has the Role it needs",
        Kind::NotFound => "create the namespace (kubectl create namespace), or name another one",
        Kind::LimitExceeded => "wait for other jobs to end, or have the namespace's quota raised",
        Kind::Unauthenticated => "the cluster does not accept these credentials: renew them",
        _ => return error,
    };
    error.with("namespace", namespace).with("fix", fix)
}

/// The kind of a manifest.
fn kind_of(manifest: &Value) -> ApiResource {
    let Kinds { secrets, jobs, services, servers, trainers, .. } = kinds();
    let is_it = |kind: &ApiResource| {
        manifest["kind"] == kind.kind.as_str()
            && manifest["apiVersion"] == kind.api_version.as_str()
    };
    [secrets, services, servers, trainers].into_iter().find(is_it).unwrap_or(jobs)
}

async fn create(objects: &Api<DynamicObject>, manifest: &Value) -> kube::Result<DynamicObject> {
    let object = serde_json::from_value(manifest.clone()).map_err(kube::Error::SerdeError)?;
    objects.create(&PostParams::default(), &object).await
}

/// Creates an object. One of the same name that was deleted, and only waits for what belongs to it, is
/// waited for.
async fn create_anew(
    what: &str,
    objects: &Api<DynamicObject>,
    manifest: &Value,
) -> Result<DynamicObject> {
    let deadline = Instant::now() + REMOVAL_TIMEOUT;
    loop {
        let created = ask(what, create(objects, manifest)).await;
        let Err(error) = created else { return created };
        let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
        if error.kind() != Kind::AlreadyExists {
            return Err(error);
        }
        match ask(what, objects.get(name)).await {
            Ok(there) if there.metadata.deletion_timestamp.is_none() => return Err(error),
            Ok(_) if Instant::now() >= deadline => {
                let message = "an earlier job of this id is still being removed: try again later";
                return Err(Error::new(Kind::Conflict, message).with("name", name));
            }
            Err(other) if other.kind() != Kind::NotFound => return Err(other),
            _ => tokio::time::sleep(REMOVAL_PAUSE).await,
        }
    }
}

/// The manifest of an object that goes with the Secret.
fn owned(mut manifest: Value, secret: &DynamicObject) -> Value {
    let metadata = &secret.metadata;
    manifest["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1",
        "kind": "Secret",
        "name": metadata.name,
        "uid": metadata.uid,
    }]);
    manifest
}

/// Whether the job that is there is the one that is submitted.
fn known(submission: &Submission, there: &DynamicObject) -> Result<Accepted> {
    let annotations = there.metadata.annotations.as_ref();
    let digest = annotations.and_then(|all| all.get(plan::DIGEST));
    if digest == Some(&submission.digest()?) {
        return Ok(Accepted::Known);
    }
    let message = "another job has this id";
    Err(Error::new(Kind::Conflict, message).with("id", &submission.id))
}

/// The submission in a Secret, which must be where it says. A Secret that somebody else made must not
/// lead us to objects of other namespaces.
fn submission(secret: &Value) -> Result<Submission> {
    let damaged = || Error::new(Kind::Damaged, "this Secret is not of a job");
    let data = secret["data"][plan::SUBMISSION_KEY].clone();
    let bytes: k8s_openapi::ByteString =
        serde_json::from_value(data).map_err(|source| damaged().because(source))?;
    let submission: Submission =
        serde_json::from_slice(&bytes.0).map_err(|source| damaged().because(source))?;
    let is_here = place(&submission)?.namespace == namespace_of(secret)
        && plan::name(&submission.id).as_str() == name_of(secret);
    if is_here { Ok(submission) } else { Err(damaged()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::sample;
    use contract::job::JobSpec;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn an_api_server_that_cannot_be_reached_is_named() {
        let server = fake::Server::start(|_| fake::not_found()).await;
        let access = server.access();
        let path = access.kubeconfig.clone().unwrap();
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once("http://").unwrap();
        let after = rest.split_once('"').unwrap().1;
        std::fs::write(&path, format!("{before}http://{closed}\"{after}")).unwrap();
        let backend = Kubernetes::new(access, "default");
        let spec = JobSpec { image: "paddle:v1".into(), ..JobSpec::default() };
        let place = Place::Kubernetes(KubernetesPlace::default());
        let package = Package::Present("/workspace".into());
        let submission = Submission { package, place, ..sample(spec) };
        let error = backend.submit(&submission, None).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unavailable);
        assert!(error.chain().contains("the API server cannot be reached"), "{}", error.chain());
        assert!(error.chain().contains(&format!("server: http://{closed}")), "{}", error.chain());
    }

    #[tokio::test]
    async fn without_volcano_a_job_is_made_of_what_every_cluster_has() {
        let server = fake::Server::start(|_| fake::not_found()).await;
        let backend = Kubernetes::new(server.access(), "default");
        let spec = JobSpec { pservers: 1, image: "paddle:v1".into(), ..JobSpec::default() };
        let submission =
            Submission { package: Package::Present("/workspace".into()), ..sample(spec) };
        let place = KubernetesPlace::default();
        let parts = backend.parts(&submission, &place).await.unwrap();
        let kinds: Vec<&str> = parts.iter().filter_map(|part| part["kind"].as_str()).collect();
        assert_eq!(kinds, ["Service", "StatefulSet", "Job"]);
        let groups: Vec<String> = parts.iter().map(|part| kind_of(part).api_version).collect();
        assert_eq!(groups, ["v1", "apps/v1", "batch/v1"]);
        let place = KubernetesPlace { volcano: Some(true), ..place };
        let error = backend.parts(&submission, &place).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains("has no Volcano"), "{error}");
    }

    /// Who may make a Secret in one namespace gets no hold of jobs in another.
    #[test]
    fn a_secret_that_names_another_place_is_none_of_a_job() {
        let place = KubernetesPlace { namespace: "wu".into(), ..KubernetesPlace::default() };
        let one = Submission { place: Place::Kubernetes(place), ..sample(JobSpec::default()) };
        let text = serde_json::to_vec(&one).unwrap();
        let secret = |namespace: &str, name: &str| {
            json!({
                "metadata": {"name": name, "namespace": namespace},
                "data": {plan::SUBMISSION_KEY: k8s_openapi::ByteString(text.clone())},
            })
        };
        let name = plan::name(&one.id);
        assert_eq!(submission(&secret("wu", name.as_str())).unwrap().id, one.id);
        for forged in [secret("eve", name.as_str()), secret("wu", "other")] {
            assert_eq!(submission(&forged).unwrap_err().kind(), Kind::Damaged);
        }
    }
}
