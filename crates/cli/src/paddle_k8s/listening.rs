//! Waits until the parameter servers listen: a pod that runs may still be loading its program, and
//! its name resolves only a while after it runs.

use contract::env::Environment;
use contract::port::Endpoint;
use contract::{Error, Kind, Result};
use std::io::Write;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// How long one attempt may take: a packet to a pod that has gone is answered by nobody.
const ATTEMPT: Duration = Duration::from_secs(3);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(250);
/// Between two lines about what is waited for.
const WORD: Duration = Duration::from_secs(15);

/// Waits for all servers of the job, and for its master.
pub(crate) async fn wait(environment: &Environment, deadline: Instant) -> Result<()> {
    let first = environment.ports.first;
    let servers = environment.pserver_endpoints.iter().enumerate();
    for (rank, server) in servers {
        wait_for(&format!("pserver-{rank}"), &server.with_port(first), deadline).await?;
    }
    if let Some(master) = &environment.master {
        wait_for("master-0", &master.with_port(master::PORT), deadline).await?;
    }
    Ok(())
}

async fn wait_for(name: &str, endpoint: &Endpoint, deadline: Instant) -> Result<()> {
    let address = (endpoint.host(), endpoint.port_or(contract::port::DEFAULT));
    let mut word = Instant::now() + WORD;
    loop {
        let attempt = tokio::time::timeout(ATTEMPT, TcpStream::connect(address)).await;
        let why = match attempt {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        if Instant::now() >= deadline {
            let message =
                format!("{name} does not listen: its own log says why; --wait gives it more time");
            return Err(Error::new(Kind::Timeout, message)
                .with("endpoint", endpoint)
                .with("last", why));
        }
        if Instant::now() >= word {
            word = Instant::now() + WORD;
            say(&format!("waiting for {name} at {endpoint}: {why}"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// A line for people, in the pod's log.
pub(crate) fn say(line: &str) {
    // Waiting goes on, whether anybody can be told or not.
    let _ = writeln!(std::io::stderr(), "{}: {line}", crate::COMMAND);
}
