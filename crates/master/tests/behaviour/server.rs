//! Server and client over real sockets: trainers that share, die and wait, a master that dies, peers
//! that lie, and connections that break anywhere.

use super::data::{read, text};
use contract::port::Endpoint;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use master::client::{Blocking, Client, ClientConfig, Next, Retry, fresh_incarnation, tls};
use master::message::{KIND, SERVICE};
use master::queue::Rules;
use master::server::{Master, ServerConfig};
use master::task::{Lease, Task};
use std::net::TcpListener;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

/// Longer than anything takes on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);

/// A master in a thread, stopped when dropped.
struct Server {
    port: u16,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<Result<u32>>>,
}

impl Server {
    fn start(config: ServerConfig) -> Self {
        Server::start_at(TcpListener::bind("127.0.0.1:0").unwrap(), config)
    }

    fn start_at(listener: TcpListener, config: ServerConfig) -> Self {
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = watch::channel(false);
        let master = Master::open(config).unwrap();
        let thread = std::thread::spawn(move || master.run(vec![listener], &stopped));
        Server { port, stop, thread: Some(thread) }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::new("127.0.0.1", self.port).unwrap()
    }

    async fn connect(&self, name: &str) -> Client {
        Client::connect(config(name), &self.endpoint()).await.unwrap()
    }

    fn stop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn config(name: &str) -> ClientConfig {
    let retry = Retry {
        first_delay: Duration::from_millis(1),
        delay_max: Duration::from_millis(20),
        deadline: PATIENCE,
        ..Retry::default()
    };
    ClientConfig { name: name.to_owned(), retry, ..ClientConfig::new(fresh_incarnation()) }
}

/// A master of a text file in a folder, a line a task.
fn of_lines(folder: &Path, lines: u64, lease: Duration) -> ServerConfig {
    let dataset = text(folder, "lines", lines);
    ServerConfig {
        rules: Rules { lease, ..Rules::default() },
        split: master::dataset::Split {
            pieces_per_task: Some(1),
            text_piece_bytes: 1,
            trainers: 1,
        },
        dataset: dataset.patterns().to_vec(),
        ..ServerConfig::new(1)
    }
}

const LONG: Duration = Duration::from_secs(60);
/// A lease that a test lets run out; renewing one must not fail because the machine is slow.
const SHORT: Duration = Duration::from_secs(3);

async fn task(client: &Client) -> Task {
    match client.next_task(PATIENCE).await.unwrap() {
        Next::Task(task) => task,
        other => panic!("{other:?}"),
    }
}

/// Reads and finishes tasks until the pass is over; the records.
async fn train(client: &Client) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    loop {
        match client.next_task(PATIENCE).await.unwrap() {
            Next::Task(task) => {
                let lease = task.lease();
                records.extend(read(task.pieces).unwrap());
                assert!(client.finish(lease, None).await.unwrap());
            }
            Next::PassOver(over) => {
                assert_eq!(over.set_aside, 0);
                return records;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trainers_share_a_pass_and_all_hear_of_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(of_lines(folder.path(), 50, LONG));
    let (ann, bob) = tokio::join!(server.connect("ann"), server.connect("bob"));
    // Both have a task of pass 0, so that neither can miss its end.
    let (of_ann, of_bob) = (task(&ann).await, task(&bob).await);
    assert!(ann.give_back(of_ann.lease()).await.unwrap());
    assert!(bob.give_back(of_bob.lease()).await.unwrap());
    let (mut all, more) = tokio::join!(train(&ann), train(&bob));
    all.extend(more);
    all.sort();
    let mut expected: Vec<_> = (0..50).map(|line| format!("lines {line}").into_bytes()).collect();
    expected.sort();
    assert_eq!(all, expected);
    assert_eq!((ann.pass(), bob.pass()), (Some(1), Some(1)));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_gets_what_another_gives_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(of_lines(folder.path(), 1, LONG));
    let (ann, bob) = (server.connect("ann").await, server.connect("bob").await);
    let failed = task(&ann).await;
    let waiting = tokio::spawn(async move { task(&bob).await });
    let pending = ann.status().await.unwrap().pending_tasks;
    assert_eq!((pending[0].task, pending[0].trainer.as_str()), (0, "ann"));
    assert!(ann.fail(failed.lease(), "no such file").await.unwrap());
    assert_eq!(waiting.await.unwrap().epoch, failed.epoch + 1);
    assert!(!ann.finish(failed.lease(), None).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_trainer_loses_its_task_and_a_slow_one_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(of_lines(folder.path(), 2, SHORT));
    let (slow, dead) = (server.connect("slow").await, server.connect("dead").await);
    let (kept, lost) = (task(&slow).await, task(&dead).await);
    drop(dead);
    let heir = server.connect("heir").await;
    let again = task(&heir).await;
    assert_eq!((again.id, again.epoch), (lost.id, 2));
    // For longer than a lease, the slow one's is renewed.
    assert_eq!(heir.next_task(2 * SHORT).await.unwrap(), Next::Wait);
    assert!(slow.has(kept.lease()));
    assert!(slow.finish(kept.lease(), None).await.unwrap());
    assert!(heir.finish(again.lease(), None).await.unwrap());
    assert_eq!(heir.status().await.unwrap().pass, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trainer_that_is_stuck_loses_its_task_to_one_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let config = of_lines(folder.path(), 1, LONG);
    let rules = Rules { stall: Duration::from_millis(50), ..config.rules };
    let server = Server::start(ServerConfig { rules, ..config });
    let (ann, bob) = (server.connect("ann").await, server.connect("bob").await);
    let stuck = task(&ann).await;
    assert_eq!(task(&bob).await.id, stuck.id);
    assert!(!ann.finish(stuck.lease(), None).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_dies_goes_on_where_it_was_and_trainers_keep_their_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let config = ServerConfig {
        state_dir: Some(folder.path().join("state")),
        ..of_lines(folder.path(), 5, LONG)
    };
    let mut server = Server::start(config.clone());
    let client = server.connect("ann").await;
    let mut records = Vec::new();
    let (mut done, mut lives) = (0, 1);
    while done < 5 {
        let held = task(&client).await;
        server.stop();
        let listener = TcpListener::bind(("127.0.0.1", server.port)).unwrap();
        server =
            Server::start_at(listener, ServerConfig { incarnation: lives + 1, ..config.clone() });
        lives += 1;
        records.extend(read(held.pieces.clone()).unwrap());
        assert!(client.finish(held.lease(), Some(1)).await.unwrap());
        done += 1;
    }
    assert_eq!(records.len(), 5);
    assert!(
        matches!(client.next_task(PATIENCE).await.unwrap(), Next::PassOver(over) if over.done == 5)
    );
    drop(server);
    let other = ServerConfig { dataset: vec!["other".to_owned()], ..config };
    assert_eq!(Master::open(other).err().unwrap().kind(), Kind::Conflict);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_dataset_counts_the_same_is_fine_and_another_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| text(folder.path(), name, 3).patterns().to_vec();
    let (first, second) = (of("first"), of("second"));
    let server = Server::start(ServerConfig::new(1));
    let client = server.connect("ann").await;
    assert_eq!(client.next_task(Duration::ZERO).await.unwrap(), Next::Wait);
    let missing = client.set_dataset(&[folder.path().join("none-*").display().to_string()]).await;
    let missing = missing.unwrap_err();
    assert_eq!(missing.kind(), Kind::NotFound);
    assert!(missing.to_string().contains("none-*"), "{missing}");
    client.set_dataset(&first).await.unwrap();
    client.set_dataset(&first).await.unwrap();
    let conflict = client.set_dataset(&second).await.unwrap_err();
    assert_eq!(conflict.kind(), Kind::Conflict);
    for name in ["first", "second"] {
        assert!(conflict.to_string().contains(name), "{conflict}");
    }
    assert_eq!(client.set_dataset(&[]).await.unwrap_err().kind(), Kind::Invalid);
    assert_eq!(task(&client).await.pieces.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_nobody_can_look_at_are_not_waited_for_without_a_limit() {
    // As a master whose file system does not answer.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port()).unwrap();
    let acceptor = wire::Acceptor::new(wire::Endpoint::new(SERVICE, 1), None).unwrap();
    tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        let mut connection = acceptor.accept(socket).await.unwrap();
        while let Some(frame) = connection.receiver.next().await.unwrap() {
            let header = frame.header.reply();
            connection.sender.send(header, &[br#"{"is_set":false}"#]).await.unwrap();
        }
    });
    let config = ClientConfig { dataset_deadline: Duration::from_millis(20), ..config("ann") };
    let client = Client::connect(config, &endpoint).await.unwrap();
    let error = client.set_dataset(&["/data/train-*".to_owned()]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    assert!(error.to_string().contains("/data/train-*"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_is_no_data_file() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let server = Server::start(ServerConfig::new(1));
    let client = server.connect("ann").await;
    let error = client.set_dataset(&[pipe.display().to_string()]).await.unwrap_err();
    assert!(error.to_string().contains("is no file"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn restores_saves_and_leaving_are_known_to_all() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(of_lines(folder.path(), 3, LONG));
    let (ann, bob) = (server.connect("ann").await, server.connect("bob").await);
    let (first, second) = (task(&ann).await, task(&ann).await);
    assert!(ann.finish(first.lease(), Some(4)).await.unwrap());
    let reopened = bob.reopen(3, 99).await.unwrap();
    assert_eq!((reopened.pass, reopened.reopened), (0, 2));
    assert_eq!(ann.reopen(3, 99).await.unwrap().reopened, 0);
    assert!(!ann.has(second.lease()), "she heard of it with the answer");
    assert!(ann.request_save_model("0", LONG).await.unwrap());
    assert!(!bob.request_save_model("1", LONG).await.unwrap());
    assert_eq!(bob.request_save_model("", LONG).await.unwrap_err().kind(), Kind::Invalid);
    let held = task(&ann).await;
    ann.leave().await.unwrap();
    assert!(!ann.has(held.lease()));
    assert_eq!(bob.status().await.unwrap().todo, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_kept_out_by_token_and_by_tls() {
    let folder = tempfile::tempdir().unwrap();
    let token = Some(Secret::new("one per job"));
    let authority = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .self_signed(&authority)
        .unwrap();
    let (certificates_pem, key_pem) = (certificate.pem(), authority.serialize_pem());
    let identity = wire::tls::Identity {
        certificates_pem: certificates_pem.as_bytes(),
        key_pem: key_pem.as_bytes(),
    };
    let server = Server::start(ServerConfig {
        token: token.clone(),
        tls: Some(wire::tls::ServerConfig::new(identity, None).unwrap()),
        ..of_lines(folder.path(), 1, LONG)
    });
    let speaks = || {
        tls::ClientConfig::new(certificates_pem.as_bytes(), "localhost", None).map(Some).unwrap()
    };
    let connect = |token, tls| async {
        Client::connect(ClientConfig { token, tls, ..config("ann") }, &server.endpoint()).await
    };
    let client = connect(token.clone(), speaks()).await.unwrap();
    assert_eq!(task(&client).await.id, 0);
    let wrong = connect(Some(Secret::new("another")), speaks()).await.unwrap_err();
    assert_eq!(wrong.kind(), Kind::Unauthenticated);
    assert_eq!(connect(None, speaks()).await.unwrap_err().kind(), Kind::Unauthenticated);
}

/// The error that the master answers a body with.
async fn provoke(connection: &mut wire::Connection, kind: u16, body: &[u8]) -> Error {
    connection.sender.send(wire::Header::new(kind, 5), &[body]).await.unwrap();
    let reply = connection.receiver.next().await.unwrap().expect("it does not hang up");
    assert!(reply.header.is_error() && reply.header.request == 5);
    wire::fault::decode(&reply.body)
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_requests_get_errors_and_harm_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(of_lines(folder.path(), 1, LONG));
    let connector = wire::Connector::new(wire::Endpoint::new(SERVICE, 66), None).unwrap();
    let mut connection = connector.dial(&server.endpoint().to_string()).await.unwrap();
    let deep = "[".repeat(100_000);
    for body in ["", "{}", "null", "{\"get\":{}}", "{\"steal\":{}}", "\u{0}", &deep] {
        let error = provoke(&mut connection, KIND, body.as_bytes()).await;
        assert_eq!(error.kind(), Kind::Damaged, "{body:.20}");
    }
    assert_eq!(provoke(&mut connection, 9, b"{}").await.kind(), Kind::Unsupported);
    let leases = vec![Lease { task: u64::MAX, epoch: u64::MAX }; 2000];
    let get = |leases: &[Lease], name: &str| {
        let get = serde_json::json!({"pass": null, "leases": leases, "wait_ms": 0, "name": name});
        serde_json::to_vec(&serde_json::json!({"get": get})).unwrap()
    };
    for body in [get(&leases, ""), get(&[], &"x".repeat(1000))] {
        assert_eq!(provoke(&mut connection, KIND, &body).await.kind(), Kind::LimitExceeded);
    }
    let honest = server.connect("ann").await;
    let lease = Lease { task: u64::MAX, epoch: 0 };
    assert!(!honest.finish(lease, Some(u64::MAX)).await.unwrap());
    let mine = task(&honest).await;
    let thief = server.connect("thief").await;
    assert!(!thief.finish(mine.lease(), None).await.unwrap(), "leases belong to who got them");
    assert!(honest.finish(mine.lease(), None).await.unwrap());
}

#[test]
fn blocking_calls_can_be_interrupted_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(of_lines(folder.path(), 1, LONG));
    let is_stopped = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let asked = std::sync::Arc::clone(&is_stopped);
    let interrupt = move || match asked.load(std::sync::atomic::Ordering::Relaxed) {
        true => Err(Error::new(Kind::Interrupted, "Ctrl-C")),
        false => Ok(()),
    };
    let client =
        Blocking::connect(config("ann"), &server.endpoint(), Some(Box::new(interrupt))).unwrap();
    let Next::Task(task) = client.next_task(PATIENCE).unwrap() else { panic!("there is one") };
    is_stopped.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = client.next_task(LONG).unwrap_err();
    assert_eq!(error.kind(), Kind::Interrupted);
    is_stopped.store(false, std::sync::atomic::Ordering::Relaxed);
    assert!(client.has(task.lease()));
    assert!(client.finish(task.lease(), None).unwrap());
    assert!(matches!(client.next_task(PATIENCE).unwrap(), Next::PassOver(_)));
    client.leave().unwrap();
}

/// Passes bytes on between a client and a server, and hangs up after so many.
async fn fray(listener: tokio::net::TcpListener, server: String, mut bytes_max: usize) {
    while let Ok((mut near, _)) = listener.accept().await {
        let Ok(mut far) = tokio::net::TcpStream::connect(&server).await else { return };
        let (mut up, mut down) = ([0; 512], [0; 512]);
        let mut left = bytes_max;
        // A little further every time, so that every request gets through in the end.
        bytes_max += 7;
        while left > 0 {
            let (read, buffer, target) = tokio::select! {
                read = near.read(&mut up) => (read, &up, &mut far),
                read = far.read(&mut down) => (read, &down, &mut near),
            };
            let Ok(read) = read else { break };
            let passed = read.min(left);
            if read == 0 || target.write_all(&buffer[..passed]).await.is_err() {
                break;
            }
            left -= passed;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_break_anywhere_lose_and_repeat_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(of_lines(folder.path(), 30, LONG));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let frayed = tokio::spawn(fray(listener, server.endpoint().to_string(), 150));
    let endpoint = Endpoint::new("127.0.0.1", port).unwrap();
    let client = Client::connect(config("ann"), &endpoint).await.unwrap();
    let records = train(&client).await;
    assert_eq!(records.len(), 30);
    let status = server.connect("watcher").await.status().await.unwrap();
    assert_eq!((status.pass, status.todo, status.pending), (1, 30, 0));
    frayed.abort();
}
