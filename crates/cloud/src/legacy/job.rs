//! Jobs, their workers, logs and quotas in the original's envelopes: dictionaries of Kubernetes
//! objects with the keys that its client reads.

use super::body::SubmitBody;
use super::{coded, locate, place, time};
use crate::Cloud;
use crate::audit::Deed;
use crate::http::{Answer, Body, Caller, Question};
use crate::jobs::row::JobRow;
use crate::jobs::service;
use crate::logs::service::{Wanted, read_at_once};
use axum::Json;
use axum::extract::State;
use contract::api::job::{JobQuery, Kill, Submit};
use contract::api::log::LogQuery;
use contract::path::PfsPath;
use contract::role::Role;
use contract::state::{JobState, ReplicaState};
use contract::{Error, Kind, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The most jobs that are shown; the original has no pages.
const JOBS_MAX: u32 = contract::api::PAGE_ROWS_MAX;

/// The newest job of each name, in all datacenters; those that have not ended, whatever the number
/// of those that came later. Those that were killed are gone, as they are in the original.
async fn newest(cloud: &Cloud, caller: &Caller) -> Result<Vec<JobRow>> {
    let mut rows = Vec::new();
    for datacenter in cloud.datacenters.keys() {
        for active in [false, true] {
            let query = JobQuery { limit: Some(JOBS_MAX), active, ..JobQuery::default() };
            rows.extend(service::rows(cloud, caller, datacenter, &query).await?);
        }
    }
    let mut seen = BTreeSet::new();
    rows.retain(|row| seen.insert((row.datacenter.clone(), row.name.clone())));
    rows.retain(|row| row.state != JobState::Killed);
    Ok(rows)
}

/// The newest job of a name, in whichever datacenter it is.
async fn find(cloud: &Cloud, caller: &Caller, name: &str) -> Result<JobRow> {
    let mut found: Option<JobRow> = None;
    for datacenter in cloud.datacenters.keys() {
        match service::find(cloud, caller, datacenter, name).await {
            Ok(row) if found.as_ref().is_none_or(|old| old.submitted_ms < row.submitted_ms) => {
                found = Some(row);
            }
            Ok(_) => {}
            Err(error) if error.kind() == Kind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    found.ok_or_else(|| Error::new(Kind::NotFound, "there is no such job").with("job", name))
}

/// The jobs of the caller, as a list of Kubernetes jobs.
pub(super) async fn list(State(cloud): State<Arc<Cloud>>, caller: Caller) -> Answer<Json<Value>> {
    let rows = newest(&cloud, &caller).await?;
    let (ending, rows): (Vec<JobRow>, Vec<JobRow>) =
        rows.into_iter().partition(|row| row.state == JobState::Killing);
    let item = |row: &JobRow| {
        let job = row.job();
        json!({
            "metadata": {
                "name": format!("{}-trainer", row.name),
                "namespace": row.username,
                "creation_timestamp": time(Some(row.submitted_ms)),
            },
            "spec": {"parallelism": row.trainers, "completions": row.trainers},
            "status": {
                "active": job.active,
                "succeeded": job.succeeded,
                "failed": job.failed,
                "start_time": time(row.started_ms),
                "completion_time": time(row.ended_ms),
            },
        })
    };
    let items: Vec<Value> = rows.iter().map(item).collect();
    let terminating: Vec<&str> = ending.iter().map(|row| row.name.as_str()).collect();
    Ok(Json(json!({
        "kind": "JobList",
        "api_version": "batch/v1",
        "items": items,
        "terminating": terminating,
    })))
}

/// The servers of the caller's jobs, as a list of Kubernetes replica sets.
pub(super) async fn pservers(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
) -> Answer<Json<Value>> {
    let rows = newest(&cloud, &caller).await?;
    let item = |row: &JobRow| {
        json!({
            "metadata": {"name": format!("{}-pserver", row.name), "namespace": row.username},
            "spec": {"replicas": row.spec.pservers},
            "status": {
                "replicas": row.spec.pservers,
                "ready_replicas": row.job().pservers_ready,
            },
        })
    };
    let rows = rows.iter().filter(|row| row.spec.pservers > 0);
    let items: Vec<Value> = rows.map(item).collect();
    Ok(Json(json!({
        "kind": "ReplicaSetList",
        "api_version": "extensions/v1beta1",
        "items": items,
    })))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WorkersQuery {
    jobname: String,
}

/// The trainers of a job, or of all jobs, as a list of Kubernetes pods.
pub(super) async fn workers(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<WorkersQuery>,
) -> Answer<Json<Value>> {
    let rows = match query.jobname.as_str() {
        "" => newest(&cloud, &caller).await?,
        name => match find(&cloud, &caller, name).await {
            Ok(row) => vec![row],
            Err(error) if error.kind() == Kind::NotFound => Vec::new(),
            Err(error) => return Err(error.into()),
        },
    };
    let mut items = Vec::new();
    for row in &rows {
        for worker in row.workers.iter().filter(|worker| worker.role == Role::Trainer) {
            let terminated = worker
                .exit_code
                .map_or(Value::Null, |code| json!({"exit_code": code, "message": worker.message}));
            items.push(json!({
                "metadata": {
                    "name": worker.name,
                    "namespace": row.username,
                    "labels": {"paddle-job": row.name},
                },
                "status": {
                    "phase": phase(worker.state),
                    "start_time": time(worker.started_ms),
                    "pod_ip": worker.host,
                    "container_statuses": [
                        {"name": "trainer", "state": {"terminated": terminated}},
                    ],
                },
            }));
        }
    }
    Ok(Json(json!({"kind": "PodList", "api_version": "v1", "items": items})))
}

/// Accepts a job.
pub(super) async fn submit(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(body): Body<Value>,
) -> Answer<Json<Value>> {
    let name = body["name"].as_str().unwrap_or_default().to_owned();
    let result = try_submit(&cloud, &caller, body).await;
    cloud.audit(Deed::of(&caller, "job.submit", &name), result.as_ref()).await;
    Ok(Json(match result {
        Ok(()) => json!({"code": 200, "msg": ""}),
        Err(error) => json!({"msg": error.to_string()}),
    }))
}

async fn try_submit(cloud: &Arc<Cloud>, caller: &Caller, body: Value) -> Result<()> {
    let body: SubmitBody = serde_json::from_value(body)
        .map_err(|error| Error::invalid(format!("the body cannot be read: {error}")))?;
    let mut spec = body.spec()?;
    let place = place(cloud, &body.datacenter)?;
    // A package that lies in the cloud is named; another was sent to the original's place for it.
    let is_named = body.job_package.starts_with("/pfs/");
    let named = is_named.then(|| locate(cloud, &body.job_package)).transpose()?;
    // Whether others have it is not for this caller to find out.
    let is_foreign =
        |path: &PfsPath| path.owner().is_some_and(|owner| owner != caller.username.as_str());
    let package = match named {
        Some(named) if is_foreign(&named) || service::has_directory(place, &named).await? => named,
        _ => PfsPath::home(&place.name, &caller.username)?.join(&format!("jobs/{}", body.name))?,
    };
    spec.package = package.to_string();
    let request = crate::random::word::<20>()?;
    let submit = Submit { request, spec, package: None };
    service::submit(cloud, caller, &place.name, submit).await.map(|_| ())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KillBody {
    jobname: String,
}

/// Ends a job.
pub(super) async fn kill(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Body(body): Body<KillBody>,
) -> Answer<Json<Value>> {
    let result = try_kill(&cloud, &caller, &body.jobname).await;
    cloud.audit(Deed::of(&caller, "job.kill", &body.jobname), result.as_ref()).await;
    Ok(coded(result, 500))
}

async fn try_kill(cloud: &Cloud, caller: &Caller, name: &str) -> Result<()> {
    let row = find(cloud, caller, name).await?;
    service::kill(cloud, caller, &row.datacenter, &row.uid, &Kill::default()).await.map(|_| ())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LogsQuery {
    jobname: String,
    n: String,
    w: String,
}

/// What the trainers of a job printed.
pub(super) async fn logs(
    State(cloud): State<Arc<Cloud>>,
    caller: Caller,
    Question(query): Question<LogsQuery>,
) -> Answer<Json<Value>> {
    Ok(Json(match try_logs(&cloud, &caller, &query).await {
        Ok(text) => json!({"code": 200, "msg": text}),
        Err(error) => json!({"code": 500, "msg": error.to_string()}),
    }))
}

async fn try_logs(cloud: &Cloud, caller: &Caller, query: &LogsQuery) -> Result<String> {
    let row = find(cloud, caller, &query.jobname).await?;
    let tail = match query.n.as_str() {
        "" => None,
        n => Some(n.parse().map_err(|_| Error::invalid("n: use a number of lines").with("n", n))?),
    };
    let worker = Some(query.w.clone()).filter(|worker| !worker.is_empty());
    let is_one = worker.is_some();
    let role = (!is_one).then_some(Role::Trainer);
    let wanted = Wanted::of(&row, &LogQuery { worker, role, tail, ..LogQuery::default() })?;
    let datacenter = Arc::clone(cloud.datacenter(&row.datacenter)?);
    let (pieces, left) = read_at_once(&datacenter, row, wanted).await?;
    let mut text = String::new();
    let mut last = None;
    for piece in &pieces {
        if !is_one && last != Some(&piece.worker) {
            let line = "=".repeat(26);
            text.push_str(&format!("{line}{}{line}\n", piece.worker));
            last = Some(&piece.worker);
        }
        text.push_str(&piece.text);
    }
    if left > 0 {
        text.push_str(&format!("\n[{left} bytes more: `paddlecloud logs` shows all]\n"));
    }
    Ok(text)
}

/// The limits of the caller in each datacenter, as a list of Kubernetes quotas. What is not limited
/// is left out of `hard`, but for the kinds that the original's client reads.
pub(super) async fn quota(State(cloud): State<Arc<Cloud>>, caller: Caller) -> Answer<Json<Value>> {
    const UNLIMITED: &str = "unlimited";
    let mut items = Vec::new();
    for datacenter in cloud.datacenters.keys() {
        let quota = crate::quotas::quota(&cloud, datacenter, &caller.username).await?;
        let (limits, used) = (quota.limits, quota.used);
        let shown = |limit: Option<String>| limit.unwrap_or_else(|| UNLIMITED.to_owned());
        items.push(json!({
            "metadata": {"name": datacenter, "namespace": caller.username},
            "status": {
                "hard": {
                    "requests.cpu": shown(limits.cpu.map(|limit| limit.to_string())),
                    "requests.memory": shown(limits.memory.map(|limit| limit.to_string())),
                    "alpha.kubernetes.io/nvidia-gpu":
                        shown(limits.gpu.map(|limit| limit.to_string())),
                    "pods": shown(limits.replicas.map(|limit| limit.to_string())),
                },
                "used": {
                    "requests.cpu": used.cpu.to_string(),
                    "requests.memory": used.memory.to_string(),
                    "alpha.kubernetes.io/nvidia-gpu": used.gpu.to_string(),
                    "pods": used.replicas.to_string(),
                },
            },
        }));
    }
    Ok(Json(json!({"kind": "ResourceQuotaList", "api_version": "v1", "items": items})))
}

/// The word of the original for a replica's state.
fn phase(state: ReplicaState) -> &'static str {
    match state {
        ReplicaState::Pending | ReplicaState::Starting => "Pending",
        ReplicaState::Running => "Running",
        ReplicaState::Succeeded => "Succeeded",
        ReplicaState::Failed | ReplicaState::Killed => "Failed",
        ReplicaState::Lost => "Unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::job::JobSpec;
    use std::net::{IpAddr, Ipv4Addr};

    #[tokio::test]
    async fn a_job_that_runs_is_listed_however_many_came_later() {
        let folder = tempfile::tempdir().unwrap();
        let cloud = crate::server::empty_cloud(folder.path()).await;
        let spec = JobSpec {
            name: "job".into(),
            user: "wu".into(),
            datacenter: "local".into(),
            entry: "true".into(),
            package: "/pfs/local/home/wu/jobs/job".into(),
            ..JobSpec::default()
        };
        let spec = spec.to_json().unwrap();
        let sql = format!(
            "WITH RECURSIVE numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers \
             WHERE n < {JOBS_MAX}) INSERT INTO jobs (uid, request, name, username, datacenter, \
             spec, stage, state, reason, cpu_milli, memory_bytes, gpu_milli, replicas, trainers, \
             submitted_ms, ended_ms, is_kill_forced, is_removed_at_end, attempts, retry_ms, \
             is_forgotten, workers, notes, revision, change) SELECT 'uid-' || n, 'request-' || n, \
             'job-' || n, 'wu', 'local', '{spec}', CASE n WHEN 0 THEN 'placed' ELSE 'ended' END, \
             CASE n WHEN 0 THEN 'running' ELSE 'succeeded' END, '', 1, 1, 0, 1, 1, n, \
             CASE n WHEN 0 THEN NULL ELSE n END, 0, 0, 0, 0, 0, '[]', '[]', 1, n FROM numbers"
        );
        let mut write = cloud.database.write().await.unwrap();
        sqlx::query(&sql).execute(write.connection()).await.unwrap();
        write.commit().await.unwrap();
        let wu = Caller {
            username: "wu".to_owned(),
            is_admin: false,
            token: String::new(),
            expires_ms: 0,
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        };
        let rows = newest(&cloud, &wu).await.unwrap();
        assert_eq!(rows.len(), JOBS_MAX as usize + 1);
        assert_eq!(rows.last().unwrap().name, "job-0");
    }
}
