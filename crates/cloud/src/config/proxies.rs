//! `proxies:` of the configuration: who may say, by `X-Forwarded-For`, from where a request came.

use contract::{Error, Result};
use serde::Deserialize;
use std::net::IpAddr;

/// A range of addresses, such as `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network {
    address: IpAddr,
    /// The leading bits that count.
    bits: u32,
}

impl TryFrom<String> for Network {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text.as_str(), None),
        };
        let address: Option<IpAddr> = address.parse().ok();
        let most = address.map_or(0, |address| if address.is_ipv4() { 32 } else { 128 });
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok().filter(|bits| *bits <= most));
        match (address, bits) {
            (Some(address), Some(bits)) => Ok(Network { address, bits }),
            _ => {
                let message = "proxies: use addresses and ranges such as 10.0.0.1 or 10.0.0.0/8";
                Err(Error::invalid(message).with("proxy", text))
            }
        }
    }
}

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(address)) => {
                let differing = own.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= self.bits
            }
            (IpAddr::V6(own), IpAddr::V6(address)) => {
                let differing = own.to_bits() ^ address.to_bits();
                differing.leading_zeros() >= self.bits
            }
            _ => false,
        }
    }
}

/// From where a request came that `peer` has sent: `peer` itself, unless it is a proxy; then the
/// last address of `forwarded` (the values of `X-Forwarded-For`, joined by commas) that is none.
/// What stands before that one is whatever the caller has written.
pub(crate) fn origin(peer: IpAddr, forwarded: &str, proxies: &[Network]) -> IpAddr {
    let is_proxy = |address| proxies.iter().any(|proxy| proxy.contains(address));
    let mut origin = peer.to_canonical();
    for entry in forwarded.rsplit(',') {
        if !is_proxy(origin) {
            break;
        }
        let Some(before) = parse(entry.trim()) else { break };
        origin = before.to_canonical();
    }
    origin
}

/// Some proxies write a port, too.
fn parse(entry: &str) -> Option<IpAddr> {
    let address = entry.parse().ok();
    address.or_else(|| entry.parse::<std::net::SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proxies_are_believed() {
        let proxies: Vec<Network> = ["10.0.0.0/8", "fd00::/8", "192.0.2.1"]
            .map(|text| Network::try_from(text.to_owned()).unwrap())
            .into();
        let check = |peer: &str, forwarded: &str, expect: &str| {
            let found = origin(peer.parse().unwrap(), forwarded, &proxies);
            assert_eq!(found, expect.parse::<IpAddr>().unwrap(), "{peer} {forwarded}");
        };
        check("198.51.100.7", "", "198.51.100.7");
        check("198.51.100.7", "203.0.113.9", "198.51.100.7");
        check("10.1.2.3", "203.0.113.9", "203.0.113.9");
        check("::ffff:10.1.2.3", "203.0.113.9:4711", "203.0.113.9");
        check("192.0.2.1", "1.2.3.4, 203.0.113.9, 10.0.0.1,fd00::1", "203.0.113.9");
        check("192.0.2.2", "203.0.113.9", "192.0.2.2");
        check("10.1.2.3", "", "10.1.2.3");
        check("10.1.2.3", "nonsense, 10.0.0.1", "10.0.0.1");
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0.0/x", "proxy.example.com", "::1/129"] {
            let error = Network::try_from(text.to_owned()).unwrap_err().to_string();
            assert!(error.contains("proxies: use addresses and ranges"), "{error}");
        }
    }
}
