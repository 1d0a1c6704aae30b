//! How much the network costs a parameter server: sparse pull and push against the same operations
//! in this process, dense push and pull against a raw TCP echo of the same bytes. Run by `run.sh`.
//!
//! The server is another process, pinned to core 0; this one is the client, pinned to core 1 by
//! `run.sh`. Contenders alternate over several rounds in one run; medians are reported.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::print_stdout, reason = "its output is its result")]

use contract::mode::Mode;
use contract::port::{Endpoint, Ports};
use futures_util::future::try_join_all;
use pserver::client::{Client, ClientConfig, Gradient, Pull, fresh_incarnation};
use pserver::server::{self, ServerConfig};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use table::initializer::Initializer;
use table::model::{Model, Parameter, Shape};
use table::optimizer::{AdaGrad, Momentum, Now, Optimizer, Rule, Settings, Update};
use table::placement::mix64;
use table::store::{self, SparseTable};

const ROWS: u64 = 10_000_000;
const WIDTH: usize = 16;
const DRAWS: usize = 512 * 26;
const REQUESTS: usize = 200;
const IN_FLIGHT: usize = 4;
const ROUNDS: usize = 5;
const DENSE_BYTES: usize = 64 << 20;
const ECHOES: usize = 40;
const NOW: Now = Now { step: 0, rate: 0.01 };

fn main() {
    let mut args = std::env::args().skip(1);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match args.next().as_deref() {
        Some("serve") => serve(),
        Some("echo") => echo(),
        Some("dense") => dense(&runtime()),
        Some("sparse") => sparse(&runtime()),
        _ => {
            sparse(&runtime());
            dense(&runtime());
        }
    }
}

fn sparse(runtime: &tokio::runtime::Runtime) {
    let batches = batches();
    let keys: usize = batches.iter().map(Vec::len).sum();
    println!(
        "{} draws per request, {:.0} different keys on average, {ROWS} rows of width {WIDTH}\n",
        DRAWS,
        keys as f64 / batches.len() as f64
    );
    let mut table = Table::new();
    table.fill();
    let mut server = Helper::start("serve");
    let model = model(Shape::Sparse { width: WIDTH as u32, rows: None }, adagrad());
    let client = runtime.block_on(connect(model, server.port));
    runtime.block_on(client.begin()).unwrap();
    runtime.block_on(fill(&client));

    let mut figures: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        let times = [
            time(|| table.pull(&batches)),
            time(|| runtime.block_on(pull(&client, &batches))),
            time(|| table.push(&batches)),
            time(|| runtime.block_on(push(&client, &batches))),
        ];
        for (figure, milliseconds) in figures.iter_mut().zip(times) {
            figure.push(keys as f64 / milliseconds / 1e3);
        }
    }
    let [pull_here, pull_there, push_here, push_there] = figures.map(median);
    println!("| sparse, AdaGrad | in process, M keys/s | over loopback, M keys/s | ratio |");
    println!("|---|--:|--:|--:|");
    println!("| pull | {pull_here:.2} | {pull_there:.2} | {:.2} |", pull_there / pull_here);
    println!("| push | {push_here:.2} | {push_there:.2} | {:.2} |", push_there / push_here);

    let (mut pulls, mut pushes) = (Vec::new(), Vec::new());
    for batch in batches.iter().cycle().take(1000) {
        pulls.push(time(|| runtime.block_on(pull(&client, std::slice::from_ref(batch)))));
        pushes.push(time(|| runtime.block_on(push(&client, std::slice::from_ref(batch)))));
    }
    println!("\nOne request at a time, ms: pull {}, push {}.", tail(pulls), tail(pushes));
    let statistics = runtime.block_on(client.statistics()).unwrap();
    let (rows, bytes) =
        statistics.iter().fold((0, 0), |sum, shard| (sum.0 + shard.rows, sum.1 + shard.bytes));
    let payload = 2 * WIDTH as u64 * 4;
    println!(
        "Memory: {:.1} bytes per row, of which {:.1} beyond value and AdaGrad state, at {rows} rows.\n",
        bytes as f64 / rows as f64,
        bytes as f64 / rows as f64 - payload as f64
    );
    runtime.block_on(client.goodbye()).unwrap();
    server.finish();
}

fn dense(runtime: &tokio::runtime::Runtime) {
    let elements = DENSE_BYTES / 4;
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
    let mut figures: [Vec<f64>; 2] = Default::default();
    for _ in 0..ECHOES {
        let gradients = [Gradient::Dense { parameter: 0, values: &gradient }];
        let times = [
            time(|| echo_once(&mut socket, &gradient, &mut values)),
            time(|| {
                let mut pulls = [Pull::Dense { parameter: 0, out: &mut values }];
                runtime.block_on(client.push_pull(&gradients, 1, &mut pulls)).unwrap();
            }),
        ];
        for (figure, milliseconds) in figures.iter_mut().zip(times) {
            figure.push(((2 * DENSE_BYTES) >> 20) as f64 / milliseconds * 1e3);
        }
    }
    let [raw, ours] = figures.map(median);
    println!("| dense, 64 MiB, plain SGD | raw TCP echo, MiB/s | push and pull, MiB/s | ratio |");
    println!("|---|--:|--:|--:|");
    println!("| push + pull | {raw:.0} | {ours:.0} | {:.2} |", ours / raw);
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

    fn fill(&mut self) {
        for chunk in all_keys().collect::<Vec<_>>().chunks(DRAWS) {
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
            client.pull(&mut [Pull::Sparse { parameter: 0, keys, out: &mut out }]).await
        });
        try_join_all(pulls).await.unwrap();
    }
}

async fn push(client: &Client, batches: &[Vec<u64>]) {
    let values = vec![1e-3; DRAWS * WIDTH];
    for keys in batches {
        let values = &values[..keys.len() * WIDTH];
        client.push(&[Gradient::Sparse { parameter: 0, keys, values }], 512).await.unwrap();
    }
}

async fn fill(client: &Client) {
    let keys: Vec<u64> = all_keys().collect();
    for chunk in keys.chunks(65_536) {
        let mut out = vec![0.0; chunk.len() * WIDTH];
        let pull = Pull::Sparse { parameter: 0, keys: chunk, out: &mut out };
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

fn all_keys() -> impl Iterator<Item = u64> {
    (0..ROWS).map(key_of)
}

/// Requests of Zipf draws (exponent 1) over all rows, each key once per request.
fn batches() -> Vec<Vec<u64>> {
    let mut state = 42;
    let mut uniform = || {
        state = mix64(state);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let batch = |_| {
        let mut keys: Vec<u64> = (0..DRAWS)
            .map(|_| key_of(((ROWS as f64).powf(uniform()) as u64).min(ROWS) - 1))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    };
    (0..REQUESTS).map(batch).collect()
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

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn tail(mut times: Vec<f64>) -> String {
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    format!("median {:.2}, p99 {:.2}", at(0.5), at(0.99))
}
