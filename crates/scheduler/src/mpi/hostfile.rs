//! The list of machines that `mpirun` is given: one per line, perhaps with `slots=N`.
//!
//! Only the machines matter here. How many processes go to which is decided by `mpirun`, whose
//! defaults have changed between its versions, and is not guessed.

use contract::port::Endpoint;
use contract::{Error, Result};

/// The machines, in order, each once.
///
/// # Errors
/// Names the line that cannot be read.
pub fn parse(text: &str) -> Result<Vec<String>> {
    let mut hosts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let Some(first) = line.split_whitespace().next() else { continue };
        // `user@host` is Open MPI's, `host:slots` is MPICH's.
        let name = first.rsplit_once('@').map_or(first, |(_, name)| name);
        let endpoint: Endpoint = name.parse().map_err(|_| {
            Error::invalid("not a machine: begin the line with a name or an address")
                .with("line", index + 1)
                .with("text", first.escape_debug())
        })?;
        let host = endpoint.host().to_owned();
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    if hosts.is_empty() {
        return Err(Error::invalid("there is no machine in the hostfile: write one per line"));
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_read_in_every_spelling() {
        let text = "# nodes\n10.0.0.1 slots=2 max_slots=4\n\n  me@node-2   # second\nnode-3:8\n10.0.0.1\n::1\n";
        assert_eq!(parse(text).unwrap(), ["10.0.0.1", "node-2", "node-3", "::1"]);
    }

    #[test]
    fn a_line_that_is_no_machine_is_named() {
        insta::assert_snapshot!(parse("10.0.0.1\na/b\n").unwrap_err(), @"not a machine: begin the line with a name or an address (line: 2, text: a/b)");
        insta::assert_snapshot!(parse("\n# none\n").unwrap_err(), @"there is no machine in the hostfile: write one per line");
    }
}
