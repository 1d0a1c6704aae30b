//! The people who use a cloud: one administrator, over many connections.

use crate::http::Connection;
use crate::pretend::{QUICK, TALKER};
use crate::serve::{EMBEDDED, Server};
use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::AnyPool;
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

const DATACENTER: &str = "/api/v2/datacenters/local";
/// Connections that ask as fast as they get answers.
const CONNECTIONS: usize = 8;
/// Requests per second where latency is measured: what a few hundred people with open lists make.
const RATE: u32 = 100;
const PACED_CONNECTIONS: u32 = 4;

/// Everybody, logged in.
pub(crate) struct People {
    address: String,
    token: String,
}

impl People {
    /// Logs in, and makes jobs that have ended and jobs that run.
    pub(crate) async fn prepare(server: &mut Server, history: u32, running: u32) -> People {
        let mut connection = Connection::open(&server.address).await;
        let login = json!({"username": "admin", "password": server.password});
        let session = connection.call("POST", "/api/v2/login", "", &login).await;
        let session: Value = serde_json::from_slice(&session).unwrap();
        let token = session["token"].as_str().unwrap().to_owned();
        let people = People { address: server.address.clone(), token };
        let folder = json!({"path": "/pfs/local/home/admin/program"});
        people.post(&mut connection, "/api/v2/files/directories", &folder).await;
        people.submit(&mut connection, QUICK).await;
        people.until(&mut connection, QUICK, "succeeded").await;
        if history > 0 {
            repeat_in_history(server, history - 1).await;
        }
        if running > 0 {
            people.submit(&mut connection, TALKER).await;
            people.until(&mut connection, TALKER, "running").await;
        }
        if running > 1 {
            repeat_running(server, running - 1).await;
            people.until_all_run(&mut connection, running).await;
            server.settle().await;
        }
        people
    }

    async fn post(&self, connection: &mut Connection, path: &str, body: &Value) -> Vec<u8> {
        connection.call("POST", path, &self.token, body).await
    }

    async fn submit(&self, connection: &mut Connection, name: &str) {
        let spec = json!({
            "name": name, "entry": "python train.py", "trainers": 2, "pservers": 2,
            "package": "/pfs/local/home/admin/program", "version": contract::job::JobSpec::VERSION,
        });
        let body = json!({"request": name, "spec": spec, "package": null});
        self.post(connection, &format!("{DATACENTER}/jobs"), &body).await;
    }

    async fn until(&self, connection: &mut Connection, name: &str, state: &str) {
        loop {
            let path = format!("{DATACENTER}/jobs/{name}");
            let job: Value =
                serde_json::from_slice(&connection.get(&path, &self.token).await).unwrap();
            if job["state"] == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn until_all_run(&self, connection: &mut Connection, running: u32) {
        loop {
            let path = format!("{DATACENTER}/jobs?state=running&limit=1000");
            let page: Value =
                serde_json::from_slice(&connection.get(&path, &self.token).await).unwrap();
            if page["items"].as_array().unwrap().len() >= running.min(1000) as usize {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// What `paddlecloud get jobs` asks.
    pub(crate) fn jobs_path(&self) -> String {
        format!("{DATACENTER}/jobs?active=false&limit=100")
    }

    /// Asks on several connections, on each as soon as the last answer is there.
    pub(crate) async fn as_fast_as_possible(&self, path: &str, time: Duration) -> Value {
        let begun = Instant::now();
        let ask = async || {
            let mut connection = Connection::open(&self.address).await;
            let mut latencies = Vec::new();
            while begun.elapsed() < time {
                let asked = Instant::now();
                connection.get(path, &self.token).await;
                latencies.push(asked.elapsed());
            }
            latencies
        };
        let latencies = join_all((0..CONNECTIONS).map(|_| ask())).await.concat();
        let rate = latencies.len() as f64 / begun.elapsed().as_secs_f64();
        with_latencies(latencies, json!({"requests_per_second": rate}))
    }

    /// Asks for the jobs at a fixed rate, while logs are followed. A request that has to wait for
    /// one before it counts from when it should have been made.
    pub(crate) async fn paced(&self, followers: usize, time: Duration) -> Value {
        let followed: Vec<_> = (0..followers)
            .map(|_| {
                let (address, token) = (self.address.clone(), self.token.clone());
                let path = format!("{DATACENTER}/jobs/{TALKER}/logs?follow=true&tail=10");
                tokio::spawn(async move {
                    Connection::open(&address).await.follow(&path, &token).await;
                })
            })
            .collect();
        // They have all begun when the newest of them is answered.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let path = self.jobs_path();
        let begun = tokio::time::Instant::now();
        let step = Duration::from_secs(1) * PACED_CONNECTIONS / RATE;
        let ask = async |offset: u32| {
            let mut connection = Connection::open(&self.address).await;
            let mut due = begun + step * offset / PACED_CONNECTIONS;
            let mut latencies = Vec::new();
            while due < begun + time {
                sleep_until(due).await;
                connection.get(&path, &self.token).await;
                latencies.push(due.elapsed());
                due += step;
            }
            latencies
        };
        let latencies = join_all((0..PACED_CONNECTIONS).map(ask)).await.concat();
        for follower in followed {
            assert!(!follower.is_finished(), "a follower was cut off");
            follower.abort();
        }
        with_latencies(latencies, json!({}))
    }
}

fn with_latencies(mut latencies: Vec<Duration>, mut answer: Value) -> Value {
    latencies.sort_unstable();
    for (name, part) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
        let place = (latencies.len() as f64 * part) as usize;
        answer[name] = json!(latencies[place].as_secs_f64() * 1000.0);
    }
    answer
}

/// Copies the job that runs: the server finds them as it finds those that another server started,
/// and the backend knows them by their ids.
async fn repeat_running(server: &Server, count: u32) {
    let pool = connect(server).await;
    let others = "username, datacenter, spec, package, stage, state, reason, exit_code, cpu_milli, \
                  memory_bytes, gpu_milli, replicas, trainers, started_ms, ended_ms, kill_ms, \
                  is_kill_forced, is_removed_at_end, attempts, retry_ms, notes, revision, \
                  is_forgotten, summary";
    let copy = format!(
        "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < \
         {count}) INSERT INTO jobs (uid, request, name, submitted_ms, change, workers, {others}) \
         SELECT uid || '-' || i, request || i, 'running-' || i, submitted_ms - i, \
         (SELECT value FROM counters WHERE name = 'change') + i, \
         replace(workers, '{TALKER}-', 'running-' || i || '-'), {others} \
         FROM jobs, numbers WHERE name = '{TALKER}'"
    );
    let count = format!("UPDATE counters SET value = value + {count} WHERE name = 'change'");
    let mut write = pool.begin().await.unwrap();
    sqlx::query(&copy).execute(&mut *write).await.unwrap();
    sqlx::query(&count).execute(&mut *write).await.unwrap();
    write.commit().await.unwrap();
    pool.close().await;
}

async fn connect(server: &Server) -> AnyPool {
    sqlx::any::install_default_drivers();
    let url = match server.database.as_str() {
        EMBEDDED => format!("sqlite://{}/cloud.db", server.data_dir),
        url => url.to_owned(),
    };
    AnyPool::connect(&url).await.unwrap()
}

/// Copies the job that has ended: what a list reads is the same, whoever wrote it.
async fn repeat_in_history(server: &Server, count: u32) {
    let pool = connect(server).await;
    let others = "username, datacenter, spec, package, stage, state, reason, exit_code, cpu_milli, \
                  memory_bytes, gpu_milli, replicas, trainers, started_ms, ended_ms, kill_ms, \
                  is_kill_forced, is_removed_at_end, attempts, retry_ms, workers, notes, revision, \
                  change, summary";
    let sql = format!(
        "WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < \
         {count}) INSERT INTO jobs (uid, request, name, submitted_ms, is_forgotten, {others}) \
         SELECT uid || '-' || i, request || i, name || '-' || i, submitted_ms - i, 1, {others} \
         FROM jobs, numbers WHERE name = '{QUICK}'"
    );
    sqlx::query(&sql).execute(&pool).await.unwrap();
    pool.close().await;
}
