//! A cloud under load: the requests of `paddlecloud get jobs` over a long history, with and without
//! people who follow logs, and what a thousand running jobs cost. Run by `benchmark.py`.
//!
//! The server is another process, this program called with `serve`. Its jobs run nowhere
//! ([`pretend`]): what is measured is the service. This process answers each line on its standard
//! input, which names a measurement, by one line of JSON.
#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![expect(clippy::print_stdout, reason = "its output is its result")]

mod http;
mod people;
mod pretend;
mod serve;

use people::People;
use serde_json::json;
use std::io::BufRead;
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &words[..] {
        ["serve", data_dir, database] => serve::run(data_dir, database),
        // `cargo bench` adds `--bench`.
        ["load", data_dir, database, history, running, ..] => {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let numbers = (history.parse().unwrap(), running.parse().unwrap());
            runtime.block_on(load(data_dir, database, numbers));
        }
        words => panic!("{words:?}: use load DATA_DIR DATABASE HISTORY RUNNING"),
    }
}

/// Prepares a server with jobs that have ended and jobs that run, and measures as it is asked to.
async fn load(data_dir: &str, database: &str, (history, running): (u32, u32)) {
    let mut server = serve::Server::start(data_dir, database);
    let people = People::prepare(&mut server, history, running).await;
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let seconds = |text: &str| Duration::from_secs_f64(text.parse().unwrap());
        let answer = match words[..] {
            ["jobs", time] => people.as_fast_as_possible(&people.jobs_path(), seconds(time)).await,
            ["health", time] => people.as_fast_as_possible("/healthz", seconds(time)).await,
            ["paced", followers, time] => {
                people.paced(followers.parse().unwrap(), seconds(time)).await
            }
            ["rest", time] => {
                let before = server.processor_seconds();
                tokio::time::sleep(seconds(time)).await;
                let used = server.processor_seconds() - before;
                json!({"core": used / seconds(time).as_secs_f64()})
            }
            _ => panic!("{line:?}: use jobs, health, paced or rest"),
        };
        println!("{answer}");
    }
}
