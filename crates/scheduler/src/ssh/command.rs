//! The command lines of `ssh` and `rsync`. Pure: paths and hosts in, arguments out.
//!
//! The system's own `ssh` is used, so that keys, agents, jump hosts and aliases work as its users
//! have set them up. The first connection to a host stays open and carries the others, so that
//! somebody who has to type a password does so once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::quote::quote;

use super::host::Host;
use super::patience::SILENCE_MAX;

/// How hosts are reached.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Instead of the user's own ssh configuration.
    pub config: Option<PathBuf>,
    /// The command `paddle` on the hosts: a name to be found there, or a path.
    pub paddle: String,
    /// How long a host may take until its `paddle` answers.
    pub patience: Duration,
}

/// How a connection is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    /// The first: `ssh` must not ask anything.
    First,
    /// The first, after it was refused without asking: passwords are asked for on the terminal.
    Asking,
    /// Through the first.
    Shared,
}

/// The least time to connect, where there is that much.
const CONNECT_SECONDS: u64 = 15;
/// A host is given up when it has not answered for four of these.
const ALIVE_SECONDS: u32 = 15;

impl Reach {
    /// How much of the time `ssh` may take to connect: `paddle` has to be started too.
    fn connect_seconds(&self) -> u64 {
        let seconds = self.patience.as_secs().max(1);
        (seconds / 4).max(CONNECT_SECONDS).min(seconds)
    }

    /// How long a host is waited for. Longer than `ssh` tries to connect, whose words say more.
    pub(super) fn answer_within(&self) -> Duration {
        self.patience.max(Duration::from_secs(self.connect_seconds() + 1))
    }
}

/// The arguments of `ssh` up to and including the host.
pub(super) fn ssh(
    reach: &Reach,
    host: &Host,
    control: &Path,
    connection: Connection,
) -> Vec<OsString> {
    let mut arguments = options(reach, control, connection);
    arguments.extend(destination(host));
    arguments.extend([OsString::from("--"), OsString::from(host.name())]);
    arguments
}

fn options(reach: &Reach, control: &Path, connection: Connection) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    if let Some(config) = &reach.config {
        arguments.extend(["-F".into(), config.into()]);
    }
    arguments.push("-T".into());
    let mut option = |text: String| arguments.extend(["-o".into(), OsString::from(text)]);
    option(format!("BatchMode={}", if connection == Connection::Asking { "no" } else { "yes" }));
    option(format!("ConnectTimeout={}", reach.connect_seconds()));
    option(format!("ServerAliveInterval={ALIVE_SECONDS}"));
    option("ServerAliveCountMax=4".to_owned());
    option("LogLevel=ERROR".to_owned());
    option("ClearAllForwardings=yes".to_owned());
    let is_shared = connection == Connection::Shared;
    option(format!("ControlMaster={}", if is_shared { "no" } else { "yes" }));
    option("ControlPersist=no".to_owned());
    let mut path = OsString::from("ControlPath=");
    path.push(control);
    arguments.extend(["-o".into(), path]);
    arguments
}

fn destination(host: &Host) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    if let Some(user) = host.user() {
        arguments.extend(["-l".into(), user.into()]);
    }
    if let Some(port) = host.port() {
        arguments.extend(["-p".into(), port.to_string().into()]);
    }
    arguments
}

/// The arguments of `ssh` that print how it would reach the host.
pub(super) fn describe(reach: &Reach, host: &Host) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["-G".into()];
    if let Some(config) = &reach.config {
        arguments.extend(["-F".into(), config.into()]);
    }
    arguments.extend(destination(host));
    arguments.extend([OsString::from("--"), OsString::from(host.name())]);
    arguments
}

/// A command for the shell of a host.
pub(super) fn remote(words: &[&str]) -> String {
    quote(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
}

/// The arguments of `rsync` that bring a package to a host's mirror.
pub(super) fn rsync(
    reach: &Reach,
    host: &Host,
    control: &Path,
    package: &Path,
    mirror: &str,
) -> Vec<OsString> {
    let mut shell = String::from("ssh");
    for argument in options(reach, control, Connection::Shared).into_iter().chain(destination(host))
    {
        shell.push(' ');
        shell.push_str(&quote_for_rsync(&argument.to_string_lossy()));
    }
    let mut from = package.as_os_str().to_owned();
    from.push("/");
    // An IPv6 address needs brackets, so that rsync finds the colon.
    let name = host.name();
    let name = if name.contains(':') { format!("[{name}]") } else { name.to_owned() };
    let flags = ["-rlp", "--checksum", "--delete", "--protect-args", "--quiet"];
    let mut arguments: Vec<OsString> = flags.map(OsString::from).to_vec();
    arguments.push(format!("--timeout={}", SILENCE_MAX.as_secs()).into());
    arguments.extend(["--rsh".into(), shell.into(), "--".into(), from]);
    arguments.push(format!("{name}:{mirror}/").into());
    arguments
}

/// `rsync` splits its remote shell at spaces, and knows quotes but no backslashes: a quote inside is
/// doubled.
fn quote_for_rsync(word: &str) -> String {
    if word.contains([' ', '\'', '"']) {
        format!("'{}'", word.replace('\'', "''"))
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(arguments: &[OsString]) -> String {
        quote(&arguments.iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>())
    }

    fn reach(seconds: u64) -> Reach {
        Reach { config: None, paddle: "paddle".into(), patience: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_host_has_the_time_that_it_is_given() {
        let seconds = |seconds| {
            let reach = reach(seconds);
            (reach.connect_seconds(), reach.answer_within().as_secs())
        };
        assert_eq!([1, 4, 60, 600].map(seconds), [(1, 2), (4, 5), (15, 60), (150, 600)]);
    }

    #[test]
    fn command_lines_hold_no_secret_and_no_surprise() {
        let reach = Reach { config: Some("/etc/my ssh".into()), ..reach(60) };
        let host: Host = "root@[::1]:9090".parse().unwrap();
        let control = Path::new("/tmp/c/0");
        insta::assert_snapshot!(show(&ssh(&reach, &host, control, Connection::First)), @"-F '/etc/my ssh' -T -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 -o LogLevel=ERROR -o ClearAllForwardings=yes -o ControlMaster=yes -o ControlPersist=no -o ControlPath=/tmp/c/0 -l root -p 9090 -- ::1");
        insta::assert_snapshot!(show(&rsync(&reach, &host, control, Path::new("/home/me/my job"), "/srv/m")), @r"-rlp --checksum --delete --protect-args --quiet --timeout=600 --rsh 'ssh -F '\''/etc/my ssh'\'' -T -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 -o LogLevel=ERROR -o ClearAllForwardings=yes -o ControlMaster=no -o ControlPersist=no -o ControlPath=/tmp/c/0 -l root -p 9090' -- '/home/me/my job/' '[::1]:/srv/m/'");
        let reach = Reach { config: None, ..reach };
        let host: Host = "node1".parse().unwrap();
        insta::assert_snapshot!(show(&ssh(&reach, &host, control, Connection::Shared)), @"-T -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 -o LogLevel=ERROR -o ClearAllForwardings=yes -o ControlMaster=no -o ControlPersist=no -o ControlPath=/tmp/c/0 -- node1");
        insta::assert_snapshot!(show(&describe(&reach, &host)), @"-G -- node1");
    }
}
