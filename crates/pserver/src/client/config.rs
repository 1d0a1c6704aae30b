//! What a client is told, and where it learns the servers' addresses from.

use crate::message::ValueType;
use contract::mode::Mode;
use contract::port::{Endpoint, Ports};
use contract::secret::Secret;
use contract::{Error, Result};
use std::sync::Arc;
use std::time::Duration;
use table::model::{Model, Parameter};
use table::placement::ShardPlace;
use wire::{Dial, Limits, Retry, tls};

/// Everything a client is told but the addresses, which may change.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// This trainer, from 0.
    pub rank: u32,
    /// The number of trainers.
    pub trainers: u32,
    /// Which life of this trainer it is; [`wire::fresh_incarnation`] draws one. A process that takes over
    /// a rank must have another than its predecessor.
    pub incarnation: u64,
    /// How often this trainer was started before, where that is counted: servers tell whoever
    /// started them which attempt has finished. Default `None`.
    pub attempt: Option<u32>,
    /// What is trained; the same in all trainers.
    pub model: Model,
    /// The ports of each server; `first` is for addresses that name none.
    pub ports: Ports,
    /// The job's token.
    pub token: Option<Secret>,
    /// Speak TLS.
    pub tls: Option<tls::ClientConfig>,
    /// What a connection may cost.
    pub limits: Limits,
    /// What to do when a server cannot be reached.
    pub retry: Retry,
    /// How long a server that was never reached is dialled, where that is not
    /// [`Retry::deadline`]: where servers are started first, one that is absent at first will
    /// stay so. Default `None`.
    pub first_contact: Option<Duration>,
    /// How often every server hears of us, at least. Default 5 s.
    pub heartbeat_interval: Duration,
    /// A server that answers nothing for so long, heartbeats included, is taken for dead and
    /// dialled again. Default 30 s.
    pub silence_max: Duration,
    /// How long a server may take to accept us: it may have to read a checkpoint. Default 10 min.
    pub join_timeout: Duration,
    /// Async: gradients older than this many times the number of trainers are thrown away by the
    /// servers. `None` keeps all.
    pub lag_ratio_max: Option<f32>,
    /// How gradients travel, and the values that steps are computed with, of parameters that are not
    /// in sync. Default f32.
    pub value_type: ValueType,
    /// A promise that no sparse gradient names a key twice. Without it every push looks for such
    /// keys (about 4 ns each) and sums their gradients, as the servers would update the row twice.
    pub keys_are_unique: bool,
    /// Another way to the servers than TCP. Default `None`.
    pub dial: Option<Arc<dyn Dial>>,
}

/// Frames of large requests have this size; a limit below could not work.
const FRAME_BYTES_MIN: u32 = 8 << 20;

impl ClientConfig {
    /// Defaults for one of `trainers` trainers of a model.
    pub fn new(rank: u32, trainers: u32, incarnation: u64, model: Model) -> Self {
        ClientConfig {
            rank,
            trainers,
            incarnation,
            attempt: None,
            model,
            ports: Ports::default(),
            token: None,
            tls: None,
            limits: Limits::default(),
            retry: Retry::default(),
            first_contact: None,
            heartbeat_interval: Duration::from_secs(5),
            silence_max: Duration::from_secs(30),
            join_timeout: Duration::from_secs(600),
            lag_ratio_max: None,
            value_type: ValueType::F32,
            keys_are_unique: false,
            dial: None,
        }
    }

    /// Refuses what could never work.
    pub fn check(&self) -> Result<()> {
        if self.rank >= self.trainers {
            return Err(Error::invalid("rank is not below the number of trainers")
                .with("rank", self.rank)
                .with("trainers", self.trainers));
        }
        if self.limits.frame_bytes_max < FRAME_BYTES_MIN {
            return Err(Error::invalid("frame_bytes_max is too small for replies to pulls")
                .with("frame_bytes_max", self.limits.frame_bytes_max)
                .with("least", FRAME_BYTES_MIN));
        }
        for (field, time) in [
            ("heartbeat_interval", self.heartbeat_interval),
            ("silence_max", self.silence_max),
            ("join_timeout", self.join_timeout),
        ] {
            if time < Duration::from_millis(1) {
                return Err(Error::invalid(format!("{field} must be at least a millisecond")));
            }
        }
        if self.lag_ratio_max.is_some_and(|ratio| !(ratio.is_finite() && ratio > 0.0)) {
            return Err(Error::invalid(
                "lag_ratio_max must be a number above 0; unset it for none",
            ));
        }
        let is_sync = |parameter: &Parameter| parameter.mode == Mode::Sync;
        if self.value_type != ValueType::F32 && self.model.parameters.iter().all(is_sync) {
            return Err(Error::invalid(
                "in sync mode runs are equal to the bit, so values travel as f32; leave wire_values \
                 out, or train in async, stale or hybrid mode",
            )
            .with("wire_values", "bf16"));
        }
        self.retry.check()?;
        self.ports.check()?;
        self.model.check()
    }

    /// Refuses more servers than the model can be dealt out to.
    pub(super) fn check_servers(&self, servers: u32) -> Result<()> {
        if servers == 0 {
            return Err(Error::invalid("there is no parameter server: list their addresses"));
        }
        ShardPlace::new(0, servers, 0, self.ports.dense.into())?;
        ShardPlace::new(0, servers, 0, u32::from(self.ports.sparse).max(1)).map(|_| ())
    }

    /// The address of a port of a server.
    pub(super) fn address(&self, endpoint: &Endpoint, port: u32) -> Result<String> {
        let first = endpoint.port_or(self.ports.first);
        let number = u16::try_from(u32::from(first) + port).ok().filter(|_| first != 0);
        let number = number.ok_or_else(|| {
            Error::invalid("a port of the server is not in 1 to 65535")
                .with("server", endpoint)
                .with("first", first)
                .with("port", port)
        })?;
        Ok(Endpoint::new(endpoint.host(), number)?.to_string())
    }
}

/// Where the servers are, in the order that all trainers agree on. Asked again before every dial,
/// so that a server may come back elsewhere; their number stays. Must not block for long.
pub trait Addresses: Send + Sync {
    /// One entry per server.
    fn addresses(&self) -> Vec<Endpoint>;
}

/// Servers that stay where they are.
impl Addresses for Vec<Endpoint> {
    fn addresses(&self) -> Vec<Endpoint> {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing;

    #[test]
    fn what_could_never_work_is_named() {
        let good = || ClientConfig::new(0, 2, 1, testing::model());
        let check = |config: ClientConfig, field: &str| {
            let error = config.check().unwrap_err();
            assert!(error.message().contains(field), "{error}");
        };
        good().check().unwrap();
        check(ClientConfig { rank: 2, ..good() }, "rank");
        check(ClientConfig { lag_ratio_max: Some(0.0), ..good() }, "lag_ratio_max");
        check(ClientConfig { heartbeat_interval: Duration::ZERO, ..good() }, "heartbeat_interval");
        let limits = Limits { frame_bytes_max: 1, ..Limits::default() };
        check(ClientConfig { limits, ..good() }, "frame_bytes_max");
        assert!(good().check_servers(0).is_err());
        assert!(good().check_servers(65_537).is_err());
    }

    #[test]
    fn ports_follow_the_first_one_of_each_server() {
        let config = ClientConfig::new(0, 1, 1, testing::model());
        let check = |endpoint: &str, port: u32, expect: &str| {
            let endpoint: Endpoint = endpoint.parse().unwrap();
            assert_eq!(config.address(&endpoint, port).unwrap(), expect);
        };
        check("a", 0, "a:7164");
        check("a:80", 1, "a:81");
        check("::1", 1, "[::1]:7165");
        assert!(config.address(&"a:65535".parse().unwrap(), 1).is_err());
    }
}
