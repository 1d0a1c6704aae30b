//! Disks that do not answer: servers say so, and their end does not wait for ever.

use crate::client::{Servers, model, step};
use contract::mode::Mode;
use contract::port::{Endpoint, Ports};
use pserver::client::{Client, ClientConfig, fresh_incarnation};
use pserver::server::{Checkpointing, Disk, ServerConfig, serve_port};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout};
use wire::{Dial, Dialling, Listener, Socket, Stream};

/// Takes nothing until it may.
#[derive(Debug)]
struct Gate(watch::Receiver<bool>);

impl Disk for Gate {
    fn write(&self, _: usize) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> {
        let mut may = self.0.clone();
        Box::pin(async move {
            // Nobody opens it any more: it stays as it is.
            if may.wait_for(|may| *may).await.is_err() {
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }
}

fn config(folder: &tempfile::TempDir, gate: watch::Receiver<bool>) -> ServerConfig {
    let checkpoint = Checkpointing {
        folder: folder.path().to_owned(),
        keep: 1,
        interval: None,
        disk: Some(Arc::new(Gate(gate))),
    };
    ServerConfig { checkpoint: Some(checkpoint), ..ServerConfig::new(1, 9) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trainer_that_died_behind_its_goodbye_hears_so_while_the_last_checkpoint_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (open, gate) = watch::channel(false);
    let servers = Servers::start(1, 1, 1, &config(&folder, gate));
    let connect = |attempt| {
        let config = ClientConfig { attempt: Some(attempt), ..servers.config(0, 1, Mode::Sync) };
        Client::connect(config, servers.endpoints.clone())
    };
    let client = connect(1).await.unwrap();
    client.begin().await.unwrap();
    step(&client, 0).await;
    client.goodbye().await.unwrap();
    let again = connect(2).await.unwrap();
    assert!(again.start().has_left);
    again.goodbye().await.unwrap();
    open.send_replace(true);
    for said in servers.join() {
        let said = said.unwrap();
        assert_eq!(said.goodbyes, Some(vec![(0, 1)]), "the first has finished");
        assert!(!said.was_stopped && !said.is_unsaved);
    }
}

/// A network that reaches one port.
#[derive(Debug)]
struct Wire(mpsc::UnboundedSender<Socket>);

impl Dial for Wire {
    fn dial<'a>(&'a self, _: &'a str) -> Dialling<'a> {
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(1 << 16);
            let refused = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
            self.0.send(Socket::Other(Box::new(far), "trainer".to_owned())).map_err(refused)?;
            Ok(Box::new(near) as Box<dyn Stream>)
        })
    }
}

/// How long a server that is asked to end, or of which another port has failed, waits for a disk
/// that takes nothing of the checkpoint under way.
async fn time_to_end(has_failed: bool) -> Duration {
    let folder = tempfile::tempdir().unwrap();
    let (_open, gate) = watch::channel(false);
    let config = config(&folder, gate);
    let ((stop, stopped), (fail, failed)) = (watch::channel(false), watch::channel(false));
    let (sockets, incoming) = mpsc::unbounded_channel();
    let serving = tokio::task::spawn_local(async move {
        serve_port(vec![Listener::Other(incoming)], &config, [stopped, failed]).await
    });
    let client = ClientConfig {
        ports: Ports { dense: 1, sparse: 0, ..Ports::default() },
        dial: Some(Arc::new(Wire(sockets))),
        ..ClientConfig::new(0, 1, fresh_incarnation(), model(Mode::Async))
    };
    let endpoints = vec![Endpoint::new("server", 7164).unwrap()];
    let client = Client::connect(client, endpoints).await.unwrap();
    client.begin().await.unwrap();
    client.checkpoint().await.unwrap();
    let begun = Instant::now();
    if has_failed {
        fail.send_replace(true);
    } else {
        stop.send_replace(true);
    }
    timeout(Duration::from_secs(3600), serving).await.unwrap().unwrap().unwrap();
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_server_does_not_wait_for_ever_for_a_disk_that_takes_nothing() {
    LocalSet::new()
        .run_until(async {
            let patient = time_to_end(false).await.as_secs();
            assert!((600..620).contains(&patient), "{patient}");
            let failed = time_to_end(true).await.as_secs();
            assert!((60..80).contains(&failed), "{failed}");
        })
        .await;
}
