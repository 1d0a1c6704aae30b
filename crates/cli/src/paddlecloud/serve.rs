//! `paddlecloud serve`: runs a cloud on this machine. What it does is in the crate `cloud`; here
//! flags and files become its configuration, and what people have to know is printed.

use contract::{Error, Result};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Run a cloud: users, jobs, files and logs over HTTP
///
/// Without any flag it keeps everything below ~/.paddle/cloud, runs jobs on this machine, and
/// serves on 127.0.0.1:8080. The password of the user `admin` is printed at the first start. Jobs
/// go on when the server ends, and are taken up again by the next one.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ServeArgs {
    /// The configuration, YAML; flags win
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where database, packages, logs and files are kept [default: ~/.paddle/cloud]
    #[arg(long = "data_dir", alias = "data-dir", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The address to serve on; port 0 lets the system choose [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// A Postgres instead of a file: postgres://user:password@host/name
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// A file that holds that URL, so that no list of processes shows the password
    #[arg(
        long = "database_file",
        alias = "database-file",
        value_name = "FILE",
        conflicts_with = "database"
    )]
    database_file: Option<PathBuf>,
    /// Speak TLS: file with the server's certificates (PEM)
    #[arg(long = "tls_cert", alias = "tls-cert", value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Speak TLS: file with the server's key (PEM)
    #[arg(long = "tls_key", alias = "tls-key", value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// Serves until it is told to end by SIGTERM or SIGINT.
pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    let config = config(args)?;
    let outside = outside()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::io("cannot start", source))?;
    runtime.block_on(serve(config, outside))?;
    // Reads of slow disks may still be waiting, and change nothing.
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn serve(config: cloud::Config, outside: cloud::Outside) -> Result<()> {
    let shutdown = stop_on_signal()?;
    let (listen, is_secure) = (config.listen, config.tls.is_some());
    let listener = TcpListener::bind(listen).map_err(|source| {
        Error::io("cannot serve on this address: use --listen", source).with("address", listen)
    })?;
    let address = listener
        .local_addr()
        .map_err(|source| Error::io("cannot find the address of the server", source))?;
    let server = cloud::Server::open(config, outside).await?;
    let started = server.started();
    for note in &started.notes {
        tracing::warn!("{note}");
    }
    if !is_secure && !address.ip().is_loopback() {
        tracing::warn!(
            "passwords and tokens can be read on the way: use --tls_cert and --tls_key, or listen \
             on 127.0.0.1 behind a proxy that speaks TLS"
        );
    }
    if let Some(password) = &started.admin_password {
        let mut output = std::io::stderr().lock();
        // It is in the file, too.
        let _ = writeln!(
            output,
            "the first administrator is `admin`, password {}\nit is kept in {}; change it with \
             `paddlecloud user passwd admin`",
            password.expose(),
            started.password_file.display()
        );
    }
    announce(address, is_secure)?;
    server.run(listener, shutdown).await
}

/// One line on standard output when the server can be reached.
fn announce(address: SocketAddr, is_secure: bool) -> Result<()> {
    let scheme = if is_secure { "https" } else { "http" };
    let mut output = cli::output::Output::open();
    output.line(format!("listening on {scheme}://{address}"))?;
    output.close()
}

fn config(args: &ServeArgs) -> Result<cloud::Config> {
    let mut config = match &args.config {
        None => cloud::Config::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|source| {
                Error::io("cannot read the configuration", source).with("file", path.display())
            })?;
            cloud::Config::from_yaml(&text).map_err(|error| error.with("file", path.display()))?
        }
    };
    if let Some(listen) = &args.listen {
        config.listen = listen_address(listen)?;
    }
    if let Some(url) = &args.database {
        config.database = Some(cloud::config::DatabaseUrl(url.clone()));
    }
    if let Some(path) = &args.database_file {
        let url = std::fs::read_to_string(path).map_err(|source| {
            Error::io("cannot read the database's URL", source).with("file", path.display())
        })?;
        config.database = Some(cloud::config::DatabaseUrl(url.trim().to_owned()));
    }
    if let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) {
        config.tls = Some(cloud::config::Tls { cert: cert.clone(), key: key.clone() });
    }
    if let Some(data_dir) = &args.data_dir {
        config.data_dir.clone_from(data_dir);
    }
    if config.data_dir.as_os_str().is_empty() {
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        let home = home.ok_or_else(|| {
            Error::invalid("there is no home to keep the cloud in: use --data_dir")
        })?;
        config.data_dir = home.join(".paddle/cloud");
    }
    let absolute = |path: &Path| {
        std::path::absolute(path).map_err(|source| {
            Error::io("cannot find a directory", source).with("path", path.display())
        })
    };
    config.data_dir = absolute(&config.data_dir)?;
    config.resolve(&|name| std::env::var(name).ok())?;
    Ok(config)
}

fn listen_address(text: &str) -> Result<SocketAddr> {
    let refuse = || {
        Error::invalid("not an address to serve on: use address:port, such as 0.0.0.0:8080")
            .with("listen", text)
    };
    // `:8080` is every address, as other servers take it.
    let text = match text.strip_prefix(':') {
        Some(port) => format!("0.0.0.0:{port}"),
        None => text.to_owned(),
    };
    text.to_socket_addrs().map_err(|_| refuse())?.next().ok_or_else(refuse)
}

/// The variables that jobs inherit from the server; others may hold its secrets.
const INHERITED: [&str; 8] = [
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "TZ",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "PADDLE_PYTHON",
];

/// The command `paddle` beside this one, and what jobs inherit.
fn outside() -> Result<cloud::Outside> {
    let own = std::env::current_exe()
        .map_err(|source| Error::io("cannot find the program itself", source))?;
    let directory = own.parent().unwrap_or(Path::new("/")).to_owned();
    let program = directory.join("paddle");
    if !program.is_file() {
        let message = "the command paddle, which runs jobs, must be beside paddlecloud";
        return Err(Error::invalid(message).with("file", program.display()));
    }
    let mut environment: BTreeMap<String, String> = INHERITED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect();
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
    let (python, mut exposed) = python(&own).unwrap_or_default();
    exposed.push(directory.clone());
    // The Python itself, not a script in front of it that jobs may not see.
    let path = match python.as_os_str().is_empty() {
        true => format!("{}:{path}", directory.display()),
        false => format!("{}:{}:{path}", directory.display(), python.display()),
    };
    environment.insert("PATH".to_owned(), path);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(cloud::Outside {
        paddle: scheduler::jobs::Paddle { program, release: env!("CARGO_PKG_VERSION").to_owned() },
        paddlecloud: own,
        environment,
        exposed,
        machine: machine_id().unwrap_or_else(|| host.clone()),
        host,
    })
}

/// What tells this machine from all others, also after a restart of it.
fn machine_id() -> Option<String> {
    let id = std::fs::read_to_string("/etc/machine-id").ok()?.trim().to_owned();
    (!id.is_empty()).then_some(id)
}

/// Asks a Python for its prefixes and the directories that it imports from.
const PYTHON_SCRIPT: &str = "import os, sys\n\
    print(os.path.dirname(sys.executable))\n\
    for path in [sys.prefix, sys.base_prefix, sys.exec_prefix] + sys.path:\n    \
    print(os.path.realpath(path) if path and os.path.isdir(path) else '')";

/// Where the Python of jobs is: the directory of its program, and directories that it needs.
///
/// It is the one beside this command, where `paddle train` looks for it too, else that of `PATH`.
fn python(program: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    let programs = [cli::python::interpreter(program), PathBuf::from("python")];
    let answer = programs.iter().find_map(|python| {
        let mut command = std::process::Command::new(python);
        command.args(["-I", "-c", PYTHON_SCRIPT]).stdin(Stdio::null());
        command.output().ok().filter(|output| output.status.success())
    })?;
    let text = String::from_utf8(answer.stdout).ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with('/')).map(PathBuf::from);
    let program = lines.next()?;
    let mut exposed: Vec<PathBuf> = Vec::new();
    for path in lines {
        // What belongs to the system is seen anyway.
        let is_system =
            path.parent().is_none() || path.starts_with("/usr") || path.starts_with("/lib");
        if !is_system && !exposed.iter().any(|known| path.starts_with(known)) {
            exposed.push(path);
        }
    }
    Some((program, exposed))
}

/// Turns true at SIGTERM or SIGINT.
fn stop_on_signal() -> Result<watch::Receiver<bool>> {
    let open = |kind| signal(kind).map_err(|source| Error::io("cannot wait for signals", source));
    let (mut terminate, mut interrupt) =
        (open(SignalKind::terminate())?, open(SignalKind::interrupt())?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: asked to by a signal; jobs go on");
        let _ = sender.send(true);
        sender.closed().await;
    });
    Ok(receiver)
}
