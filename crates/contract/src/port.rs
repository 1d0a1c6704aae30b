//! The ports of a server, and the `host[:port]` entries by which it is found.
//!
//! A parameter server has `ports_num` dense ports from `port` on, then `ports_num_for_sparse`
//! more. An entry's port is the first of that server's, so that several can share a host. Nothing
//! is bound or resolved here.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::job::REPLICAS_MAX;
use crate::{Error, Result};

/// The documented port of a parameter server.
pub const DEFAULT: u16 = 7164;

/// The consecutive ports of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// The first port; 0 lets the system choose.
    #[serde(rename = "port")]
    pub first: u16,
    /// How many ports serve dense parameters.
    #[serde(rename = "ports_num")]
    pub dense: u16,
    /// How many ports, after the dense ones, serve sparse parameters.
    #[serde(rename = "ports_num_for_sparse")]
    pub sparse: u16,
}

impl Default for Ports {
    fn default() -> Self {
        Ports { first: DEFAULT, dense: 1, sparse: 1 }
    }
}

impl Ports {
    /// Refuses a server without a port, and ports past 65535.
    pub fn check(&self) -> Result<()> {
        if self.dense == 0 {
            return Err(Error::invalid("ports_num is 0: a server needs at least one port"));
        }
        let last = u32::from(self.first) + u32::from(self.dense) + u32::from(self.sparse) - 1;
        if last > u16::MAX.into() {
            return Err(Error::invalid("the ports end past 65535: lower the port or their number")
                .with("port", self.first)
                .with("ports_num", self.dense)
                .with("ports_num_for_sparse", self.sparse));
        }
        Ok(())
    }

    /// The ports for dense parameters; all 0 if the system is to choose.
    pub fn dense_ports(&self) -> impl Iterator<Item = u16> + use<> {
        self.range(0, self.dense)
    }

    /// The ports for sparse parameters; all 0 if the system is to choose.
    pub fn sparse_ports(&self) -> impl Iterator<Item = u16> + use<> {
        self.range(self.dense, self.sparse)
    }

    fn range(&self, skip: u16, count: u16) -> impl Iterator<Item = u16> + use<> {
        let first = self.first;
        let port = move |index: u16| first.saturating_add(skip).saturating_add(index);
        (0..count).map(move |index| if first == 0 { 0 } else { port(index) })
    }
}

/// `host[:port]`: a name, an IPv4 address, or an IPv6 address (in brackets if a port follows).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    host: String,
    port: Option<u16>,
}

impl Endpoint {
    /// An endpoint at a known port.
    pub fn new(host: &str, port: u16) -> Result<Self> {
        let is_bare_v6 = host.parse::<Ipv6Addr>().is_ok();
        if is_bare_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") }.parse()
    }

    /// The host, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, or `default` where the entry has none.
    pub fn port_or(&self, default: u16) -> u16 {
        self.port.unwrap_or(default)
    }

    /// The same server with its port written out; a default of 0 is no port.
    #[must_use]
    pub fn with_port(&self, default: u16) -> Endpoint {
        let default = (default != 0).then_some(default);
        Endpoint { host: self.host.clone(), port: self.port.or(default) }
    }

    /// The same host without a port.
    #[must_use]
    pub fn without_port(&self) -> Endpoint {
        Endpoint { host: self.host.clone(), port: None }
    }
}

/// The most entries a list may have: one for each replica of the largest role.
pub const ENDPOINTS_MAX: usize = REPLICAS_MAX as usize;
const HOST_BYTES_MAX: usize = 253;
const FORMS: &str = "use host, host:port, or [address]:port for IPv6, with a port from 1 to 65535";

/// Reads a list separated by commas; no text is no endpoints.
pub fn parse_endpoints(list: &str) -> Result<Vec<Endpoint>> {
    if list.trim().is_empty() {
        return Ok(Vec::new());
    }
    if list.split(',').nth(ENDPOINTS_MAX).is_some() {
        return Err(Error::invalid("too many endpoints in one list").with("max", ENDPOINTS_MAX));
    }
    list.split(',').map(|entry| entry.trim().parse()).collect()
}

/// Writes a list that [`parse_endpoints`] reads.
pub fn render_endpoints(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",")
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            address if address.contains(':') => write!(f, "[{address}]")?,
            host => f.write_str(host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        split(text).ok_or_else(|| {
            let shown: String = text.escape_debug().take(HOST_BYTES_MAX).collect();
            Error::invalid(format!("not an endpoint: {FORMS}")).with("endpoint", shown)
        })
    }
}

fn split(text: &str) -> Option<Endpoint> {
    // A bare IPv6 address is full of colons, none of which begins a port.
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(Endpoint { host: address.to_string(), port: None });
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            (address.parse::<Ipv6Addr>().ok()?.to_string(), port)
        }
        None => {
            let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            let is_host = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            let is_good = (1..=HOST_BYTES_MAX).contains(&host.len()) && host.chars().all(is_host);
            (is_good.then(|| host.to_owned())?, port)
        }
    };
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|c| c.is_ascii_digit()) => Some(digits.parse().ok()?),
        Some(_) => return None,
        None if port.is_empty() => None,
        None => return None,
    };
    (port != Some(0)).then_some(Endpoint { host, port })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dense_ports_come_first_and_sparse_ports_follow() {
        let check = |first, dense: &[u16], sparse: &[u16]| {
            let ports = Ports { first, dense: dense.len() as u16, sparse: sparse.len() as u16 };
            ports.check().unwrap();
            assert_eq!(ports.dense_ports().collect::<Vec<_>>(), dense);
            assert_eq!(ports.sparse_ports().collect::<Vec<_>>(), sparse);
        };
        check(7164, &[7164], &[7165]);
        check(7164, &[7164, 7165], &[7166, 7167]);
        check(65533, &[65533, 65534], &[65535]);
        check(7164, &[7164], &[]);
        check(0, &[0, 0], &[0]);
    }

    #[test]
    fn ports_past_the_last_one_are_refused() {
        let error = |ports: Ports| ports.check().unwrap_err().to_string();
        insta::assert_snapshot!(error(Ports { first: 65535, dense: 1, sparse: 1 }), @"the ports end past 65535: lower the port or their number (port: 65535, ports_num: 1, ports_num_for_sparse: 1)");
        insta::assert_snapshot!(error(Ports { first: 7164, dense: 0, sparse: 1 }), @"ports_num is 0: a server needs at least one port");
        assert!(Ports { first: 65535, dense: 65535, sparse: 65535 }.check().is_err());
    }

    #[test]
    fn endpoints_are_read_and_written() {
        let check = |text: &str, host: &str, port: u16, shown: &str| {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!((endpoint.host(), endpoint.port_or(DEFAULT)), (host, port));
            assert_eq!(endpoint.to_string(), shown);
        };
        check("127.0.0.1", "127.0.0.1", 7164, "127.0.0.1");
        check("node-3.cluster_a:80", "node-3.cluster_a", 80, "node-3.cluster_a:80");
        check("[::1]:7164", "::1", 7164, "[::1]:7164");
        check("[::1]", "::1", 7164, "[::1]");
        check("fe80:0::1", "fe80::1", 7164, "[fe80::1]");
    }

    #[test]
    fn a_list_is_separated_by_commas() {
        assert_eq!(parse_endpoints(" ").unwrap(), []);
        let list = parse_endpoints("10.0.0.1, 10.0.0.2:7200,[::1]:7164").unwrap();
        assert_eq!(render_endpoints(&list), "10.0.0.1,10.0.0.2:7200,[::1]:7164");
        for list in [",", "a,", "a,,b", "a b"] {
            assert!(parse_endpoints(list).is_err(), "{list}");
        }
        assert!(parse_endpoints(&"a,".repeat(ENDPOINTS_MAX + 1)).is_err());
    }

    #[test]
    fn anything_else_is_refused_with_the_accepted_forms() {
        for text in [
            "", ":80", "a:", "a:0", "a:65536", "a:+1", "a:b", "[::1", "[a]:1", "[::1]80", "::1:x",
            "http://a", "a\n",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
        insta::assert_snapshot!("a:0".parse::<Endpoint>().unwrap_err(), @"not an endpoint: use host, host:port, or [address]:port for IPv6, with a port from 1 to 65535 (endpoint: a:0)");
        assert!(Endpoint::new("a", 0).is_err());
        assert!(Endpoint::new("a:80", 80).is_err());
        assert_eq!(Endpoint::new("::1", 80).unwrap().to_string(), "[::1]:80");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn whatever_is_accepted_reads_back(text in "[a-c0-9.:\\[\\]-]{0,12}|.*") {
            if let Ok(endpoint) = text.parse::<Endpoint>() {
                prop_assert_eq!(endpoint.to_string().parse::<Endpoint>().unwrap(), endpoint);
            }
        }
    }
}
