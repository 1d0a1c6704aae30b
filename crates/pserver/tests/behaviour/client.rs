//! The client against real servers on loopback sockets, and connections that break anywhere.

use contract::mode::Mode;
use contract::port::{Endpoint, Ports};
use contract::ready::Farewell;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use pserver::client::{
    Addresses, Blocking, Client, ClientConfig, Part, Pull, PullStyle, Retry, Value, ValueType,
};
use pserver::server::{self, Checkpointing, ServerConfig};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use table::gradient::Gradient;
use table::initializer::Initializer;
use table::model::{Model, ModelIndex, Parameter, Shape};
use table::optimizer::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

const DENSE: ModelIndex = ModelIndex(0);
const SPARSE: ModelIndex = ModelIndex(1);
const SMALL: ModelIndex = ModelIndex(2);
const WIDTH: usize = 4;
/// Seven blocks, the last one short.
const ELEMENTS: usize = 100_000;

pub(crate) fn model(mode: Mode) -> Model {
    let parameter = |name: &str, shape| Parameter {
        name: name.to_owned(),
        shape,
        mode,
        initializer: Initializer::Constant { value: 1.0 },
        settings: Settings::default(),
    };
    let optimizer = r#"{"learning_rate": 0.5, "rule": {"name": "momentum"}}"#;
    Model {
        seed: 1,
        optimizer: serde_json::from_str(optimizer).unwrap(),
        parameters: vec![
            parameter("dense", Shape::Dense { elements: ELEMENTS as u64 }),
            parameter("sparse", Shape::Sparse { width: WIDTH as u32, rows: Some(1 << 40) }),
            parameter("small", Shape::Dense { elements: 3 }),
        ],
    }
}

/// Servers in threads, stopped when dropped.
pub(crate) struct Servers {
    pub(crate) endpoints: Vec<Endpoint>,
    ports: Ports,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<Result<Farewell>>>,
}

impl Servers {
    pub(crate) fn start(count: usize, dense: u16, sparse: u16, config: &ServerConfig) -> Self {
        let ports = Ports { dense, sparse, ..Ports::default() };
        let (stop, _) = watch::channel(false);
        let mut servers = Servers { endpoints: Vec::new(), ports, stop, threads: Vec::new() };
        for _ in 0..count {
            servers.add(config);
        }
        servers
    }

    fn add(&mut self, config: &ServerConfig) {
        let (first, listeners) = listen((self.ports.dense + self.ports.sparse).into());
        self.endpoints.push(Endpoint::new("127.0.0.1", first).unwrap());
        self.run(listeners, config.clone());
    }

    fn run(&mut self, listeners: Vec<TcpListener>, config: ServerConfig) {
        let stop = self.stop.subscribe();
        let ports = listeners.into_iter().map(|listener| vec![listener]).collect();
        self.threads.push(std::thread::spawn(move || server::run(ports, &config, &stop)));
    }

    pub(crate) fn config(&self, rank: u32, trainers: u32, mode: Mode) -> ClientConfig {
        let incarnation = pserver::client::fresh_incarnation();
        let config = ClientConfig::new(rank, trainers, incarnation, model(mode));
        ClientConfig { ports: self.ports, retry: hasty(), ..config }
    }

    async fn connect(&self, rank: u32, trainers: u32, mode: Mode) -> Client {
        Client::connect(self.config(rank, trainers, mode), self.endpoints.clone()).await.unwrap()
    }

    /// Waits for the servers to end by themselves.
    pub(crate) fn join(mut self) -> Vec<Result<Farewell>> {
        self.threads.drain(..).map(|thread| thread.join().unwrap()).collect()
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

fn hasty() -> Retry {
    Retry {
        first_delay: Duration::from_millis(1),
        delay_max: Duration::from_millis(20),
        deadline: Duration::from_secs(120),
        ..Retry::default()
    }
}

/// Consecutive free ports.
fn listen(count: usize) -> (u16, Vec<TcpListener>) {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let mut listeners = vec![first];
        while listeners.len() < count
            && let Ok(next) = TcpListener::bind(("127.0.0.1", port + listeners.len() as u16))
        {
            listeners.push(next);
        }
        if listeners.len() == count {
            return (port, listeners);
        }
    }
}

/// Gradients that are different everywhere, and small whole numbers, so that sums are exact.
fn dense_gradient(step: usize) -> Vec<f32> {
    (0..ELEMENTS).map(|i| ((i + step) % 7) as f32).collect()
}

fn keys(step: u64) -> Vec<u64> {
    (0..500).map(|i| i * 977 + step % 3).collect()
}

fn row(key: u64) -> impl Iterator<Item = f32> {
    (0..WIDTH as u64).map(move |i| ((key + i) % 5) as f32)
}

/// What one trainer would compute alone.
struct Expected {
    dense: Vec<f32>,
    rows: std::collections::BTreeMap<u64, Vec<f32>>,
}

impl Expected {
    fn new() -> Self {
        Expected { dense: vec![1.0; ELEMENTS], rows: Default::default() }
    }

    fn step(&mut self, step: usize, times: f32) {
        for (value, gradient) in self.dense.iter_mut().zip(dense_gradient(step)) {
            *value -= 0.5 * times * gradient;
        }
        for key in keys(step as u64) {
            let value = self.rows.entry(key).or_insert_with(|| vec![1.0; WIDTH]);
            value.iter_mut().zip(row(key)).for_each(|(value, gradient)| {
                *value -= 0.5 * times * gradient;
            });
        }
    }

    async fn check(&self, client: &Client) {
        let mut dense = vec![0.0; ELEMENTS];
        let keys: Vec<u64> = self.rows.keys().copied().collect();
        let mut rows = vec![0.0; keys.len() * WIDTH];
        let pulls = &mut [
            Pull::Sparse { parameter: SPARSE, keys: &keys, out: &mut rows },
            Pull::Dense { parameter: DENSE, out: &mut dense },
        ];
        client.pull(pulls).await.unwrap();
        assert!(dense == self.dense, "dense values differ");
        let expected: Vec<f32> = self.rows.values().flatten().copied().collect();
        assert!(rows == expected, "rows differ");
    }
}

/// A step as trainers do it; half of them with one call.
pub(crate) async fn step(client: &Client, step: usize) {
    let (dense, keys) = (dense_gradient(step), keys(step as u64));
    let rows: Vec<f32> = keys.iter().flat_map(|key| row(*key)).collect();
    let gradients = [
        Gradient::Dense { parameter: DENSE, values: &dense },
        Gradient::Sparse { parameter: SPARSE, keys: &keys, values: &rows },
    ];
    if step.is_multiple_of(2) {
        client.push(&gradients, 32).await.unwrap();
        return;
    }
    let mut out = vec![0.0; ELEMENTS];
    let pulls = &mut [Pull::Dense { parameter: DENSE, out: &mut out }];
    client.push_pull(&gradients, 32, pulls).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_layout_computes_the_same() {
    for (servers, dense, sparse) in [(1, 1, 1), (1, 1, 0), (2, 2, 1), (3, 1, 2)] {
        let servers = Servers::start(servers, dense, sparse, &ServerConfig::new(1, 9));
        let client = servers.connect(0, 1, Mode::Sync).await;
        assert!(client.start().needs_values);
        client.set(&[Value::Dense { parameter: SMALL, values: &[1.0, 2.0, 3.0] }]).await.unwrap();
        client.begin().await.unwrap();
        let mut expected = Expected::new();
        for number in 0..4 {
            step(&client, number).await;
            expected.step(number, 1.0);
        }
        expected.check(&client).await;
        let mut small = [0.0; 3];
        let pulls = &mut [Pull::Dense { parameter: SMALL, out: &mut small }];
        client.pull(pulls).await.unwrap();
        assert_eq!(small, [1.0, 2.0, 3.0]);
        assert_eq!(client.position().version, 4);

        let mut rows = 0;
        let mut page = |keys: &[u64], values: &[f32]| {
            for (key, value) in keys.iter().zip(values.chunks_exact(WIDTH)) {
                assert_eq!(expected.rows[key], value);
            }
            rows += keys.len();
            Ok(())
        };
        client.scan(SPARSE, false, &mut page).await.unwrap();
        assert_eq!(rows, expected.rows.len());
        let statistics = client.statistics().await.unwrap();
        assert_eq!(statistics.iter().map(|shard| shard.rows).sum::<u64>(), rows as u64);

        client.goodbye().await.unwrap();
        servers.join().into_iter().for_each(|outcome| assert!(outcome.is_ok(), "{outcome:?}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_may_travel_as_bf16_where_they_are_not_in_sync() {
    // Of these numbers an f32 keeps all digits, and a bf16 the first eight bits.
    let (exact, near) = (1.0 + 1.0 / 512.0, 1.0);
    for (dense_mode, ports) in [(Mode::Async, 1), (Mode::Async, 0), (Mode::Sync, 1)] {
        let servers = Servers::start(1, 1, ports, &ServerConfig::new(1, 9));
        let mut config = servers.config(0, 1, Mode::Async);
        config.value_type = ValueType::Bf16;
        config.model.parameters[DENSE.0].mode = dense_mode;
        let client = Client::connect(config, servers.endpoints.clone()).await.unwrap();
        // What is set, and what is looked at, is exact whatever the mode.
        let values = vec![exact; ELEMENTS];
        client.set(&[Value::Dense { parameter: DENSE, values: &values }]).await.unwrap();
        client.begin().await.unwrap();
        let (mut dense, mut rows, keys) = (vec![0.0; ELEMENTS], vec![0.0; 2 * WIDTH], [3, 1 << 39]);
        let pulls = &mut [
            Pull::Dense { parameter: DENSE, out: &mut dense },
            Pull::Sparse { parameter: SPARSE, keys: &keys, out: &mut rows },
        ];
        let style = PullStyle { is_read_only: true, ..PullStyle::default() };
        client.pull_with(pulls, style).await.unwrap();
        assert_eq!((dense[0], dense[ELEMENTS - 1]), (exact, exact));
        let gradients = [
            Gradient::Dense { parameter: DENSE, values: &vec![0.0; ELEMENTS] },
            Gradient::Sparse { parameter: SPARSE, keys: &keys, values: &[2.0 * exact; 2 * WIDTH] },
        ];
        let pulls = &mut [
            Pull::Dense { parameter: DENSE, out: &mut dense },
            Pull::Sparse { parameter: SPARSE, keys: &keys, out: &mut rows },
        ];
        client.push_pull(&gradients, 1, pulls).await.unwrap();
        let expected = if dense_mode == Mode::Sync { exact } else { near };
        assert!(dense.iter().all(|value| *value == expected), "{dense_mode}: {}", dense[0]);
        // The gradient was rounded on its way: 1 - 0.5 * 2 * near.
        assert_eq!(rows, [0.0; 2 * WIDTH]);
        client.goodbye().await.unwrap();
    }
    let servers = Servers::start(1, 1, 1, &ServerConfig::new(1, 9));
    let mut config = servers.config(0, 1, Mode::Sync);
    config.value_type = ValueType::Bf16;
    let refused = Client::connect(config, servers.endpoints.clone()).await.unwrap_err();
    assert!(refused.message().contains("wire_values"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trainer_that_rests_holds_nobody_up_and_joins_in_again() {
    let servers = Servers::start(2, 1, 1, &ServerConfig::new(2, 9));
    let (first, second) =
        tokio::join!(servers.connect(0, 2, Mode::Sync), servers.connect(1, 2, Mode::Sync));
    first.begin().await.unwrap();
    tokio::join!(step(&first, 0), step(&second, 0));
    // It rests while the other waits for it in a step.
    let (alone, rested) = tokio::join!(step(&first, 1), second.rest());
    rested.unwrap();
    let () = alone;
    step(&first, 2).await;
    second.wake().await.unwrap();
    tokio::join!(step(&first, 3), step(&second, 3));
    let mut expected = Expected::new();
    [(0, 2.0), (1, 1.0), (2, 1.0), (3, 2.0)]
        .into_iter()
        .for_each(|(number, times)| expected.step(number, times));
    expected.check(&first).await;
    expected.check(&second).await;
    second.rest().await.unwrap();
    let (one, other) = tokio::join!(first.finish_pass(), second.finish_pass());
    one.and(other).unwrap();
    tokio::join!(step(&first, 4), step(&second, 4));
    expected.step(4, 2.0);
    expected.check(&first).await;
    let (one, other) = tokio::join!(first.goodbye(), second.goodbye());
    one.and(other).unwrap();
    servers.join().into_iter().for_each(|outcome| assert!(outcome.is_ok(), "{outcome:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trainers_of_a_sync_job_see_the_sum_and_finish_passes_together() {
    let servers = Servers::start(2, 1, 1, &ServerConfig::new(2, 9));
    let (first, second) =
        tokio::join!(servers.connect(0, 2, Mode::Sync), servers.connect(1, 2, Mode::Sync));
    first.begin().await.unwrap();
    let train = |client: Client, steps: usize| async move {
        for number in 0..steps {
            step(&client, number).await;
        }
        client.finish_pass().await.unwrap();
        client.synchronize().await.unwrap();
        client
    };
    let both = (tokio::spawn(train(first, 5)), tokio::spawn(train(second, 3)));
    let (first, second) = (both.0.await.unwrap(), both.1.await.unwrap());
    let mut expected = Expected::new();
    (0..3).for_each(|number| expected.step(number, 2.0));
    (3..5).for_each(|number| expected.step(number, 1.0));
    assert_eq!((first.position().pass, second.position().pass), (1, 1));
    expected.check(&first).await;
    expected.check(&second).await;
    tokio::join!(step(&first, 1), step(&second, 1));
    expected.step(1, 2.0);
    expected.check(&second).await;
    second.goodbye().await.unwrap();
    step(&first, 2).await;
    expected.step(2, 1.0);
    expected.check(&first).await;
    first.goodbye().await.unwrap();
    servers.join().into_iter().for_each(|outcome| assert!(outcome.is_ok(), "{outcome:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trainer_may_be_a_step_ahead_of_the_others() {
    let servers = Servers::start(1, 1, 0, &ServerConfig::new(2, 9));
    let (first, second) =
        tokio::join!(servers.connect(0, 2, Mode::Sync), servers.connect(1, 2, Mode::Sync));
    first.begin().await.unwrap();
    // The second step of the first one arrives, in several frames, before the first of the other.
    step(&first, 0).await;
    let ahead = async { step(&first, 2).await };
    let behind = async {
        // What is sent on a connection is handled in its order, so the frames are there now.
        for _ in 0..5 {
            first.statistics().await.unwrap();
        }
        step(&second, 0).await;
        step(&second, 2).await;
    };
    tokio::join!(ahead, behind);
    let mut expected = Expected::new();
    [0, 2].into_iter().for_each(|number| expected.step(number, 2.0));
    expected.check(&first).await;
    expected.check(&second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trainer_that_computes_beside_its_push_is_no_further_ahead_than_allowed() {
    let servers = Servers::start(1, 1, 1, &ServerConfig::new(2, 9));
    let mode = Mode::Stale(1);
    let (fast, slow) = tokio::join!(servers.connect(0, 2, mode), servers.connect(1, 2, mode));
    assert!(fast.can_overlap());
    let rows = Part::Rows { is_next_begun: true };
    fast.begin().await.unwrap();
    // Its second step has begun; what comes now is for the third, so both need to have done one.
    let mut out = [0.0; WIDTH];
    let mut pulls = [Pull::Sparse { parameter: SPARSE, keys: &[3], out: &mut out }];
    let mut ahead = std::pin::pin!(fast.push_pull_part(rows, &[], 1, &mut pulls));
    let mut looks_after_push = 0;
    while looks_after_push < 20 {
        tokio::select! {
            biased;
            _ = &mut ahead => panic!("two steps ahead of the other"),
            // The second port is that of the rows.
            shards = slow.statistics() => looks_after_push += shards.unwrap()[1].version,
        }
    }
    slow.push(&[], 1).await.unwrap();
    ahead.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_that_wait_for_others_or_share_a_port_cannot_overlap() {
    for (mode, sparse_ports) in [(Mode::Sync, 1), (Mode::Stale(0), 1), (Mode::Async, 0)] {
        let servers = Servers::start(1, 1, sparse_ports, &ServerConfig::new(1, 9));
        let client = servers.connect(0, 1, mode).await;
        client.begin().await.unwrap();
        assert!(!client.can_overlap());
        for part in [Part::Dense, Part::Rows { is_next_begun: true }] {
            let refused = client.push_pull_part(part, &[], 1, &mut []).await.unwrap_err();
            assert_eq!(refused.kind(), Kind::Unsupported);
        }
        client.push_pull(&[], 1, &mut []).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_key_that_repeats_are_summed_before_they_are_pushed() {
    for mode in [Mode::Sync, Mode::Async, Mode::Stale(2)] {
        let servers = Servers::start(2, 1, 0, &ServerConfig::new(1, 9));
        let client = servers.connect(0, 1, mode).await;
        client.begin().await.unwrap();
        let (keys, values) = ([7, 8, 7], [[1.0; WIDTH], [2.0; WIDTH], [3.0; WIDTH]].concat());
        let gradient = Gradient::Sparse { parameter: SPARSE, keys: &keys, values: &values };
        let report = client.push(&[gradient], 1).await.unwrap();
        assert_eq!((report.duplicates, report.dropped), (0, 0));
        let mut out = [0.0; 4 * WIDTH];
        let keys = [8, 7, 9, 7];
        let style = PullStyle { is_read_only: true, is_averaged: false };
        let pulls = &mut [Pull::Sparse { parameter: SPARSE, keys: &keys, out: &mut out }];
        client.pull_with(pulls, style).await.unwrap();
        let first: Vec<f32> = out.chunks_exact(WIDTH).map(|row| row[0]).collect();
        assert_eq!(first, [0.0, -1.0, 1.0, -1.0]);
        let statistics = client.statistics().await.unwrap();
        assert_eq!(statistics.iter().map(|shard| shard.rows).sum::<u64>(), 2, "9 is not created");
    }
}

/// Passes bytes on to a server, and breaks every connection after some of them.
async fn unreliable(server: Endpoint, breaks: Arc<AtomicU64>) -> Endpoint {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for connection in 0u64.. {
            let (near, _) = listener.accept().await.unwrap();
            let Ok(far) = tokio::net::TcpStream::connect(server.to_string()).await else { return };
            let is_over = connection > 60;
            // Some die in the handshake, some in the middle of a frame, some long after.
            let bytes = if is_over { u64::MAX } else { 50 + connection * 37_123 % 900_000 };
            breaks.fetch_add(u64::from(!is_over), Ordering::Relaxed);
            tokio::spawn(pass_on(near, far, bytes));
        }
    });
    Endpoint::new("127.0.0.1", port).unwrap()
}

async fn pass_on(near: tokio::net::TcpStream, far: tokio::net::TcpStream, bytes: u64) {
    let ((mut near_in, mut near_out), (mut far_in, mut far_out)) =
        (near.into_split(), far.into_split());
    let mut left = bytes;
    let (mut up, mut down) = (vec![0; 8192], vec![0; 8192]);
    loop {
        let count = tokio::select! {
            count = near_in.read(&mut up) => {
                let Ok(count @ 1..) = count else { return };
                let passed = count.min(left as usize);
                if far_out.write_all(&up[..passed]).await.is_err() { return }
                count
            }
            count = far_in.read(&mut down) => {
                let Ok(count @ 1..) = count else { return };
                let passed = count.min(left as usize);
                if near_out.write_all(&down[..passed]).await.is_err() { return }
                count
            }
        };
        left = left.saturating_sub(count as u64);
        if left == 0 {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_are_applied_once_wherever_connections_break() {
    for mode in [Mode::Sync, Mode::Async] {
        let servers = Servers::start(1, 1, 0, &ServerConfig::new(1, 9));
        let breaks = Arc::new(AtomicU64::new(0));
        let endpoint = unreliable(servers.endpoints[0].clone(), Arc::clone(&breaks)).await;
        let config = servers.config(0, 1, mode);
        let client = Client::connect(config, vec![endpoint]).await.unwrap();
        client.begin().await.unwrap();
        let mut expected = Expected::new();
        for number in 0..20 {
            step(&client, number).await;
            expected.step(number, 1.0);
            if number % 7 == 6 {
                client.finish_pass().await.unwrap();
            }
        }
        expected.check(&client).await;
        assert!(breaks.load(Ordering::Relaxed) > 5, "{breaks:?}");
        let position = client.position();
        assert_eq!((position.pass, position.version), (2, 20));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_surface_at_once_and_name_the_server() {
    let token = Some(Secret::new("right"));
    let config = ServerConfig { token: token.clone(), ..ServerConfig::new(1, 9) };
    let servers = Servers::start(1, 1, 1, &config);
    let config = |token: Option<Secret>, mode| ClientConfig {
        token,
        retry: Retry { deadline: Duration::from_secs(600), ..hasty() },
        ..servers.config(0, 1, mode)
    };
    let connect = |config| Client::connect(config, servers.endpoints.clone());
    let check = |outcome: Result<Client>, kind: Kind| {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("127.0.0.1:"), "{error}");
    };
    check(connect(config(Some(Secret::new("wrong")), Mode::Sync)).await, Kind::Unauthenticated);
    check(connect(config(None, Mode::Sync)).await, Kind::Unauthenticated);
    let client = connect(config(token.clone(), Mode::Sync)).await.unwrap();
    let other = connect(config(token.clone(), Mode::Async)).await;
    assert!(other.as_ref().unwrap_err().message().contains("mode"), "{other:?}");
    check(other, Kind::Conflict);

    // Nothing of this is sent.
    let wrong = [
        Gradient::Dense { parameter: DENSE, values: &[1.0] },
        Gradient::Dense { parameter: ModelIndex(9), values: &[] },
        Gradient::Sparse { parameter: SPARSE, keys: &[1 << 50], values: &[0.0; WIDTH] },
    ];
    for gradient in wrong {
        let error = client.push(&[gradient], 1).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.context().any(|(key, _)| key == "parameter"), "{error}");
    }
    // A server's last word, here that another process has taken over the rank, leaves a step that
    // cannot be completed.
    let _successor = connect(config(token, Mode::Sync)).await.unwrap();
    let good = [Gradient::Dense { parameter: SMALL, values: &[1.0; 3] }];
    let error = client.push(&good, 1).await.unwrap_err();
    assert!(error.message().contains("does not speak for the rank"), "{error}");
    assert_eq!(client.push(&good, 1).await.unwrap_err().kind(), Kind::Conflict);
}

/// Addresses that change.
struct Moving(Arc<std::sync::Mutex<Vec<Endpoint>>>);

impl Addresses for Moving {
    fn addresses(&self) -> Vec<Endpoint> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_started_again_alone_is_never_trained_with_the_others() {
    let servers = Servers::start(2, 1, 0, &ServerConfig::new(1, 1));
    let addresses = Arc::new(std::sync::Mutex::new(servers.endpoints.clone()));
    let config = servers.config(0, 1, Mode::Async);
    let client = Client::connect(config, Moving(Arc::clone(&addresses))).await.unwrap();
    client.begin().await.unwrap();
    step(&client, 0).await;

    // Server 1 comes back elsewhere, without its values.
    let again = Servers::start(1, 1, 0, &ServerConfig::new(1, 2));
    addresses.lock().unwrap()[1] = again.endpoints[0].clone();
    let config = servers.config(0, 1, Mode::Async);
    let error = Client::connect(config, Moving(Arc::clone(&addresses))).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert!(error.message().contains("its values are lost"), "{error}");

    drop(servers);
    let servers = Servers::start(2, 1, 0, &ServerConfig::new(1, 3));
    addresses.lock().unwrap().clone_from(&servers.endpoints);
    let error = client.statistics().await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert!(error.message().contains("server was started again"), "{error}");
}

/// As on machines that have a folder of this name each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_do_not_share_their_checkpoint_folder_are_refused_by_name() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut servers = Servers::start(0, 1, 1, &ServerConfig::new(1, 9));
    let config = |folder: &tempfile::TempDir, incarnation| {
        let folder = folder.path().to_owned();
        let checkpoint = Checkpointing { folder, keep: 1, interval: None, disk: None };
        ServerConfig { checkpoint: Some(checkpoint), ..ServerConfig::new(1, incarnation) }
    };
    for (folder, incarnation) in folders.iter().zip([8, 9]) {
        servers.add(&config(folder, incarnation));
    }
    let trainer = servers.config(0, 1, Mode::Sync);
    let refused = Client::connect(trainer, servers.endpoints.clone()).await.unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("is not that of server 0"), "{refused}");
    let named = folders[1].path().display().to_string();
    assert!(refused.contains(&named), "{refused}");
    // With one folder all is well, whatever an earlier job has left in it.
    let mut servers = Servers::start(0, 1, 1, &ServerConfig::new(1, 9));
    for incarnation in [18, 19] {
        servers.add(&config(&folders[0], incarnation));
    }
    servers.connect(0, 1, Mode::Sync).await.begin().await.unwrap();
}

/// Neither trainers nor the end of the server wait for a checkpoint that cannot be begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_checkpoint_folder_is_gone_trains_on_and_says_so_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("checkpoints");
    std::fs::create_dir(&place).unwrap();
    let checkpoint = Checkpointing { folder: place.clone(), keep: 1, interval: None, disk: None };
    let config = ServerConfig { checkpoint: Some(checkpoint), ..ServerConfig::new(1, 9) };
    let servers = Servers::start(1, 1, 1, &config);
    let client = servers.connect(0, 1, Mode::Sync).await;
    client.begin().await.unwrap();
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::write(&place, "a file").unwrap();
    client.checkpoint().await.unwrap();
    for number in 0..5 {
        step(&client, number).await;
    }
    client.goodbye().await.unwrap();
    let farewells = servers.join();
    assert!(farewells.iter().all(|said| said.as_ref().is_ok_and(|said| said.is_unsaved)));
}

#[test]
fn a_blocking_client_gives_up_and_can_be_interrupted() {
    let (port, listeners) = listen(1);
    drop(listeners);
    let endpoints = vec![Endpoint::new("127.0.0.1", port).unwrap()];
    let retry = Retry { deadline: Duration::from_millis(50), ..hasty() };
    let config = ClientConfig {
        ports: Ports { dense: 1, sparse: 0, ..Ports::default() },
        ..ClientConfig::new(0, 2, 7, model(Mode::Sync))
    };
    // With the second, the long time is for servers that were there before.
    let patient = Retry { deadline: Duration::from_secs(3600), ..hasty() };
    let first_contact = Some(retry.deadline);
    for impatient in [
        ClientConfig { retry, ..config.clone() },
        ClientConfig { retry: patient, first_contact, ..config.clone() },
    ] {
        let error = Blocking::connect(impatient, endpoints.clone(), None).err().unwrap();
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
        assert!(error.to_string().contains(&port.to_string()), "{error}");
    }

    let servers = Servers::start(1, 1, 0, &ServerConfig::new(2, 9));
    let stop = || Err(Error::new(Kind::Interrupted, "Ctrl-C"));
    let client =
        Blocking::connect(config, servers.endpoints.clone(), Some(Box::new(stop))).unwrap();
    assert_eq!(client.synchronize().unwrap_err().kind(), Kind::Interrupted);
    client.begin().unwrap();
    assert_eq!(client.parameter("small").unwrap(), SMALL);
    let mut small = [0.0; 3];
    client.pull(&mut [Pull::Dense { parameter: SMALL, out: &mut small }]).unwrap();
    assert_eq!(small, [1.0; 3]);
}

#[test]
fn a_client_and_a_server_speak_tls_and_a_plain_client_is_refused() {
    let made = rcgen::generate_simple_self_signed(vec!["pserver".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity =
        wire::tls::Identity { certificates_pem: certificate.as_bytes(), key_pem: key.as_bytes() };
    let mut config = ServerConfig::new(1, 1);
    config.tls = Some(wire::tls::ServerConfig::new(identity, None).unwrap());
    let servers = Servers::start(1, 1, 1, &config);

    let plain = servers.config(0, 1, Mode::Sync);
    assert!(Blocking::connect(plain, servers.endpoints.clone(), None).is_err());
    let mut safe = servers.config(0, 1, Mode::Sync);
    let authority = certificate.as_bytes();
    safe.tls = Some(wire::tls::ClientConfig::new(authority, "pserver", None).unwrap());
    let client = Blocking::connect(safe, servers.endpoints.clone(), None).unwrap();
    client.begin().unwrap();
    let mut values = [0.0; 3];
    client.push(&[Gradient::Dense { parameter: SMALL, values: &[2.0; 3] }], 1).unwrap();
    client.pull(&mut [Pull::Dense { parameter: SMALL, out: &mut values }]).unwrap();
    assert_eq!(values, [0.0; 3]);
    client.goodbye().unwrap();
    assert!(servers.join().iter().all(Result::is_ok));
}
