//! One machine as people write it: `user@host:port`, each part but the host optional.

use std::fmt;
use std::str::FromStr;

use contract::port::Endpoint;
use contract::{Error, Result};
use serde::{Deserialize, Serialize};

/// A machine that is reached by ssh. The host may be an alias of the user's ssh configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Host {
    user: Option<String>,
    endpoint: Endpoint,
}

impl Host {
    /// Who logs in, if it is said.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The name, alias or address; an IPv6 address without brackets.
    pub fn name(&self) -> &str {
        self.endpoint.host()
    }

    /// The port of its ssh server, if it is said.
    pub fn port(&self) -> Option<u16> {
        // An endpoint never has port 0.
        Some(self.endpoint.port_or(0)).filter(|port| *port != 0)
    }
}

/// Reads hosts and refuses none at all, and one that is there twice: both would work in the same
/// directory. A machine may be there again with another ssh port or user.
pub fn parse_hosts<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Vec<Host>> {
    let mut hosts: Vec<Host> = Vec::new();
    for entry in entries {
        let host: Host = entry.trim().parse()?;
        if hosts.contains(&host) {
            return Err(Error::invalid("a host is there twice: name each once").with("host", host));
        }
        hosts.push(host);
    }
    if hosts.is_empty() {
        return Err(Error::invalid("there is no host: name at least one, such as root@10.0.0.1"));
    }
    Ok(hosts)
}

impl FromStr for Host {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::invalid("not a host: use host, user@host or user@host:port")
                .with("host", text.escape_debug())
        };
        let (user, endpoint) = match text.rsplit_once('@') {
            Some((user, endpoint)) => (Some(user.to_owned()), endpoint),
            None => (None, text),
        };
        // What begins with a dash would be an option of ssh.
        let is_safe = |name: &str| !name.is_empty() && !name.starts_with('-');
        let is_user = |user: &str| {
            is_safe(user) && !user.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        let endpoint: Endpoint = endpoint.parse().map_err(|_| refuse())?;
        if !is_safe(endpoint.host()) || !user.as_deref().is_none_or(is_user) {
            return Err(refuse());
        }
        Ok(Host { user, endpoint })
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        self.endpoint.fmt(f)
    }
}

impl TryFrom<String> for Host {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Host> for String {
    fn from(host: Host) -> Self {
        host.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_people_write_them() {
        let parts = |text: &str| {
            let host: Host = text.parse().unwrap();
            assert_eq!(host.to_string(), text);
            (host.user().map(str::to_owned), host.name().to_owned(), host.port())
        };
        assert_eq!(parts("node1"), (None, "node1".into(), None));
        assert_eq!(
            parts("root@192.168.100.17:9090"),
            (Some("root".into()), "192.168.100.17".into(), Some(9090))
        );
        assert_eq!(parts("a@b@[::1]:22"), (Some("a@b".into()), "::1".into(), Some(22)));
    }

    #[test]
    fn nothing_that_ssh_would_take_for_an_option_is_a_host() {
        for text in
            ["", "-oProxyCommand=x", "root@-v", "-l@host", "a b@host", "host:0", "@host", "h;x"]
        {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_machine_may_be_there_twice_with_different_ports_only() {
        assert_eq!(parse_hosts(["h:2201", "h:2202"]).unwrap().len(), 2);
        insta::assert_snapshot!(parse_hosts(["h", "i", "h"]).unwrap_err(), @"a host is there twice: name each once (host: h)");
        insta::assert_snapshot!(parse_hosts([]).unwrap_err(), @"there is no host: name at least one, such as root@10.0.0.1");
        insta::assert_snapshot!(parse_hosts(["a/b"]).unwrap_err(), @"not a host: use host, user@host or user@host:port (host: a/b)");
    }
}
