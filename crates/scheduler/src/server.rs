//! A parameter server as every backend starts it: its command line and its ports. Pure.

use contract::Result;
use contract::port::Ports;

use crate::conductor::plan::PORT;

/// Begin with the newest checkpoint.
pub const RESTORE: &str = "--restore";

/// One server of a job.
#[derive(Debug)]
pub struct Server<'a> {
    /// The program `paddle`.
    pub paddle: &'a str,
    /// The interface that it listens on; empty for all.
    pub nic: &'a str,
    /// How many ports it has; the first is filled in when it is started.
    pub ports: Ports,
    /// Its rank, and how many there are.
    pub place: (u32, u32),
    /// The number of trainers.
    pub trainers: u32,
    /// By this text people find it in a list of processes.
    pub comment: &'a str,
}

impl Server<'_> {
    /// The command line.
    pub fn argv(&self) -> Vec<String> {
        let mut argv = vec![self.paddle.to_owned(), "pserver".to_owned()];
        if !self.nic.is_empty() {
            argv.push(format!("--nics={}", self.nic));
        }
        let Ports { dense, sparse, .. } = self.ports;
        argv.extend([
            format!("--port={PORT}"),
            format!("--ports_num={dense}"),
            format!("--ports_num_for_sparse={sparse}"),
            format!("--num_gradient_servers={}", self.trainers),
            format!("--index={}", self.place.0),
            format!("--servers={}", self.place.1),
            format!("--comment={}", self.comment),
        ]);
        argv
    }
}

/// What a server is told when it is started again: to begin with the newest complete checkpoint, or
/// with first values if there is none, unless it was told what to begin with the first time.
pub fn again(keeps_checkpoints: bool, restores_already: bool) -> Vec<String> {
    let restores = keeps_checkpoints && !restores_already;
    restores.then(|| format!("{RESTORE}=common")).into_iter().collect()
}

/// The ports of a server that has `before` others ahead of it at the same address. Port 0 is for
/// the system to choose, for each server anew.
///
/// # Errors
/// They would end past 65535.
pub fn shifted(ports: Ports, before: u32) -> Result<Ports> {
    let Ports { first, dense, sparse } = ports;
    let room = u32::from(dense) + u32::from(sparse);
    let port = u32::from(first).saturating_add(before.saturating_mul(room));
    let first = if first == 0 { 0 } else { u16::try_from(port).unwrap_or(u16::MAX) };
    let ports = Ports { first, dense, sparse };
    ports.check().map(|()| ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_at_one_address_have_ports_one_after_another() {
        let ports = Ports { first: 7164, dense: 2, sparse: 1 };
        assert_eq!(shifted(ports, 0).unwrap(), ports);
        assert_eq!(shifted(ports, 2).unwrap().first, 7170);
        assert_eq!(shifted(Ports { first: 0, ..ports }, 7).unwrap().first, 0);
        assert!(shifted(ports, 30_000).is_err() && shifted(ports, u32::MAX).is_err());
    }
}
