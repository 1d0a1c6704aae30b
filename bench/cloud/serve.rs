//! The server's process: a cloud whose jobs run nowhere.

use crate::pretend::Pretend;
use cloud::{Config, Outside};
use scheduler::jobs::Paddle;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

const SECOND: Duration = Duration::from_secs(1);
/// In this time the pauses between two looks at a job have become as long as they get.
const SETTLE: Duration = Duration::from_secs(8);
const SETTLE_MAX: Duration = Duration::from_secs(180);

/// What stands for the SQLite file of the data directory.
pub(crate) const EMBEDDED: &str = "embedded";

/// Serves until standard input is closed.
pub(crate) fn run(data_dir: &str, database: &str) {
    // Everything is measured with one user at one address.
    let mut config = Config::from_yaml(
        "limits: {requests_per_second: 1000000, connections_per_address: 1000}\n\
         datacenters: [{name: local, capacity: {cpu: 100000, memory: 1000000Gi, replicas: 100000}}]",
    )
    .unwrap();
    config.data_dir = data_dir.into();
    config.database = (database != EMBEDDED).then(|| cloud::config::DatabaseUrl(database.into()));
    let outside = Outside {
        paddle: Paddle { program: "/bin/false".into(), release: "0".to_owned() },
        paddlecloud: "/bin/false".into(),
        environment: BTreeMap::new(),
        exposed: Vec::new(),
        machine: "here".to_owned(),
        host: "here".to_owned(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopping) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let backend = Arc::new(Pretend::default());
        let server = cloud::Server::open_on(config, outside, backend).await.unwrap();
        let password = server.started().admin_password.unwrap();
        println!("{address} {}", password.expose());
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            let _ = stop.send(true);
        });
        server.run(listener, stopping).await.unwrap();
    });
    runtime.shutdown_background();
}

/// A server process.
pub(crate) struct Server {
    process: Child,
    /// Closed, it ends the server.
    input: Option<ChildStdin>,
    pub(crate) address: String,
    pub(crate) password: String,
    pub(crate) data_dir: String,
    pub(crate) database: String,
}

impl Server {
    pub(crate) fn start(data_dir: &str, database: &str) -> Server {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["serve", data_dir, database])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, password) = line.trim().split_once(' ').unwrap();
        Server {
            input: process.stdin.take(),
            address: address.to_owned(),
            password: password.to_owned(),
            data_dir: data_dir.to_owned(),
            database: database.to_owned(),
            process,
        }
    }

    /// Waits until the jobs that it took up are looked at as rarely as they will be.
    pub(crate) async fn settle(&self) {
        let began = Instant::now();
        let mut last = f64::MAX;
        loop {
            let before = self.processor_seconds();
            tokio::time::sleep(SECOND).await;
            let used = self.processor_seconds() - before;
            if began.elapsed() > SETTLE && used > 0.9 * last {
                return;
            }
            assert!(began.elapsed() < SETTLE_MAX, "the server does not come to rest");
            last = used;
        }
    }

    /// What it has used of the processors.
    pub(crate) fn processor_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        // Fields 14 and 15, counted from the end of the name, which may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: f64 = [11, 12].iter().map(|place| fields[*place].parse::<f64>().unwrap()).sum();
        ticks / rustix::param::clock_ticks_per_second() as f64
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.process.wait();
    }
}
