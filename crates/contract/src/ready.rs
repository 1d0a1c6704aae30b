//! The lines by which a server says that it serves, and at its end whom it has served.
//!
//! One JSON object on one line of stdout, printed once all ports are bound, with the marker
//! `paddle_ready` as its first field: a launcher that reads a replica's output can tell it from
//! everything else without parsing that. Trainers print none; nothing waits for them.
//!
//! Reading the output line by line, and giving up after a while, is the launcher's.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::port::Ports;
use crate::role::Role;
use crate::{Error, Kind, Result};

/// A server that accepts connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// What it is.
    pub role: Role,
    /// Its rank, if it knows it already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// The addresses it bound; an unspecified one (`0.0.0.0`, `::`) stands for all of its host.
    pub addresses: Vec<IpAddr>,
    /// The ports it bound, never 0.
    #[serde(flatten)]
    pub ports: Ports,
}

/// The longest line, without its end.
pub const LINE_BYTES_MAX: usize = 4096;
const MARKER: &str = "{\"paddle_ready\":";
/// Counts up when a field changes its meaning; more fields need no new version.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Line<T> {
    paddle_ready: u32,
    #[serde(flatten)]
    ready: T,
}

impl Ready {
    /// The line, without its end.
    pub fn render(&self) -> Result<String> {
        self.check()?;
        let line = serde_json::to_string(&Line { paddle_ready: VERSION, ready: self })
            .map_err(|error| Error::invalid("cannot write the readiness line").because(error))?;
        check_length(&line)?;
        Ok(line)
    }

    /// Reads a line of a replica's output: `None` if it is not a readiness line, an error if it
    /// claims to be one and is not.
    pub fn parse(line: &str) -> Result<Option<Self>> {
        let line = line.trim();
        if !line.starts_with(MARKER) {
            return Ok(None);
        }
        check_length(line)?;
        let damaged = |error: serde_json::Error| {
            Error::new(Kind::Damaged, format!("the readiness line cannot be read: {error}"))
        };
        // The version is read alone first: the other fields may have changed with it.
        let version = serde_json::from_str::<Line<serde::de::IgnoredAny>>(line);
        let version = version.map_err(damaged)?.paddle_ready;
        if version != VERSION {
            let message = "this readiness line is not known here: use matching releases";
            return Err(Error::new(Kind::Unsupported, message).with("version", version));
        }
        let Line { ready, .. } = serde_json::from_str::<Line<Ready>>(line).map_err(damaged)?;
        ready.check()?;
        Ok(Some(ready))
    }

    fn check(&self) -> Result<()> {
        let damaged = |message| Err(Error::new(Kind::Damaged, message));
        if self.addresses.is_empty() {
            return damaged("the readiness line has no address");
        }
        if self.ports.first == 0 {
            return damaged("the readiness line does not say which port was bound");
        }
        self.ports.check()
    }
}

fn check_length(line: &str) -> Result<()> {
    if line.len() <= LINE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::new(Kind::LimitExceeded, "the readiness line is too long")
        .with("bytes", line.len())
        .with("bytes_max", LINE_BYTES_MAX))
}

/// The last line of a server: whom it has served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Farewell {
    /// How many trainers have joined it.
    pub trainers_joined: u32,
    /// Whether a signal has ended it, and not that all trainers had left.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_stopped: bool,
    /// Whether its last checkpoint could not be written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unsaved: bool,
    /// Rank and attempt of the trainers that said goodbye, where it was not the first attempt; the
    /// largest number where the trainer did not say which it is. Only from a server that all have
    /// left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodbyes: Option<Vec<(u32, u32)>>,
}

const FAREWELL_MARKER: &str = "{\"paddle_farewell\":";

#[derive(Serialize, Deserialize)]
struct FarewellLine {
    paddle_farewell: u32,
    #[serde(flatten)]
    farewell: Farewell,
}

impl Farewell {
    /// The line, without its end. Goodbyes that no line holds are left out.
    pub fn render(&self) -> Result<String> {
        let write = |farewell| {
            serde_json::to_string(&FarewellLine { paddle_farewell: VERSION, farewell })
                .map_err(|error| Error::invalid("cannot write the last line").because(error))
        };
        let line = write(self.clone())?;
        match line.len() > LINE_BYTES_MAX {
            true => write(Farewell { goodbyes: None, ..self.clone() }),
            false => Ok(line),
        }
    }

    /// Reads a line of a replica's output: `None` if it is not a last line, an error if it claims
    /// to be one and is not.
    pub fn parse(line: &str) -> Result<Option<Self>> {
        let line = line.trim();
        if !line.starts_with(FAREWELL_MARKER) {
            return Ok(None);
        }
        check_length(line)?;
        let FarewellLine { farewell, .. } = serde_json::from_str(line).map_err(|error| {
            Error::new(Kind::Damaged, format!("the last line of a server cannot be read: {error}"))
        })?;
        Ok(Some(farewell))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pserver() -> Ready {
        Ready {
            role: Role::Pserver,
            rank: Some(3),
            addresses: vec![IpAddr::from([0, 0, 0, 0])],
            ports: Ports::default(),
        }
    }

    #[test]
    fn the_line_looks_like_this() {
        insta::assert_snapshot!(pserver().render().unwrap(), @r#"{"paddle_ready":1,"role":"pserver","rank":3,"addresses":["0.0.0.0"],"port":7164,"ports_num":1,"ports_num_for_sparse":1}"#);
        insta::assert_snapshot!(Ready { rank: None, ..pserver() }.render().unwrap(), @r#"{"paddle_ready":1,"role":"pserver","addresses":["0.0.0.0"],"port":7164,"ports_num":1,"ports_num_for_sparse":1}"#);
    }

    #[test]
    fn a_farewell_reads_back() {
        let farewell = Farewell { trainers_joined: 2, ..Farewell::default() };
        let line = farewell.render().unwrap();
        insta::assert_snapshot!(line, @r#"{"paddle_farewell":1,"trainers_joined":2}"#);
        let stopped = Farewell { was_stopped: true, ..farewell.clone() };
        assert_eq!(Farewell::parse(&stopped.render().unwrap()).unwrap(), Some(stopped));
        assert_eq!(Farewell::parse(&line).unwrap(), Some(farewell.clone()));
        assert_eq!(Farewell::parse("goodbye").unwrap(), None);
        assert!(Farewell::parse(&line.replace('2', "-2")).is_err());
        let left = Farewell { goodbyes: Some(vec![(1, 3)]), ..farewell };
        let line = left.render().unwrap();
        insta::assert_snapshot!(line, @r#"{"paddle_farewell":1,"trainers_joined":2,"goodbyes":[[1,3]]}"#);
        assert_eq!(Farewell::parse(&line).unwrap(), Some(left));
        let many = Some((0..1000).map(|rank| (rank, 1)).collect());
        let line = Farewell { goodbyes: many, ..farewell }.render().unwrap();
        assert_eq!(Farewell::parse(&line).unwrap(), Some(farewell));
    }

    #[test]
    fn other_output_is_not_mistaken_for_it() {
        for line in ["", "listening", "{}", "{\"ready\":1}", "I0719 paddle_ready", "[1, 2]"] {
            assert_eq!(Ready::parse(line).unwrap(), None, "{line}");
        }
    }

    #[test]
    fn a_line_may_have_an_end_and_fields_of_the_future() {
        let line = pserver().render().unwrap().replace("\"role\"", "\"colour\":[1],\"role\"");
        assert_eq!(Ready::parse(&format!("{line}\r\n")).unwrap(), Some(pserver()));
    }

    #[test]
    fn a_hostile_line_is_refused() {
        let check = |change: (&str, &str), kind| {
            let line = pserver().render().unwrap().replace(change.0, change.1);
            assert_eq!(Ready::parse(&line).unwrap_err().kind(), kind, "{line}");
        };
        check(("}", ""), Kind::Damaged);
        check(("pserver", "boss"), Kind::Damaged);
        check(("7164", "0"), Kind::Damaged);
        check(("7164", "-1"), Kind::Damaged);
        check(("7164", "65535"), Kind::Invalid);
        check(("7164", "70000"), Kind::Damaged);
        check(("0.0.0.0", "evil.example"), Kind::Damaged);
        check(("[\"0.0.0.0\"]", "[]"), Kind::Damaged);
        check(("\"paddle_ready\":1", "\"paddle_ready\":2"), Kind::Unsupported);
        check(("0.0.0.0", &"9".repeat(5000)), Kind::LimitExceeded);
        let deep = format!("{MARKER}1,\"role\":{}", "[".repeat(4000));
        assert_eq!(Ready::parse(&deep).unwrap_err().kind(), Kind::Damaged);
    }

    #[test]
    fn what_cannot_be_read_is_not_written() {
        assert!(Ready { addresses: Vec::new(), ..pserver() }.render().is_err());
        assert!(
            Ready { addresses: vec![[0, 0, 0, 0].into(); 1000], ..pserver() }.render().is_err()
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_server_reads_back(
            role in prop::sample::select(&Role::ALL[..]),
            rank: Option<u32>,
            addresses in prop::collection::vec(any::<IpAddr>(), 1..10),
            (first, dense, sparse) in (1..60_000_u16, 1..1000_u16, 0..1000_u16),
        ) {
            let ready = Ready { role, rank, addresses, ports: Ports { first, dense, sparse } };
            let line = ready.render().unwrap();
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(Ready::parse(&line).unwrap(), Some(ready));
        }

        #[test]
        fn no_line_makes_the_parser_panic(rest in ".*") {
            let _ = Ready::parse(&format!("{MARKER}1,{rest}"));
        }
    }
}
