//! Jobs as pods of a Kubernetes cluster with Volcano.
//!
//! A job is one Secret, made first and at once: it holds the submission, the token and the package,
//! so a job is either accepted or was never there, whatever happens to whoever submits it. All other
//! objects are made from it and belong to it, and go with it. States come from watches ([`view`]),
//! translated by pure functions ([`state`]); output comes from the pods ([`logs`]).

pub mod api;
pub mod peers;
pub mod plan;

mod logs;
mod package;
mod state;
mod view;

use crate::backend::{Accepted, Backend, Cursor, JobSummary, LogPiece, Metrics};
use crate::conductor::now_ms;
use crate::plan::JobPlan;
use crate::record::JobRecord;
use crate::replica::ReplicaId;
use crate::submission::{KubernetesPlace, Package, Place, Submission};
use api::{Access, ask, connect};
use contract::state::State;
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use logs::Streams;
use serde_json::{Value, json};
use state::{KILLED, Seen};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OnceCell;
use view::{View, kinds, value};

/// The jobs of one namespace.
pub struct Kubernetes {
    access: Access,
    namespace: String,
    client: OnceCell<Client>,
    view: OnceCell<View>,
    /// By job and replica.
    streams: Mutex<BTreeMap<(String, ReplicaId), Arc<Streams>>>,
}

impl Kubernetes {
    /// The jobs of a namespace. Nothing is asked of the cluster yet.
    pub fn new(access: Access, namespace: &str) -> Kubernetes {
        Kubernetes {
            access,
            namespace: namespace.to_owned(),
            client: OnceCell::new(),
            view: OnceCell::new(),
            streams: Mutex::new(BTreeMap::new()),
        }
    }

    /// The backend of a place.
    pub fn of(place: &KubernetesPlace) -> Kubernetes {
        let KubernetesPlace { kubeconfig, context, namespace, .. } = place;
        let access = Access { kubeconfig: kubeconfig.clone(), context: context.clone() };
        Kubernetes::new(access, namespace)
    }

    /// The objects of a job, as `--dry-run` prints them. The token is not shown.
    pub fn manifests(submission: &Submission) -> Result<Vec<Value>> {
        let place = place(submission)?;
        let mut secret = plan::secret(submission, None)?;
        for key in [plan::TOKEN_KEY, plan::SUBMISSION_KEY] {
            secret["stringData"][key] = json!("***");
        }
        let mut manifests = vec![secret, plan::job(submission, place)?];
        for manifest in &mut manifests {
            manifest["metadata"]["namespace"] = json!(place.namespace);
        }
        Ok(manifests)
    }

    async fn client(&self) -> Result<&Client> {
        self.client.get_or_try_init(|| connect(&self.access)).await
    }

    async fn view(&self) -> Result<&View> {
        let client = self.client().await?;
        self.view.get_or_try_init(|| View::open(client, &self.namespace)).await
    }

    async fn objects(&self, kind: &kube::api::ApiResource) -> Result<Api<DynamicObject>> {
        let client = self.client().await?.clone();
        Ok(Api::namespaced_with(client, &self.namespace, kind))
    }

    async fn make(&self, submission: &Submission, package: Option<Vec<u8>>) -> Result<Accepted> {
        let place = place(submission)?;
        plan::check(submission, place)?;
        let secret = plan::secret(submission, package.as_deref())?;
        let secrets = self.objects(&kinds().secrets).await?;
        let name = plan::name(&submission.id);
        let created = ask("create the job's Secret", create(&secrets, &secret)).await;
        let (accepted, secret) = match created {
            Ok(secret) => (Accepted::New, secret),
            Err(error) if error.kind() == Kind::AlreadyExists => {
                let there = ask("look at the job", secrets.get(name.as_str())).await?;
                (known(submission, &there)?, there)
            }
            Err(error) => return Err(error.with("namespace", &self.namespace)),
        };
        let job = owned(plan::job(submission, place)?, &secret);
        let jobs = self.objects(&kinds().jobs).await?;
        match ask("create the job", create(&jobs, &job)).await {
            Ok(_) => {}
            Err(error) if error.kind() == Kind::AlreadyExists => {}
            Err(error) => {
                if accepted == Accepted::New {
                    self.delete(name.as_str()).await?;
                }
                return Err(error.with("namespace", &self.namespace));
            }
        }
        if let Some(view) = self.view.get() {
            view.put_secret(value(&secret));
        }
        Ok(accepted)
    }

    /// Deletes the job's objects and everything that belongs to them.
    async fn delete(&self, name: &str) -> Result<()> {
        for kind in [kinds().jobs, kinds().secrets] {
            let objects = self.objects(&kind).await?;
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
        Ok(state::record(&submission, place(&submission)?, &seen))
    }

    async fn end(&self, id: &str, is_forced: bool) -> Result<()> {
        if self.look(id).await?.state.is_final() {
            return Ok(());
        }
        let name = plan::name(id);
        let secrets = self.objects(&kinds().secrets).await?;
        let note = json!({"metadata": {"annotations": { KILLED: now_ms().to_string() }}});
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&note));
        let patched = secrets.patch(name.as_str(), &parameters, &patch);
        let secret = ask("end the job", patched).await?;
        self.view().await?.put_secret(value(&secret));
        let jobs = self.objects(&kinds().jobs).await?;
        let parameters = DeleteParams::background();
        if let Err(error) = ask("end the job", jobs.delete(name.as_str(), &parameters)).await
            && error.kind() != Kind::NotFound
        {
            return Err(error);
        }
        if is_forced {
            let pods = self.objects(&kinds().pods).await?;
            let selector = format!("{}={name}", plan::JOB_LABEL);
            let (at_once, all) =
                (DeleteParams::default().grace_period(0), ListParams::default().labels(&selector));
            ask("kill the job's pods", pods.delete_collection(&at_once, &all)).await?;
        }
        Ok(())
    }

    async fn read(&self, id: &str, replica: ReplicaId, cursor: &Cursor) -> Result<LogPiece> {
        let (submission, seen) = self.seen(id).await?;
        let record = state::record(&submission, place(&submission)?, &seen);
        let known = record.replica(replica).is_some();
        if !known {
            let error = Error::new(Kind::NotFound, "the job has no such replica");
            return Err(error.with("replica", replica));
        }
        let name = plan::name(id).replica(replica.role, replica.rank);
        let pod = seen.pods.iter().find(|pod| pod["metadata"]["name"] == name.as_str());
        let streams = {
            let mut all = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry((id.to_owned(), replica)).or_default().clone()
        };
        let pods: Api<Pod> = Api::namespaced(self.client().await?.clone(), &self.namespace);
        streams.take_up(&pods, pod).await;
        Ok(streams.piece(cursor, record.state.is_final()))
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
                    all.push(JobSummary::from(record));
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
        Box::pin(async move {
            let message = "the number of trainers of a job on Kubernetes is fixed";
            let error = Error::new(Kind::Unsupported, message);
            Err(error.with("job", id).with("trainers", trainers))
        })
    }

    fn kill<'a>(&'a self, id: &'a str, is_forced: bool) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.end(id, is_forced))
    }

    fn forget<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let record = self.look(id).await?;
            if !record.state.is_final() {
                let error = Error::new(Kind::Conflict, "the job has not ended: kill it first");
                return Err(error.with("job", id).with("state", record.state));
            }
            let name = plan::name(id);
            self.delete(name.as_str()).await?;
            self.view().await?.remove(name.as_str());
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
