//! Jobs as pods of a Kubernetes cluster with Volcano.
//!
//! A job is one Secret, made first and at once: it holds the submission, the token and the package,
//! so a job is either accepted or was never there, whatever happens to whoever submits it. All other
//! objects are made from it and belong to it, and go with it. States come from watches ([`view`]),
//! translated by pure functions ([`state`]); output comes from the pods ([`logs`]), or from a volume
//! that they and this machine share ([`files`]).

pub mod api;
pub mod peers;
pub mod plan;

mod files;
mod logs;
mod package;
mod registry;
mod state;
mod tenant;
mod view;
mod volcano;

use crate::backend::{Accepted, Backend, Cursor, JobSummary, LogPiece, Metrics};
use crate::conductor::now_ms;
use crate::plan::JobPlan;
use crate::record::{Ending, JobRecord};
use crate::replica::ReplicaId;
use crate::submission::{KubernetesPlace, Package, Place, Submission, Tenant};
use api::{Access, ask, connect};
use contract::job::FaultTolerance;
use contract::state::State;
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client};
use logs::Streams;
use serde_json::{Value, json};
use state::{ENDING, Seen};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;
use view::{Scope, View, kind, kinds, value};

/// Who writes fields of objects that others may also write.
const MANAGER: &str = "paddlecloud";

/// The jobs of one namespace, or of one origin in all namespaces.
pub struct Kubernetes {
    access: Access,
    scope: Scope,
    client: OnceCell<Client>,
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
            view: OnceCell::new(),
            streams: Mutex::new(BTreeMap::new()),
            tenants: Mutex::new(BTreeMap::new()),
        }
    }

    /// The objects of a job, as `--dry-run` prints them. What is secret is not shown.
    pub fn manifests(submission: &Submission) -> Result<Vec<Value>> {
        let place = place(submission)?;
        let mut secret = plan::secret(submission, None)?;
        for key in [plan::TOKEN_KEY, plan::SUBMISSION_KEY] {
            secret["stringData"][key] = json!("***");
        }
        let mut manifests = vec![secret, volcano::job(submission, place)?];
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
        self.view.get_or_try_init(|| View::open(client, &self.scope)).await
    }

    async fn objects(&self, kind: &ApiResource, namespace: &str) -> Result<Api<DynamicObject>> {
        let client = self.client().await?.clone();
        Ok(Api::namespaced_with(client, namespace, kind))
    }

    async fn make(&self, submission: &Submission, package: Option<Vec<u8>>) -> Result<Accepted> {
        let place = place(submission)?;
        plan::check(submission, place)?;
        if let Some(tenant) = &place.tenant {
            self.move_in(&place.namespace, tenant).await?;
        }
        let secret = plan::secret(submission, package.as_deref())?;
        let secrets = self.objects(&kinds().secrets, &place.namespace).await?;
        let name = plan::name(&submission.id);
        let created = ask("create the job's Secret", create(&secrets, &secret)).await;
        let (accepted, secret) = match created {
            Ok(secret) => (Accepted::New, secret),
            Err(error) if error.kind() == Kind::AlreadyExists => {
                let there = ask("look at the job", secrets.get(name.as_str())).await?;
                (known(submission, &there)?, there)
            }
            Err(error) => return Err(error.with("namespace", &place.namespace)),
        };
        if let Err(error) = self.make_parts(submission, place, &secret).await {
            if accepted == Accepted::New {
                self.delete(&place.namespace, name.as_str()).await?;
            }
            return Err(error.with("namespace", &place.namespace));
        }
        if let Some(view) = self.view.get() {
            view.put_secret(value(&secret));
        }
        Ok(accepted)
    }

    /// Makes everything that belongs to the Secret of a job, unless it is there.
    async fn make_parts(
        &self,
        submission: &Submission,
        place: &KubernetesPlace,
        secret: &DynamicObject,
    ) -> Result<()> {
        let mut parts = vec![(kinds().jobs, volcano::job(submission, place)?)];
        if let Some(pull) = registry::secret(submission)? {
            parts.insert(0, (kinds().secrets, pull));
        }
        for (kind, manifest) in parts {
            let objects = self.objects(&kind, &place.namespace).await?;
            match ask("create the job", create(&objects, &owned(manifest, secret))).await {
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

    /// Deletes the job's objects and everything that belongs to them.
    async fn delete(&self, namespace: &str, name: &str) -> Result<()> {
        for kind in [kinds().jobs, kinds().secrets] {
            let objects = self.objects(&kind, namespace).await?;
            let parameters = DeleteParams::foreground();
            match ask("delete the job", objects.delete(name, &parameters)).await {
                Ok(_) => {}
                Err(error) if error.kind() == Kind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn seen(&self, id: &str) -> Result<(Submission, Seen)> {
        let view = self.view().await?;
        let seen = view.job(plan::name(id).as_str()).map_err(|error| error.with("job", id))?;
        Ok((submission(&seen.secret)?, seen))
    }

    async fn look(&self, id: &str) -> Result<JobRecord> {
        let (submission, seen) = self.seen(id).await?;
        let record = state::record(&submission, place(&submission)?, &seen);
        if let Some(verdict) = state::too_few(&submission, &record) {
            self.finish(&submission, Ending { verdict, since_ms: now_ms(), is_forced: false })
                .await?;
        }
        Ok(record)
    }

    async fn end(&self, id: &str, is_forced: bool) -> Result<()> {
        let (submission, seen) = self.seen(id).await?;
        let record = state::record(&submission, place(&submission)?, &seen);
        if record.state.is_final() {
            return Ok(());
        }
        // What was decided stays decided.
        let verdict = record.ending.map_or_else(state::killed, |ending| ending.verdict);
        self.finish(&submission, Ending { verdict, since_ms: now_ms(), is_forced }).await
    }

    /// Notes how a job ends, and ends it.
    async fn finish(&self, submission: &Submission, ending: Ending) -> Result<()> {
        let (name, namespace) = (plan::name(&submission.id), &place(submission)?.namespace);
        let secrets = self.objects(&kinds().secrets, namespace).await?;
        let text = serde_json::to_string(&ending)
            .map_err(|source| Error::invalid("cannot write an end").because(source))?;
        let note = json!({"metadata": {"annotations": { ENDING: text }}});
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&note));
        let patched = secrets.patch(name.as_str(), &parameters, &patch);
        let secret = ask("end the job", patched).await?;
        self.view().await?.put_secret(value(&secret));
        let jobs = self.objects(&kinds().jobs, namespace).await?;
        let parameters = DeleteParams::background();
        if let Err(error) = ask("end the job", jobs.delete(name.as_str(), &parameters)).await
            && error.kind() != Kind::NotFound
        {
            return Err(error);
        }
        if ending.is_forced {
            let pods = self.objects(&kinds().pods, namespace).await?;
            let selector = format!("{}={name}", plan::JOB_LABEL);
            let (at_once, all) =
                (DeleteParams::default().grace_period(0), ListParams::default().labels(&selector));
            ask("kill the job's pods", pods.delete_collection(&at_once, &all)).await?;
        }
        Ok(())
    }

    async fn resize(&self, id: &str, trainers: u32) -> Result<()> {
        let (submission, seen) = self.seen(id).await?;
        let place = place(&submission)?;
        let record = state::record(&submission, place, &seen);
        let refuse = |kind, message: &str| {
            let error = Error::new(kind, message).with("id", id);
            Err(error.with("trainers", record.trainers).with("wanted", trainers))
        };
        let Some(tolerance) = submission.spec.fault_tolerance else {
            let message = "the number of trainers of this job is fixed: to change it while it \
                           runs, submit it with min_trainers and max_trainers";
            return refuse(Kind::Unsupported, message);
        };
        let FaultTolerance { min_trainers, max_trainers } = tolerance;
        if !(min_trainers..=max_trainers).contains(&trainers) {
            let message =
                format!("this job may have from {min_trainers} to {max_trainers} trainers");
            return refuse(Kind::Invalid, &message);
        }
        if record.state.is_final() || record.ending.is_some() {
            return refuse(Kind::Conflict, "the job has ended");
        }
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
        if let Some((root, way)) = files::here(place, &log) {
            let (root, cursor) = (root.to_owned(), cursor.clone());
            let read = move || files::read(&root, &way, &cursor, is_over);
            let read = tokio::task::spawn_blocking(read).await;
            let piece =
                read.map_err(|source| Error::invalid("a read broke off").because(source))?;
            match piece? {
                Some(piece) => return Ok(piece),
                // The entry writes no file before it starts the program; then the pod says why.
                None if !is_over => {
                    let next = Cursor::default();
                    let bytes = Vec::new();
                    return Ok(LogPiece { bytes, next, skipped_bytes: 0, is_last: false });
                }
                None => {}
            }
        }
        let name = volcano::pod_name(&submission, replica);
        let pod = seen.pods.iter().find(|pod| pod["metadata"]["name"] == name.as_str());
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
                    Some(package::pack(manifest, folder)?)
                }
                (Package::Dispatch(_), None) => {
                    return Err(Error::invalid("a package that is dispatched needs its directory"));
                }
                (Package::Present(_), _) => None,
            };
            self.make(submission, packed).await
        })
    }

    fn list<'a>(
        &'a self,
        origin: &'a str,
        since_ms: Option<u64>,
    ) -> BoxFuture<'a, Result<Vec<JobSummary>>> {
        Box::pin(async move {
            let view = self.view().await?;
            let mut all = Vec::new();
            for name in view.names() {
                // It may be deleted while we look.
                let Ok(seen) = view.job(&name) else { continue };
                let submission = submission(&seen.secret)?;
                let record = state::record(&submission, place(&submission)?, &seen);
                if submission.origin == origin && since_ms.is_none_or(|at| record.changed_ms >= at)
                {
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
            // Figures are in files of the pods, which the API server does not show.
            self.seen(id).await?;
            Ok(Metrics { lines: Vec::new(), next: cursor.clone() })
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
            self.delete(&place.namespace, name.as_str()).await?;
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

async fn create(objects: &Api<DynamicObject>, manifest: &Value) -> kube::Result<DynamicObject> {
    let object = serde_json::from_value(manifest.clone()).map_err(kube::Error::SerdeError)?;
    objects.create(&PostParams::default(), &object).await
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

fn submission(secret: &Value) -> Result<Submission> {
    let damaged = || Error::new(Kind::Damaged, "this Secret is not of a job");
    let data = secret["data"][plan::SUBMISSION_KEY].clone();
    let bytes: k8s_openapi::ByteString =
        serde_json::from_value(data).map_err(|source| damaged().because(source))?;
    serde_json::from_slice(&bytes.0).map_err(|source| damaged().because(source))
}
