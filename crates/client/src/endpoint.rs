//! The address of a server as people write it, with or without a slash at the end.

use contract::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The base URL of a server: `http://` or `https://`, a host, perhaps a port and a path. It has no
/// slash at the end, so that paths of calls can be put behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(String);

const URL_BYTES_MAX: usize = 2048;

impl Endpoint {
    /// The whole URL of a call; `path` begins with a slash.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// Whether the server is on this machine, so that no proxy is asked.
    pub(crate) fn is_loopback(&self) -> bool {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split('/').next().unwrap_or_default();
        let has_port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let host = has_port.map_or(authority, |(host, _)| host);
        let address = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost"
            || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether TLS is spoken.
    pub(crate) fn is_secure(&self) -> bool {
        self.0.starts_with("https://")
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Endpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = |fix: String| Err(Error::invalid(fix).with("endpoint", text.escape_debug()));
        let trimmed = text.trim();
        let Some((scheme, rest)) = trimmed.split_once("://") else {
            let guess = trimmed.trim_matches('/');
            return refuse(format!("bad endpoint: write http:// in front, as in http://{guess}"));
        };
        let scheme = scheme.to_ascii_lowercase();
        if !["http", "https"].contains(&scheme.as_str()) {
            return refuse("bad endpoint: it begins with http:// or https://".to_owned());
        }
        let rest = rest.trim_end_matches(['/', '\\']);
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.is_empty() || authority.starts_with(':') {
            return refuse("bad endpoint: it has no host, such as http://cloud:8080".to_owned());
        }
        if authority.contains('@') {
            // Without the value: it may have a password.
            let fix = "bad endpoint: a name and a password belong into `username` and `password`";
            return Err(Error::invalid(fix));
        }
        if let Some((_, port)) = authority.rsplit_once(':')
            && !port.ends_with(']')
            && port.parse::<u16>().map_or(true, |port| port == 0)
        {
            return refuse("bad endpoint: the port is a number from 1 to 65535".to_owned());
        }
        let is_odd = |c: char| !c.is_ascii_graphic() || "?#<>\"`{}|^".contains(c);
        if rest.contains(is_odd) || trimmed.len() > URL_BYTES_MAX {
            let fix = "bad endpoint: leave out white space, queries and other characters that a \
                       URL cannot have";
            return refuse(fix.to_owned());
        }
        Ok(Endpoint(format!("{scheme}://{rest}")))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_at_the_end_make_no_difference() {
        let check = |text: &str, expect: &str| {
            assert_eq!(text.parse::<Endpoint>().unwrap().url("/api"), expect, "{text}");
        };
        check("http://cloud.paddlepaddle.org", "http://cloud.paddlepaddle.org/api");
        check("http://cloud.paddlepaddle.org/", "http://cloud.paddlepaddle.org/api");
        check(" HTTP://127.0.0.1:8080//\\ ", "http://127.0.0.1:8080/api");
        check("https://[::1]:8443/cloud/", "https://[::1]:8443/cloud/api");
        check("https://[::1]", "https://[::1]/api");
    }

    #[test]
    fn this_machine_is_known() {
        let is_here = |text: &str| text.parse::<Endpoint>().unwrap().is_loopback();
        assert!(
            ["http://127.0.0.1:80", "http://localhost/x", "http://[::1]", "http://[::1]:1"]
                .into_iter()
                .all(is_here)
        );
        assert!(!is_here("http://localhost.evil.org") && !is_here("http://10.0.0.1:80"));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_fix() {
        let error = |text: &str| text.parse::<Endpoint>().unwrap_err().to_string();
        insta::assert_snapshot!(error("cloud.org/"), @"bad endpoint: write http:// in front, as in http://cloud.org (endpoint: cloud.org/)");
        insta::assert_snapshot!(error("ftp://cloud.org"), @"bad endpoint: it begins with http:// or https:// (endpoint: ftp://cloud.org)");
        insta::assert_snapshot!(error("http://"), @"bad endpoint: it has no host, such as http://cloud:8080 (endpoint: http://)");
        insta::assert_snapshot!(error("http://me:secret@cloud"), @"bad endpoint: a name and a password belong into `username` and `password`");
        for text in [
            "",
            "http://:80",
            "http://a:0",
            "http://a:x",
            "http://a b",
            "http://a?b",
            "http://a/\nb",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
        }
    }
}
