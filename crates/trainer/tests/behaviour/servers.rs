//! Parameter servers in threads, stopped when dropped.

use contract::Result;
use contract::port::{Endpoint, Ports};
use pserver::server::{self, ServerConfig};
use std::net::TcpListener;
use std::thread::JoinHandle;
use tokio::sync::watch;
use trainer::RemoteConfig;

pub(crate) struct Servers {
    endpoints: Vec<Endpoint>,
    trainers: u32,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<Result<()>>>,
}

impl Servers {
    pub(crate) fn start(count: usize, trainers: u32) -> Self {
        let (stop, _) = watch::channel(false);
        let mut servers = Servers { endpoints: Vec::new(), trainers, stop, threads: Vec::new() };
        for number in 0..count {
            let (first, listeners) = listen();
            servers.endpoints.push(Endpoint::new("127.0.0.1", first).unwrap());
            let stop = servers.stop.subscribe();
            let config = ServerConfig::new(trainers, number as u64 + 1);
            let run = move || server::run(listeners, &config, &stop).map(|_| ());
            servers.threads.push(std::thread::spawn(run));
        }
        servers
    }

    pub(crate) fn config(&self, rank: u32) -> RemoteConfig {
        let mut config = RemoteConfig::new(rank, self.trainers, self.endpoints.clone());
        config.client.ports = Ports { dense: 1, sparse: 1, ..Ports::default() };
        config
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Two consecutive free ports, a dense and a sparse one.
fn listen() -> (u16, Vec<Vec<TcpListener>>) {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if let Some(next) = port.checked_add(1)
            && let Ok(second) = TcpListener::bind(("127.0.0.1", next))
        {
            return (port, vec![vec![first], vec![second]]);
        }
    }
}
