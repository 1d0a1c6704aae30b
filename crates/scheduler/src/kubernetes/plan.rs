//! What objects of Kubernetes have in common, however a submission becomes some: a Secret with
//! everything that is known of the job, and pods that run `paddle_k8s`. What makes the pods is a
//! Volcano job ([`super::volcano`]) or, without Volcano, [`super::plain`]. Pure; strings and numbers,
//! no API.
//!
//! All other objects are owned by the Secret, so that deleting it leaves nothing. Pods of a role
//! share one template: what differs between them (rank, address, name) is told by the cluster, and
//! their names are stable (`<job>-pserver-0.<job>`), so that no pod asks the API server for anything.

use super::verdict::START_SECONDS;
use super::volcano::pod_name;
use super::volumes::{self, is_on_volume};
use super::{plain, registry};
use crate::plan::{JobPlan, Node, ReplicaPlan, policy};
use crate::replica::ReplicaId;
use crate::submission::{KubernetesPlace, Package, Submission, Volume, VolumeSource};
use crate::supervisor::message::Confinement;
use contract::env::Environment;
use contract::job::{JobSpec, Resources};
use contract::name::JobId;
use contract::port::Endpoint;
use contract::quantity::Quantity;
use contract::role::Role;
use contract::{Error, Kind, Result, env};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// On every object: the job it belongs to, and whose job that is.
pub(super) const JOB_LABEL: &str = "paddlecloud/job";
pub(super) const ORIGIN_LABEL: &str = "paddlecloud/origin";
/// On the Secret: what tells this job from another under the same id.
pub(super) const DIGEST: &str = "paddlecloud/digest";
/// Keys of the Secret.
pub(super) const SUBMISSION_KEY: &str = "submission.json";
pub(super) const TOKEN_KEY: &str = "token";
pub(super) const PACKAGE_KEY: &str = "package.tar.gz";
/// The container of every pod.
pub(super) const CONTAINER: &str = "paddle";
/// The largest package that travels with the job: a Secret holds 1 MiB.
pub const PACKAGE_BYTES_MAX: usize = 900 << 10;
/// Where a package that travels with the job is in its pods.
const PACKAGE_MOUNT: &str = "/paddle/package";
const WORKSPACE: &str = "/paddle/workspace";
/// Logs that are on no volume go with the pod, where anybody may write.
const PODS_OWN_LOGS: &str = "/tmp/paddle/log";
/// What differs from pod to pod: `paddle_k8s` finds it out.
const OWN: [&str; 6] = [
    "PADDLE_INIT_TRAINER_ID",
    "PADDLE_TRAINER_ID",
    "PADDLE_ATTEMPT",
    "POD_IP",
    "PADDLE_CURRENT_IP",
    "POD_NAME",
];

/// The name of a job's objects.
pub fn name(id: &str) -> JobId {
    JobId::of(id)
}

/// Refuses the first field that cannot be honoured on Kubernetes, by its name.
pub(super) fn check(submission: &Submission, place: &KubernetesPlace) -> Result<()> {
    let Submission { spec, secrets, mounts, package, .. } = submission;
    spec.check()?;
    let refuse = |field: &'static str, value: String, why: &str| {
        let message = format!("{field} cannot be honoured on the kubernetes backend: {why}");
        Err(Error::new(Kind::Unsupported, message).with("field", field).with("value", value))
    };
    if image(spec, place).is_empty() {
        let message = "pods need an image: name one by --image";
        return Err(Error::invalid(message).with("field", "image"));
    }
    if spec.master && spec.restarts > 0 && spec.checkpoint.dir.is_empty() {
        let why = "a master that is started again forgets its tasks without a checkpoint_dir";
        return refuse("restarts", spec.restarts.to_string(), why);
    }
    if spec.ports.first == 0 {
        let why = "servers are known by their ports before they run: use --port 7164";
        return refuse("port", "0".to_owned(), why);
    }
    if !spec.checkpoint.dir.is_empty() && !is_on_volume(place, &spec.checkpoint.dir) {
        let why = "it has to be on a volume that pods may write to (--volume), or checkpoints go with \
                   the pods";
        return refuse("checkpoint_dir", spec.checkpoint.dir.clone(), why);
    }
    if spec.staged {
        let why = "pods do not fetch their data: mount it (--volume), and use --topology";
        return refuse("staged", "true".to_owned(), why);
    }
    if let Some((secret, _)) = secrets.iter().find(|(name, _)| **name != spec.registry) {
        let why = "pods get no secrets but that of the image's registry";
        return refuse("secrets", secret.clone(), why);
    }
    if let Some(mount) = mounts.first() {
        let why = "directories of this machine are not those of the cluster: use --volume";
        return refuse("mounts", mount.target.display().to_string(), why);
    }
    if let Package::Present(path) = package
        && !path.starts_with('/')
    {
        let message = "the package must be an absolute path of the image or of a volume";
        return Err(Error::invalid(message).with("package", path));
    }
    let has_package = matches!(package, Package::Dispatch(_));
    volumes::check(place, if has_package { &[PACKAGE_MOUNT, WORKSPACE] } else { &[] })?;
    match place.volcano {
        Some(false) => plain::check(submission),
        _ => Ok(()),
    }
}

/// What people should know besides: promises of other places that this one cannot keep.
pub(super) fn notes(submission: &Submission, place: &KubernetesPlace) -> Vec<String> {
    let spec = &submission.spec;
    let output = Path::new(&workspace(submission)).join(&spec.output_dir);
    let mut notes = Vec::new();
    if !is_on_volume(place, &output.to_string_lossy()) {
        let output = output.display();
        let note = "is on no volume that pods may write to: what is saved there goes with the pods";
        notes.push(format!("{output} {note}"));
    }
    if spec.pservers > 0 && !spec.allow_idle {
        notes.push("whether trainers use the servers is not checked on Kubernetes".to_owned());
    }
    notes
}

fn image<'a>(spec: &'a JobSpec, place: &'a KubernetesPlace) -> &'a str {
    if spec.image.is_empty() { &place.image } else { &spec.image }
}

fn workspace(submission: &Submission) -> String {
    match &submission.package {
        Package::Present(path) => path.clone(),
        Package::Dispatch(_) => WORKSPACE.to_owned(),
    }
}

/// The labels of every object of a job.
pub(super) fn labels(submission: &Submission) -> Value {
    json!({
        "app.kubernetes.io/managed-by": "paddlecloud",
        JOB_LABEL: name(&submission.id).as_str(),
        ORIGIN_LABEL: name(&submission.origin).as_str(),
    })
}

/// The Secret: the submission, its token, and its package where that travels with it.
pub(super) fn secret(submission: &Submission, package: Option<&[u8]>) -> Result<Value> {
    let text = serde_json::to_string(submission)
        .map_err(|source| Error::invalid("cannot write a submission").because(source))?;
    let mut secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name(&submission.id).as_str(),
            "labels": labels(submission),
            "annotations": { DIGEST: submission.digest()? },
        },
        "stringData": {
            SUBMISSION_KEY: text,
            TOKEN_KEY: submission.token.expose(),
        },
    });
    if let Some(package) = package {
        let bytes = k8s_openapi::ByteString(package.to_vec());
        secret["data"] = json!({ PACKAGE_KEY: bytes });
    }
    Ok(secret)
}

/// The pods of a role, all alike.
pub(super) fn pod(submission: &Submission, place: &KubernetesPlace, role: Role) -> Result<Value> {
    let spec = &submission.spec;
    let secret = name(&submission.id);
    let (mut volumes, mut mounts) = volumes::mounted(place);
    if let Package::Dispatch(_) = submission.package {
        let items = json!([{"key": PACKAGE_KEY, "path": PACKAGE_KEY}]);
        let package = json!({"secretName": secret.as_str(), "items": items});
        volumes.push(json!({"name": "package", "secret": package}));
        volumes.push(json!({"name": "workspace", "emptyDir": {}}));
        mounts.push(json!({"name": "package", "mountPath": PACKAGE_MOUNT, "readOnly": true}));
        mounts.push(json!({"name": "workspace", "mountPath": WORKSPACE}));
    }
    let mut container = json!({
        "name": CONTAINER,
        "image": image(spec, place),
        "imagePullPolicy": "IfNotPresent",
        "command": command(submission, role).iter().map(|word| literal(word)).collect::<Vec<_>>(),
        "env": environment(submission, place, role)?,
        "resources": resources(spec.resources.of(role)),
        "volumeMounts": mounts,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    if role != Role::Trainer {
        container["ports"] = ports(spec, role);
    }
    let mut pod = json!({
        "restartPolicy": "Never",
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": spec.grace_seconds,
        "containers": [container],
        "volumes": volumes,
    });
    if let Some(run_as) = submission.run_as {
        pod["securityContext"] = json!({
            "runAsUser": run_as.uid,
            "runAsGroup": run_as.gid,
            "runAsNonRoot": run_as.uid != 0,
        });
        // A new claim is root's. One that others share keeps the groups of their files.
        let is_claim = |own: &Volume| matches!(own.source, VolumeSource::Claim { .. });
        let is_shared = place.volumes.iter().any(|own| !own.sub_path.is_empty());
        if !is_shared && place.volumes.iter().any(|own| is_claim(own) && !own.is_read_only) {
            pod["securityContext"]["fsGroup"] = json!(run_as.gid);
            pod["securityContext"]["fsGroupChangePolicy"] = json!("OnRootMismatch");
        }
    }
    // The end of the trainers is that of the job. A server whose time is over would be a fault, after
    // which the job may start again.
    if let (Some(seconds), Role::Trainer) = (spec.time_limit_seconds, role) {
        pod["activeDeadlineSeconds"] = json!(seconds);
    }
    let registry = registry::name(submission);
    let secrets = place.pull_secrets.iter().chain(&registry);
    let secrets: Vec<Value> = secrets.map(|name| json!({"name": name})).collect();
    if !secrets.is_empty() {
        pod["imagePullSecrets"] = json!(secrets);
    }
    Ok(pod)
}

fn ports(spec: &JobSpec, role: Role) -> Value {
    let port = |(name, port): (String, u16)| json!({"name": name, "containerPort": port});
    let mut all: Vec<(String, u16)> = match role {
        Role::Master => vec![("master".to_owned(), MASTER_PORT)],
        _ => {
            let ports = spec.ports.dense_ports().chain(spec.ports.sparse_ports());
            ports.enumerate().map(|(index, port)| (format!("jobport-{index}"), port)).collect()
        }
    };
    all.extend(spec.metrics_port.map(|port| ("metrics".to_owned(), port)));
    all.into_iter().map(port).collect()
}

/// The port of a master.
const MASTER_PORT: u16 = 8080;

fn resources(resources: &Resources) -> Value {
    let mut amounts = Map::new();
    let mut add = |name: &str, amount: Option<Quantity>| {
        if let Some(amount) = amount {
            amounts.insert(name.to_owned(), json!(amount.to_string()));
        }
    };
    add("cpu", resources.cpu);
    add("memory", resources.memory);
    add("nvidia.com/gpu", Some(resources.gpu).filter(|gpu| *gpu > Quantity::ZERO));
    match amounts.is_empty() {
        true => json!({}),
        false => json!({"requests": amounts.clone(), "limits": amounts}),
    }
}

fn command(submission: &Submission, role: Role) -> Vec<String> {
    let spec = &submission.spec;
    // Servers' nodes may have to fetch the image first.
    let wait = spec.ready_seconds.saturating_add(START_SECONDS);
    let mut argv = vec!["paddle_k8s".to_owned(), format!("--wait={wait}")];
    if let Package::Dispatch(_) = submission.package {
        argv.push(format!("--unpack={PACKAGE_MOUNT}/{PACKAGE_KEY}"));
    }
    let mut more = Vec::new();
    match role {
        Role::Trainer => {
            let version = if spec.topology.is_empty() { "v2" } else { "v1" };
            argv.push(format!("--restarts={}", spec.restarts));
            argv.extend(["start_trainer".to_owned(), version.to_owned()]);
            let own = if spec.topology.is_empty() { &spec.program } else { &spec.topology_flags };
            more.extend(own.iter().cloned());
        }
        Role::Pserver => {
            argv.push("start_pserver".to_owned());
            more.extend(spec.metrics_port.map(|port| format!("--metrics_port={port}")));
        }
        Role::Master => {
            argv.push("start_master".to_owned());
            let data = &spec.data;
            more.push(format!("--port={MASTER_PORT}"));
            more.push(format!("--passes={}", data.passes));
            if let Some(dir) = checkpoint_dir(submission) {
                more.push(format!("--state_dir={dir}/master"));
            }
            more.extend(data.chunks_per_task.map(|count| format!("--chunk_per_task={count}")));
            let timeout = data.task_timeout_seconds;
            more.extend(timeout.map(|seconds| format!("--task_timeout={seconds}")));
            more.extend(data.files.iter().map(|pattern| format!("--dataset={pattern}")));
        }
    }
    if !more.is_empty() {
        argv.push("--".to_owned());
        argv.extend(more);
    }
    argv
}

/// The job's own folder in the one that was asked for. A job that begins with what another one left
/// there goes on in the same.
fn checkpoint_dir(submission: &Submission) -> Option<String> {
    let checkpoint = &submission.spec.checkpoint;
    let dir = checkpoint.dir.trim_end_matches('/');
    match (dir.is_empty(), checkpoint.restore) {
        (true, _) => None,
        (false, Some(_)) => Some(dir.to_owned()),
        (false, None) => Some(format!("{dir}/{}", name(&submission.id))),
    }
}

/// What a server begins with. A job's first start finds nothing in its own folder, and begins with
/// first values.
fn restore(spec: &JobSpec) -> String {
    match (spec.checkpoint.restore, spec.checkpoint.dir.is_empty()) {
        (_, true) => String::new(),
        (Some(restore), _) => restore.to_string(),
        (None, _) => "common".to_owned(),
    }
}

/// The name under which a pod is reached.
fn host(submission: &Submission, id: ReplicaId) -> String {
    format!("{}.{}", pod_name(submission, id), name(&submission.id))
}

/// The replicas of a job, for people to look at: every pod is a machine of its own.
pub(super) fn replicas(submission: &Submission, place: &KubernetesPlace) -> Result<JobPlan> {
    check(submission, place)?;
    let spec = &submission.spec;
    let of_role = |role: Role| (0..spec.replicas(role)).map(move |rank| ReplicaId::new(role, rank));
    let ids: Vec<ReplicaId> = Role::ALL.into_iter().flat_map(of_role).collect();
    let workspace = PathBuf::from(workspace(submission));
    let node = |id: &ReplicaId| Node {
        name: pod_name(submission, *id),
        address: host(submission, *id),
        nic: String::new(),
        paddle: "paddle".to_owned(),
        workspace: workspace.clone(),
        directory: workspace.clone(),
        owns_workspace: false,
        env: BTreeMap::new(),
    };
    let plan = |(index, id): (usize, &ReplicaId)| {
        let told = told(submission, place, id.role)?;
        let log_dir = own_dir(&told, *id).to_string_lossy().into_owned();
        Ok(ReplicaPlan {
            id: *id,
            node: index,
            argv: command(submission, id.role),
            first: Vec::new(),
            again: Vec::new(),
            environment: Environment {
                rank: Some(id.rank),
                address: host(submission, *id),
                pod_name: pod_name(submission, *id),
                namespace: place.namespace.clone(),
                token: Some(submission.token.clone()),
                log_dir,
                ..told
            },
            extra: spec.env.clone(),
            directory: workspace.clone(),
            log: log(submission, place, *id)?,
            metrics: match id.role {
                Role::Trainer => Some(figures(submission, place, *id)?),
                Role::Pserver | Role::Master => None,
            },
            resources: *spec.resources.of(id.role),
            confinement: Confinement::default(),
            introduces: false,
        })
    };
    Ok(JobPlan {
        job: spec.name.clone(),
        nodes: ids.iter().map(node).collect(),
        replicas: ids.iter().enumerate().map(plan).collect::<Result<_>>()?,
        policy: policy(spec),
    })
}

/// Where a replica's entry writes what its program prints.
pub(super) fn log(
    submission: &Submission,
    place: &KubernetesPlace,
    replica: ReplicaId,
) -> Result<PathBuf> {
    let told = told(submission, place, replica.role)?;
    Ok(Path::new(&told.log_dir).join(format!("{replica}.log")))
}

/// Where a trainer writes its figures.
pub(super) fn figures(
    submission: &Submission,
    place: &KubernetesPlace,
    replica: ReplicaId,
) -> Result<PathBuf> {
    let told = told(submission, place, replica.role)?;
    Ok(own_dir(&told, replica).join("metrics.jsonl"))
}

/// The folder for logs that a replica's entry tells its program, beside those of the other replicas.
fn own_dir(told: &Environment, replica: ReplicaId) -> PathBuf {
    Path::new(&told.log_dir).join(replica.to_string())
}

/// What every pod of a role is told. Rank, name, address and its own folder for logs are not.
fn told(submission: &Submission, place: &KubernetesPlace, role: Role) -> Result<Environment> {
    let spec = &submission.spec;
    let job = name(&submission.id);
    let endpoints = |role: Role| -> Result<Vec<Endpoint>> {
        let count = if role == Role::Trainer { spec.trainers_max() } else { spec.replicas(role) };
        (0..count).map(|rank| host(submission, ReplicaId::new(role, rank)).parse()).collect()
    };
    let workspace = workspace(submission);
    let below = |dir: &str| Path::new(&workspace).join(dir).to_string_lossy().into_owned();
    let log_dir = below(&spec.log_dir);
    let is_kept = is_on_volume(place, &log_dir);
    let master = ReplicaId::new(Role::Master, 0);
    let master = spec.master.then(|| Endpoint::new(&host(submission, master), MASTER_PORT));
    Ok(Environment {
        package: workspace.clone(),
        log_dir: if is_kept { format!("{log_dir}/{job}") } else { PODS_OWN_LOGS.to_owned() },
        output_dir: below(&spec.output_dir),
        checkpoint_dir: checkpoint_dir(submission).unwrap_or_default(),
        checkpoint_interval_seconds: spec.checkpoint.interval_seconds,
        restore: restore(spec),
        trainer_hosts: endpoints(Role::Trainer)?,
        pserver_endpoints: endpoints(Role::Pserver)?,
        master: master.transpose()?,
        ports: spec.ports,
        ..Environment::of(spec, role, 0)
    })
}

fn environment(submission: &Submission, place: &KubernetesPlace, role: Role) -> Result<Vec<Value>> {
    let (spec, job) = (&submission.spec, name(&submission.id));
    let told = told(submission, place, role)?;
    let secret = |name: &str| env::variable(name).is_some_and(env::Variable::is_secret);
    let mut variables: Vec<Value> = spec
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), value.clone()))
        .chain(told.render())
        .filter(|(name, _)| !OWN.contains(name) && !secret(name))
        .map(|(name, value)| json!({"name": name, "value": literal(&value)}))
        .collect();
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    variables.push(field("POD_NAME", "metadata.name"));
    variables.push(field("POD_IP", "status.podIP"));
    variables.push(field("NAMESPACE", "metadata.namespace"));
    let key = json!({"name": job.as_str(), "key": TOKEN_KEY});
    variables.push(json!({"name": "PADDLE_JOB_TOKEN", "valueFrom": {"secretKeyRef": key}}));
    Ok(variables)
}

/// Kubernetes would replace `$(NAME)`, and `$$` by `$`, in values and arguments.
fn literal(value: &str) -> String {
    value.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::volcano::job;
    use crate::submission::{RunAs, sample};
    use contract::job::Priority;

    fn place() -> KubernetesPlace {
        KubernetesPlace {
            namespace: "wuyi".into(),
            image: "paddlecloud/paddle:v1".into(),
            pull_secrets: vec!["registry".into()],
            volumes: vec![Volume {
                source: VolumeSource::Claim { claim: "home".into() },
                path: "/pfs/dc1/home/wuyi".into(),
                sub_path: "home/wuyi".into(),
                is_read_only: false,
                here: None,
            }],
            ..KubernetesPlace::default()
        }
    }

    fn submission(spec: JobSpec) -> Submission {
        Submission { package: Package::Present("/workspace/ctr".into()), ..sample(spec) }
    }

    fn show(manifest: &Value) -> String {
        serde_yaml_ng::to_string(manifest).unwrap()
    }

    #[test]
    fn a_small_job_says_no_more_than_it_has_to() {
        let spec = JobSpec { trainers: 1, ..JobSpec::default() };
        insta::assert_snapshot!(show(&job(&submission(spec), &place()).unwrap()));
    }

    #[test]
    fn every_field_is_in_the_manifest() {
        let mut spec = JobSpec {
            trainers: 2,
            pservers: 2,
            master: true,
            restarts: 3,
            queue: "fast".into(),
            priority: Priority::High,
            time_limit_seconds: Some(3600),
            metrics_port: Some(9100),
            registry: "mine".into(),
            log_dir: "/pfs/dc1/home/wuyi/log".into(),
            ..JobSpec::default()
        };
        spec.resources.trainer = Resources {
            cpu: Some(Quantity::from_milli(1500)),
            memory: Some("2Gi".parse().unwrap()),
            gpu: Quantity::whole(1),
        };
        spec.checkpoint.dir = "/pfs/dc1/home/wuyi/checkpoint".into();
        spec.checkpoint.interval_seconds = Some(60);
        spec.data.files = vec!["/pfs/dc1/home/wuyi/*.recordio".into()];
        spec.env.insert("MINE".into(), "a $(b) $$".into());
        let run_as = Some(RunAs { uid: 1000, gid: 1000 });
        let submission = Submission { run_as, ..submission(spec) };
        insta::assert_snapshot!(show(&job(&submission, &place()).unwrap()));
    }

    #[test]
    fn a_claim_of_the_jobs_own_is_given_to_its_group() {
        let run_as = Some(RunAs { uid: 1000, gid: 2000 });
        let submission = Submission { run_as, ..submission(JobSpec::default()) };
        let check = |change: fn(&mut Volume), expected: Value| {
            let mut place = place();
            place.volumes[0].sub_path.clear();
            change(&mut place.volumes[0]);
            let pod = pod(&submission, &place, Role::Trainer).unwrap();
            assert_eq!(pod["securityContext"]["fsGroup"], expected, "{:?}", place.volumes);
        };
        check(|_| {}, json!(2000));
        check(|own| own.is_read_only = true, Value::Null);
        check(|own| own.source = VolumeSource::HostPath { path: "/data".into() }, Value::Null);
        // Other users' files are on it, too.
        check(|own| own.sub_path = "home/wuyi".into(), Value::Null);
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        let check = |change: fn(&mut Submission), field: &str| {
            let mut submission = submission(JobSpec { pservers: 1, ..JobSpec::default() });
            change(&mut submission);
            let error = super::check(&submission, &place()).unwrap_err().to_string();
            assert!(error.contains(field), "{field}: {error}");
        };
        check(|job| job.spec.ports.first = 0, "port cannot be honoured");
        check(|job| job.spec.checkpoint.dir = "checkpoint".into(), "checkpoint_dir cannot");
        let read_only = KubernetesPlace {
            volumes: vec![
                place().volumes.remove(0),
                Volume {
                    path: "/pfs/dc1/home/wuyi/data".into(),
                    is_read_only: true,
                    ..place().volumes.remove(0)
                },
            ],
            ..place()
        };
        let mut job = submission(JobSpec::default());
        job.spec.checkpoint.dir = "/pfs/dc1/home/wuyi/data/checkpoint".into();
        let error = super::check(&job, &read_only).unwrap_err().to_string();
        assert!(error.contains("a volume that pods may write to"), "{error}");
        job.spec.checkpoint.dir = "/pfs/dc1/home/wuyi/checkpoint".into();
        super::check(&job, &read_only).unwrap();
        check(|job| job.package = Package::Present("here".into()), "package: here");
        check(
            |job| {
                job.mounts.push(crate::submission::Mount {
                    source: "/a".into(),
                    target: "/b".into(),
                    is_read_only: true,
                });
            },
            "mounts cannot be honoured",
        );
    }

    #[test]
    fn the_secret_has_the_job_and_its_token_and_nothing_else_has() {
        let submission = submission(JobSpec { pservers: 1, ..JobSpec::default() });
        let secret = secret(&submission, Some(b"package")).unwrap();
        assert_eq!(secret["stringData"][TOKEN_KEY], "sesame");
        assert_eq!(secret["data"][PACKAGE_KEY], "cGFja2FnZQ==");
        let job = job(&submission, &place()).unwrap().to_string();
        assert!(!job.contains("sesame"), "{job}");
    }
}
