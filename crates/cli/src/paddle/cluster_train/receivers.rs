//! Which receivers a command talks to: those of `local_config.py`, or the server of
//! `~/.paddle/config`. A training is sent to the first that answers; a job may be with any of them.
//!
//! `local_config.py` lies beside `cluster_train.sh`, which is found on the PATH. It has a list,
//! `receivers = ["host:port", …]`, or just an address a line; it is read without being executed.

use client::{Client, Config, Datacenter, Endpoint, Profile, check_health};
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The script by which people find the client's directory.
const SCRIPT: &str = "cluster_train.sh";
const FILE: &str = "local_config.py";
/// How long a receiver may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(5);
/// A token for scripts, instead of a login.
const TOKEN_VARIABLE: &str = "PADDLECLOUD_TOKEN";

/// The receivers that there are, to be asked one after the other.
pub(super) struct Receivers {
    profile: Profile,
    /// The list, and the file that has it; none for the server of the configuration.
    list: Option<(Vec<Endpoint>, PathBuf)>,
}

impl Receivers {
    /// Reads the list.
    pub(super) fn read() -> Result<Receivers> {
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let home = home.ok_or_else(|| {
            let message = "there is no home directory: set HOME, which has .paddle/config";
            Error::new(Kind::NotFound, message)
        })?;
        let token = std::env::var(TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        let token = token.map(Secret::new);
        let profile = Profile { home, config: None, datacenter: None, token, notice: say };
        let list = match local_config() {
            Some(file) => Some((read(&file)?, file)),
            None => None,
        };
        Ok(Receivers { profile, list })
    }

    /// A client of the first that is there.
    pub(super) fn first(&self) -> Result<Client> {
        let Some((list, file)) = &self.list else { return Client::open(&self.profile) };
        let mut why = String::new();
        for receiver in list {
            match check_health(receiver, PATIENCE) {
                Ok(()) => return self.client(receiver),
                Err(error) => {
                    absent(receiver, &error);
                    why = error.message().to_owned();
                }
            }
        }
        let message = format!("none of the {} receivers is there; the last: {why}", list.len());
        Err(Error::new(Kind::Unavailable, message).with("file", file.display()))
    }

    /// What the receiver answers that knows the job, the others being asked for nothing but that.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if none knows it; another if some could not be asked, with their
    /// addresses: one of them may.
    pub(super) fn find<T>(&self, job: &str, ask: impl Fn(Client) -> Result<T>) -> Result<T> {
        let Some((list, _)) = &self.list else { return ask(Client::open(&self.profile)?) };
        let (mut unknown, mut unasked) = (None, Vec::new());
        for receiver in list {
            let is_there =
                check_health(receiver, PATIENCE).inspect_err(|error| absent(receiver, error));
            match is_there.and_then(|()| self.client(receiver)).map(&ask) {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(error)) if error.kind() == Kind::NotFound => unknown = Some(error),
                Ok(Err(error)) | Err(error) => unasked.push((receiver, error)),
            }
        }
        let nobody = || Error::invalid("the list of receivers is empty");
        let Some((_, last)) = unasked.last() else { return Err(unknown.unwrap_or_else(nobody)) };
        let addresses: Vec<String> = unasked.iter().map(|(one, _)| one.to_string()).collect();
        let message = format!(
            "the job may be with a receiver that cannot be asked now: try again when it can; {}",
            last.message()
        );
        Err(Error::new(last.kind(), message)
            .with("job", job)
            .with("not_asked", addresses.join(", ")))
    }

    fn client(&self, receiver: &Endpoint) -> Result<Client> {
        Client::at(&self.profile, identity(&self.profile, receiver.clone())?)
    }
}

/// A line for whoever watches, beside the output.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn absent(receiver: &Endpoint, error: &Error) {
    say(&format!("the receiver {receiver} is not there: {}", error.message()));
}

/// The file beside the script on the PATH, or beside this program.
fn local_config() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&path).find(|folder| folder.join(SCRIPT).is_file());
    let own = std::env::current_exe().ok().and_then(|own| own.parent().map(Path::to_owned));
    let mut folders = of_path.into_iter().chain(own);
    folders.find_map(|folder| Some(folder.join(FILE)).filter(|file| file.is_file()))
}

/// The addresses of a file.
fn read(file: &Path) -> Result<Vec<Endpoint>> {
    let refused = |source| {
        Error::io("cannot read the list of receivers", source).with("file", file.display())
    };
    let text = std::fs::read_to_string(file).map_err(refused)?;
    // As some editors begin a file.
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let is_address = |line: &&str| {
        let port = line.rsplit_once(':').map(|(_, port)| port.trim_end_matches('/'));
        !line.contains(['=', '"', '\'', ' '])
            && port.is_some_and(|port| port.parse::<u16>().is_ok())
    };
    let stranger = lines.iter().find(|line| !is_address(line));
    let receivers = match stranger {
        None => lines.iter().map(|line| (*line).to_owned()).collect(),
        // No line of Python: a list, or what it is given to.
        Some(line) if !text.contains(['=', '[', '"', '\'']) => {
            let message = "a line of the list of receivers is no host:port";
            return Err(Error::invalid(message)
                .with("file", file.display())
                .with("line", line.escape_debug()));
        }
        Some(_) => {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|source| Error::io("cannot start", source))?;
            let list = runtime.block_on(scheduler::ssh::conf::read_list(file, "receivers"))?;
            list.unwrap_or_default()
        }
    };
    if receivers.is_empty() {
        let message = "the file names no receivers: write receivers = [\"host:port\", …]";
        return Err(Error::invalid(message).with("file", file.display()));
    }
    let endpoint = |text: &String| {
        let url = if text.contains("://") { text.clone() } else { format!("http://{text}") };
        url.parse::<Endpoint>().map_err(|error| error.with("file", file.display()))
    };
    receivers.iter().map(endpoint).collect()
}

/// Who logs in there: as the configuration says for that address, or else for its current one.
fn identity(profile: &Profile, endpoint: Endpoint) -> Result<Datacenter> {
    let nobody = |endpoint| Datacenter {
        // Without a name the server is meant, whatever its datacenters are called.
        name: String::new(),
        username: String::new(),
        password: None,
        endpoint,
        ca: None,
        socket: None,
    };
    let config = match Config::load(&profile.config_file()) {
        Err(error) if error.kind() == Kind::NotFound && profile.token.is_some() => {
            return Ok(nobody(endpoint));
        }
        Err(error) if error.kind() == Kind::NotFound => {
            let message = format!(
                "you are not logged in: use `paddlecloud login -endpoint {endpoint} -username NAME`"
            );
            return Err(Error::new(Kind::Unauthenticated, message));
        }
        config => config?,
    };
    let same = config.entries.iter().filter_map(|entry| entry.datacenter.as_ref().ok());
    if let Some(own) = same.clone().find(|own| own.endpoint == endpoint) {
        return Ok(own.clone());
    }
    let own = config.choose(None)?;
    Ok(Datacenter { name: String::new(), endpoint, ..own })
}
