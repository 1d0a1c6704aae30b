//! How much the network costs a parameter server: sparse pull and push against the same operations
//! in this process, dense push and pull against a raw TCP echo of the same bytes.
//!
//! `sparse ROWS REQUESTS` and `dense BYTES` answer each line on stdin, the name of a contender, by
//! its figures of one round as JSON, for `benchmark.py`. The server is another process, pinned to
//! core 0; this one is the client, pinned to core 1 by `benchmark.py`.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::print_stdout, reason = "its output is its result")]

use contract::mode::Mode;
use contract::port::{Endpoint, Ports};
use futures_util::future::try_join_all;
use pserver::client::{Client, ClientConfig, Pull, fresh_incarnation};
use pserver::server::{self, ServerConfig};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use table::gradient::Gradient;
use table::initializer::Initializer;
use table::model::{Model, ModelIndex, Parameter, Shape};
use table::optimizer::{AdaGrad, Momentum, Now, Optimizer, Rule, Settings, Update};
use table::placement::mix64;
use table::store::{self, SparseTable};

const WIDTH: usize = 16;
const DRAWS: usize = 512 * 26;
const IN_FLIGHT: usize = 4;
/// The only parameter of either model.
const PARAMETER: ModelIndex = ModelIndex(0);
const NOW: Now = Now { step: 0, rate: 0.01 };

fn main() {
    // Cargo adds an argument of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match words[..] {
        ["serve"] => serve(),
        ["echo"] => echo(),
        ["dense", bytes] => dense(&runtime(), bytes.parse().unwrap()),
        ["sparse", rows, requests] => {
            sparse(&runtime(), rows.parse().unwrap(), requests.parse().unwrap());
        }
        _ => panic!("usage: exchange (sparse ROWS REQUESTS | dense BYTES)"),
    }
}

/// Answers each line on stdin by a line.
fn answer(mut figures: impl FnMut(&str) -> String) {
    for line in std::io::stdin().lines() {
        println!("{{{}}}", figures(&line.unwrap()));
    }
}

fn sparse(runtime: &tokio::runtime::Runtime, rows: u64, requests: usize) {
    let batches = batches(rows, requests);
    let keys: usize = batches.iter().map(Vec::len).sum();
    let mut table = Table::new();
    table.fill(rows);
    let mut server = Helper::start("serve");
    let model = model(Shape::Sparse { width: WIDTH as u32, rows: None }, adagrad());
    let client = runtime.block_on(connect(model, server.port));
    runtime.block_on(client.begin()).unwrap();
    runtime.block_on(fill(&client, rows));
    let one = std::slice::from_ref::<Vec<u64>>;
    answer(|contender| {
        let milliseconds = match contender {
            "pull here" => time(|| table.pull(&batches)),
            "pull there" => time(|| runtime.block_on(pull(&client, &batches))),
            "push here" => time(|| table.push(&batches)),
            "push there" => time(|| runtime.block_on(push(&client, &batches))),
            "latencies" => {
                let (mut pulls, mut pushes) = (Vec::new(), Vec::new());
                for batch in &batches {
                    pulls.push(time(|| runtime.block_on(pull(&client, one(batch)))));
                    pushes.push(time(|| runtime.block_on(push(&client, one(batch)))));
                }
                return format!("{}, {}", tail("pull", pulls), tail("push", pushes));
            }
            "memory" => {
                let shards = runtime.block_on(client.statistics()).unwrap();
                let rows: u64 = shards.iter().map(|shard| shard.rows).sum();
                let bytes: u64 = shards.iter().map(|shard| shard.bytes).sum();
                return format!("\"bytes_per_row\": {}", bytes as f64 / rows as f64);
            }
            _ => panic!("there is no contender {contender:?}"),
        };
        let different = keys as f64 / batches.len() as f64;
        format!("\"rate\": {}, \"keys\": {different}", keys as f64 / milliseconds / 1e3)
    });
    runtime.block_on(client.goodbye()).unwrap();
    server.finish();
}

fn dense(runtime: &tokio::runtime::Runtime, bytes: usize) {
    let elements = bytes / 4;
    let mut server = Helper::start("serve");
    let rule = Rule::Momentum(Momentum { momentum: 0.0, nesterov: false });
    let model = model(Shape::Dense { elements: elements as u64 }, rule);
    let client = runtime.block_on(connect(model, server.port));
    runtime.block_on(client.begin()).unwrap();
    let mut echo = Helper::start("echo");
    let mut socket = TcpStream::connect(("127.0.0.1", echo.port)).unwrap();
    socket.set_nodelay(true).unwrap();

    let gradient = vec![1e-3; elements];
    let mut values = vec![0.0; elements];
    answer(|contender| {
        let gradients = [Gradient::Dense { parameter: PARAMETER, values: &gradient }];
        let milliseconds = match contender {
            "echo" => time(|| echo_once(&mut socket, &gradient, &mut values)),
            "push and pull" => time(|| {
                let mut pulls = [Pull::Dense { parameter: PARAMETER, out: &mut values }];
                runtime.block_on(client.push_pull(&gradients, 1, &mut pulls)).unwrap();
            }),
            _ => panic!("there is no contender {contender:?}"),
        };
        let mebibytes = (2 * bytes) as f64 / f64::from(1 << 20);
        format!("\"rate\": {}", mebibytes / milliseconds * 1e3)
    });
    runtime.block_on(client.goodbye()).unwrap();
    server.finish();
    drop(socket);
    echo.finish();
}

/// The same rows and operations in this process: the store and the update rule, nothing else.
struct Table {
    rows: SparseTable,
    update: Update,
    out: Vec<f32>,
}

impl Table {
    fn new() -> Self {
        let optimizer = Optimizer::new(adagrad(), 0.01);
        let update = Update::new(&optimizer, &Settings::default(), true).unwrap();
        let columns = update.columns();
        let shape = store::Shape {
            width: WIDTH,
            state: WIDTH * columns.state.len(),
            counters: columns.counters.len(),
        };
        Table { rows: SparseTable::new(shape, usize::MAX), update, out: Vec::new() }
    }

    fn fill(&mut self, rows: u64) {
        for chunk in all_keys(rows).collect::<Vec<_>>().chunks(DRAWS) {
            self.rows.read(chunk, |_, row| row.value.fill(0.5), |_, _| {}).unwrap();
        }
    }

    fn pull(&mut self, batches: &[Vec<u64>]) {
        for keys in batches {
            self.out.resize(keys.len() * WIDTH, 0.0);
            let out = &mut self.out;
            let copy = |place: usize, row: store::RowRef<'_>| {
                out[place * WIDTH..][..WIDTH].copy_from_slice(row.value);
            };
            self.rows.read(keys, |_, _| {}, copy).unwrap();
            std::hint::black_box(&self.out);
        }
    }

    fn push(&mut self, batches: &[Vec<u64>]) {
        let gradient = [1e-3; WIDTH];
        for keys in batches {
            let update = &self.update;
            let apply = |_: usize, row: store::Row<'_>| {
                update.apply(&NOW, &gradient, row.value, row.state, row.counters);
            };
            self.rows.visit(keys, |_, _| {}, apply).unwrap();
        }
    }
}

async fn pull(client: &Client, batches: &[Vec<u64>]) {
    for group in batches.chunks(IN_FLIGHT) {
        let pulls = group.iter().map(|keys| async move {
            let mut out = vec![0.0; keys.len() * WIDTH];
            client.pull(&mut [Pull::Sparse { parameter: PARAMETER, keys, out: &mut out }]).await
        });
        try_join_all(pulls).await.unwrap();
    }
}

async fn push(client: &Client, batches: &[Vec<u64>]) {
    let values = vec![1e-3; DRAWS * WIDTH];
    for keys in batches {
        let values = &values[..keys.len() * WIDTH];
        client.push(&[Gradient::Sparse { parameter: PARAMETER, keys, values }], 512).await.unwrap();
    }
}

async fn fill(client: &Client, rows: u64) {
    let keys: Vec<u64> = all_keys(rows).collect();
    for chunk in keys.chunks(65_536) {
        let mut out = vec![0.0; chunk.len() * WIDTH];
        let pull = Pull::Sparse { parameter: PARAMETER, keys: chunk, out: &mut out };
        client.pull(&mut [pull]).await.unwrap();
    }
}

async fn connect(model: Model, port: u16) -> Client {
    let mut config = ClientConfig::new(0, 1, fresh_incarnation(), model);
    config.ports = Ports { first: port, dense: 1, sparse: 0 };
    config.keys_are_unique = true;
    Client::connect(config, vec![Endpoint::new("127.0.0.1", port).unwrap()]).await.unwrap()
}

fn model(shape: Shape, rule: Rule) -> Model {
    Model {
        seed: 1,
        optimizer: Optimizer::new(rule, 0.01),
        parameters: vec![Parameter {
            name: "table".to_owned(),
            shape,
            mode: Mode::Async,
            initializer: Initializer::Constant { value: 0.5 },
            settings: Settings::default(),
        }],
    }
}

fn adagrad() -> Rule {
    Rule::AdaGrad(AdaGrad { epsilon: 1e-6, momentum: 0.0 })
}

/// Key of the row with this rank in popularity: scattered over all 64 bits.
fn key_of(rank: u64) -> u64 {
    mix64(rank + 1)
}

fn all_keys(rows: u64) -> impl Iterator<Item = u64> {
    (0..rows).map(key_of)
}

/// Requests of Zipf draws (exponent 1) over all rows, each key once per request.
fn batches(rows: u64, requests: usize) -> Vec<Vec<u64>> {
    let mut state = 42;
    let mut uniform = || {
        state = mix64(state);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let batch = |_| {
        let mut keys: Vec<u64> = (0..DRAWS)
            .map(|_| key_of(((rows as f64).powf(uniform()) as u64).min(rows) - 1))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    (0..requests).map(batch).collect()
}

/// This program again, as another process that prints its port.
struct Helper {
    process: Child,
    port: u16,
}

impl Helper {
    fn start(role: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(program).arg(role);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Helper { process, port: line.trim().parse().unwrap() }
    }

    fn finish(&mut self) {
        assert!(self.process.wait().unwrap().success());
    }
}

fn serve() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let (_stop, stop) = tokio::sync::watch::channel(false);
    server::run(vec![vec![listener]], &ServerConfig::new(1, 1), &stop).unwrap();
}

fn echo() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let (mut socket, _) = listener.accept().unwrap();
    socket.set_nodelay(true).unwrap();
    let mut piece = vec![0; 256 << 10];
    loop {
        let count = socket.read(&mut piece).unwrap();
        if count == 0 {
            return;
        }
        socket.write_all(&piece[..count]).unwrap();
    }
}

/// Sends the bytes and reads them back, at the same time.
fn echo_once(socket: &mut TcpStream, gradient: &[f32], values: &mut [f32]) {
    let mut writer = socket.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(bytemuck::cast_slice(gradient)).unwrap());
        socket.read_exact(bytemuck::cast_slice_mut(values)).unwrap();
    });
}

fn time(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e3
}

fn tail(name: &str, mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    format!("\"{name} median\": {}, \"{name} p99\": {}", at(0.5), at(0.99))
}
