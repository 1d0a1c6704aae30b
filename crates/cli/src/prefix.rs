//! The name of a replica in front of each of its lines, in a colour of its own.

use contract::role::Role;
use std::io::IsTerminal;

/// Cyan, green, yellow, magenta, blue: the trainers' colours, in turn. Servers are grey.
const COLOURS: [u8; 5] = [36, 32, 33, 35, 34];
const GREY: u8 = 90;

/// The text in front of a line; `width` is that of the longest name.
#[cfg(feature = "server")]
pub fn prefix(replica: scheduler::ReplicaId, width: usize, has_colour: bool) -> String {
    named(&replica.to_string(), (replica.role, replica.rank), width, has_colour)
}

/// As [`prefix`], for a replica that is known by a name of its own.
pub fn named(name: &str, who: (Role, u32), width: usize, has_colour: bool) -> String {
    let name = format!("{name:<width$} | ");
    if !has_colour {
        return name;
    }
    let (role, rank) = who;
    let colour = match role {
        Role::Trainer => COLOURS[rank as usize % COLOURS.len()],
        Role::Pserver | Role::Master => GREY,
    };
    format!("\x1b[{colour}m{name}\x1b[0m")
}

/// The width of the longest name.
#[cfg(feature = "server")]
pub fn width(replicas: impl IntoIterator<Item = scheduler::ReplicaId>) -> usize {
    replicas.into_iter().map(|replica| replica.to_string().len()).max().unwrap_or(0)
}

/// Whether `output` is a terminal and nobody has refused colours there.
pub fn wants_colour(output: &impl IsTerminal) -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    output.is_terminal() && !is_refused
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_wide_as_the_longest() {
        let replicas = ["pserver-0", "trainer-10"].map(|name| name.parse().unwrap());
        let width = width(replicas);
        assert_eq!(prefix(replicas[0], width, false), "pserver-0  | ");
        assert_eq!(prefix(replicas[1], width, true), "\x1b[36mtrainer-10 | \x1b[0m");
    }
}
