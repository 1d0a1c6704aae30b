//! `paddle launch` on ssh hosts: flags and `conf.py` → a cluster that has been reached, the package
//! on every host, a plan, and the results back here.

use super::args::Args as LaunchArgs;
use super::copies::Copies;
use super::flags::SHARED;
use super::local::{fresh_token, spec};
use super::mpi::policy;

use super::view::View;
use super::{dry_run, signals};
use clap::CommandFactory;
use cli::output::{self, Unit};
use contract::job::JobSpec;
use contract::state::JobState;
use contract::{Error, Kind, Result};
use scheduler::conductor::plan::JobPlan;
use scheduler::conductor::{self, Stop};
use scheduler::quote::quote;
use scheduler::ssh::conf::{Conf, check_directory};
use scheduler::ssh::message::{Package, Prepare, Probed};
use scheduler::ssh::package::Manifest;
use scheduler::ssh::plan::{self, Node, OUTPUT_DIR, Trainer};
use scheduler::ssh::{Cluster, LOG_DIR, Source, Wanted, host, job_name, mirror};
use scheduler::supervisor::host::Host as Supervisor;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;

/// How hosts are found and reached; `paddle kill` has the same flags.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On ssh hosts")]
pub(crate) struct Reach {
    /// Configuration of the cluster, in the original's form
    #[arg(long, value_name = "FILE")]
    pub(crate) conf: Option<PathBuf>,
    /// Machines, as user@host:port with commas between; instead of those of --conf
    #[arg(long, value_name = "LIST")]
    pub(crate) hosts: Option<String>,
    /// Where jobs live on the hosts [default: ROOT_DIR of --conf, or ~/paddle_jobs]
    #[arg(long = "root_dir", alias = "root-dir", value_name = "DIR")]
    pub(crate) root_dir: Option<String>,
    /// Configuration of ssh [default: the user's own]
    #[arg(long = "ssh_config", alias = "ssh-config", value_name = "FILE")]
    pub(crate) ssh_config: Option<PathBuf>,
    /// The command paddle on the hosts: a name in their PATH, or a path
    #[arg(
        long = "remote_paddle",
        alias = "remote-paddle",
        value_name = "COMMAND",
        default_value = "paddle"
    )]
    pub(crate) remote_paddle: String,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On ssh hosts")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) reach: Reach,
    /// Copy this directory to every host and run there
    #[arg(
        long = "job_dispatch_package",
        alias = "job-dispatch-package",
        short = 'p',
        value_name = "DIR",
        conflicts_with = "job_workspace"
    )]
    job_dispatch_package: Option<PathBuf>,
    /// Run in this directory, which is on every host already
    #[arg(long = "job_workspace", alias = "job-workspace", short = 'j', value_name = "DIR")]
    job_workspace: Option<String>,
    /// Network interface for servers, also under MPI [default: PADDLE_NIC of --conf, or all]
    #[arg(long, value_name = "NAME")]
    pub(crate) nics: Option<String>,
    /// Keep on each host only its part of train.list: the lines whose place, modulo the number of
    /// hosts, is the host's
    #[arg(long = "shard_train_list", alias = "shard-train-list")]
    shard_train_list: bool,
    /// A flag of the trainer; any flag that is not the launcher's becomes one
    #[arg(long = "trainer_flag", hide = true, allow_hyphen_values = true)]
    trainer_flags: Vec<String>,
}

impl Reach {
    /// The cluster, as file and flags describe it.
    pub(crate) fn conf(&self) -> Result<Conf> {
        let hosts = self.hosts.as_deref().map(|list| host::parse_hosts(list.split(',')));
        let mut conf = match (&self.conf, hosts.transpose()?) {
            (Some(path), hosts) => {
                let conf = read(path)?;
                Conf { hosts: hosts.unwrap_or(conf.hosts.clone()), ..conf }
            }
            (None, Some(hosts)) => Conf::of(hosts),
            (None, None) => {
                return Err(Error::invalid(
                    "no machines: name them by --conf FILE or --hosts LIST",
                ));
            }
        };
        if let Some(root_dir) = &self.root_dir {
            conf.root_dir.clone_from(root_dir);
        }
        check_directory(&conf.root_dir)?;
        Ok(conf)
    }

    /// Connects to all hosts; where there is a terminal, passwords are asked for.
    pub(crate) async fn open(&self, hosts: &[host::Host]) -> Result<Cluster> {
        let reach = scheduler::ssh::command::Reach {
            config: self.ssh_config.clone(),
            paddle: self.remote_paddle.clone(),
        };
        let may_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        Cluster::open(reach, hosts, env!("CARGO_PKG_VERSION"), may_ask).await
    }
}

fn read(path: &Path) -> Result<Conf> {
    let text = std::fs::read_to_string(path).map_err(|source| {
        Error::io("cannot read the configuration", source).with("conf", path.display())
    })?;
    Conf::parse(&text).map_err(|error| error.with("conf", path.display()))
}

/// How job directories are named, for a job that will not be begun.
const JOB_NAME: &str = "JOB%Y%m%d%H%M%S";

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs()
}

/// Everything that is known before a host has been reached.
struct Launch<'a> {
    args: &'a LaunchArgs,
    conf: Conf,
    spec: JobSpec,
    trainer: Trainer,
    /// The job's directory on the hosts.
    directory: String,
    /// The package to copy, absolute.
    package: Option<PathBuf>,
    log_dir: PathBuf,
    output_dir: PathBuf,
}

pub(super) fn run(args: &LaunchArgs) -> Result<ExitCode> {
    let launch = Launch::new(args)?;
    if args.dry_run {
        let nodes = launch.conf.hosts.iter().map(|host| Node {
            address: host.name().to_owned(),
            directory: launch.directory.clone().into(),
            search_path: "$PATH".to_owned(),
        });
        return dry_run::print(&launch.plan(&nodes.collect::<Vec<_>>())?, args.output);
    }
    cli::logging::start(None, "")?;
    std::fs::create_dir_all(&launch.log_dir).map_err(|source| {
        Error::io("cannot make the directory of the logs", source)
            .with("log_dir", launch.log_dir.display())
    })?;
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|source| Error::io("cannot start a runtime", source))?;
    runtime.block_on(async {
        let mut stops = signals::listen()?;
        let ready = tokio::select! {
            ready = launch.prepare() => ready?,
            Some(stop) = stops.recv() => return Ok(ended_early(stop)),
        };
        launch.conduct(ready, stops).await
    })
}

/// Connections end with this process, and what was begun on the hosts with them.
fn ended_early(stop: Stop) -> ExitCode {
    ExitCode::from(u8::try_from(stop.exit_code).unwrap_or(1))
}

/// A job that can begin.
struct Ready {
    cluster: Cluster,
    plan: JobPlan,
    supervisors: Vec<Supervisor>,
}

impl Launch<'_> {
    fn new(args: &LaunchArgs) -> Result<Launch<'_>> {
        let mut conf = args.ssh.reach.conf()?;
        conf.ports = args.ports(conf.ports);
        conf.ports.check()?;
        conf.nic = args.ssh.nics.clone().unwrap_or(conf.nic);
        conf.use_gpu = args.use_gpu.or(conf.use_gpu);
        let dispatched = match &args.ssh.job_dispatch_package {
            Some(package) => Some(package.canonicalize().map_err(|source| {
                Error::io("no such package", source).with("job_dispatch_package", package.display())
            })?),
            None => None,
        };
        let directory = match (&dispatched, &args.ssh.job_workspace) {
            (_, Some(workspace)) => {
                check_directory(workspace)
                    .map_err(|error| error.with("flag", "--job_workspace"))?;
                workspace.clone()
            }
            (Some(_), None) => {
                let name = if args.dry_run { JOB_NAME.to_owned() } else { job_name(now()) };
                format!("{}/{name}", conf.root_dir)
            }
            (None, None) => {
                let message = "say where the program is: --job_dispatch_package DIR to copy it to \
                               the hosts, or --job_workspace DIR where it is already";
                return Err(Error::invalid(message));
            }
        };
        let place = dispatched.clone().unwrap_or_else(|| PathBuf::from(&directory));
        let count = u32::try_from(conf.hosts.len()).unwrap_or(u32::MAX);
        let trainer = trainer(args)?;
        let entry = match &trainer {
            Trainer::Program(program) => quote(program),
            Trainer::Configuration(_) => "paddle train".to_owned(),
        };
        let spec = spec(args, &place)?;
        // Each host has a directory of its own, and tells its replicas.
        let package = "/".to_owned();
        let spec = JobSpec { trainers: count, pservers: count, entry, package, ..spec };
        spec.check()?;
        Ok(Launch {
            trainer,
            log_dir: args.workspace.join(&args.log_dir),
            output_dir: args.workspace.join(&args.output_dir),
            args,
            conf,
            spec,
            directory,
            package: dispatched,
        })
    }

    fn plan(&self, nodes: &[Node]) -> Result<JobPlan> {
        let token = fresh_token()?;
        let checkpoint_dir = self.args.checkpoint_dir.as_ref().map(|path| path.to_string_lossy());
        plan::plan(&plan::Job {
            spec: &self.spec,
            conf: &self.conf,
            nodes,
            trainer: &self.trainer,
            paddle: &self.args.ssh.reach.remote_paddle,
            token: &token,
            checkpoint_dir: checkpoint_dir.as_deref(),
            restore: self.args.restore,
            policy: policy(self.args),
        })
    }

    async fn prepare(&self) -> Result<Ready> {
        let mut cluster = self.args.ssh.reach.open(&self.conf.hosts).await?;
        let probed =
            cluster.probe(&self.conf.nic, &self.conf.root_dir, self.package.is_some()).await?;
        let addresses = cluster.addresses(&probed).await?;
        let directories = self.dispatch(&mut cluster, &probed).await?;
        let node = |((address, directory), probed): ((String, &String), Probed)| Node {
            address,
            directory: directory.into(),
            search_path: probed.search_path,
        };
        let nodes = addresses.into_iter().zip(&directories).zip(probed).map(node);
        let nodes: Vec<Node> = nodes.collect();
        let plan = self.plan(&nodes)?;
        let supervisors = cluster.supervise(&directories).await?;
        Ok(Ready { cluster, plan, supervisors })
    }

    /// Makes the job's directory ready on every host.
    async fn dispatch(&self, cluster: &mut Cluster, probed: &[Probed]) -> Result<Vec<String>> {
        let manifest = match &self.package {
            Some(package) => Manifest::scan(package, &[LOG_DIR])?,
            None => Manifest::default(),
        };
        let has_rsync = self.package.is_some() && has_command("rsync");
        let source = self.package.as_ref().map(|root| Source {
            root,
            manifest: &manifest,
            by_rsync: probed.iter().map(|host| has_rsync && host.has_rsync).collect(),
        });
        let origin = origin(self.package.as_deref());
        let request = |node: u32| Prepare {
            directory: self.directory.clone(),
            node,
            nodes: self.spec.trainers,
            shard_train_list: self.args.ssh.shard_train_list,
            package: source.as_ref().map(|_| Package {
                mirror: mirror(&probed[node as usize].root_dir, &origin),
                manifest: manifest.clone(),
            }),
        };
        let all = manifest.files_missing_in(&Manifest::default());
        let bytes = manifest.bytes_of(&all) * u64::from(self.spec.trainers);
        let bar = output::progress(bytes, Unit::Bytes);
        let directories = cluster.prepare(request, source.as_ref(), &|sent| bar.inc(sent)).await;
        bar.finish_and_clear();
        directories
    }

    async fn conduct(&self, ready: Ready, stops: mpsc::Receiver<Stop>) -> Result<ExitCode> {
        let Ready { mut cluster, plan, supervisors } = ready;
        let state_file = self.log_dir.join(scheduler::local::STATE);
        let view = View::new(self.args, &plan, state_file);
        let mut copies = Copies::new(view, self.log_dir.clone());
        let record = conductor::run(&plan, supervisors, stops, &mut copies).await?;
        let gathered = self.gather(&mut cluster).await;
        cluster.close().await;
        copies.finish(&record)?;
        match gathered {
            Ok(()) => Ok(super::code(&record)),
            // A job that failed, often with its host, is the more important news.
            Err(error) if record.state != JobState::Succeeded => {
                cli::exit::report("paddle launch", &error);
                Ok(super::code(&record))
            }
            Err(error) => Err(error),
        }
    }

    /// Brings logs of all hosts, and the output of the first, here.
    async fn gather(&self, cluster: &mut Cluster) -> Result<()> {
        let wanted = |node: usize| {
            let to = self.log_dir.join(node.to_string());
            let mut wanted = vec![Wanted { name: LOG_DIR, to, replaces: true }];
            if node == 0 {
                let to = self.output_dir.clone();
                wanted.push(Wanted { name: OUTPUT_DIR, to, replaces: false });
            }
            wanted
        };
        let passed_over = cluster.gather(wanted).await?;
        let mut stderr = std::io::stderr();
        for what in passed_over {
            // Where not even this can be written, there is nobody to tell.
            let _ = writeln!(stderr, "paddle launch: not brought here: {what}");
        }
        Ok(())
    }
}

/// How trainers are started: by the program, by `paddle train` if there is a configuration, or as
/// the documents do it.
fn trainer(args: &LaunchArgs) -> Result<Trainer> {
    let flags = &args.ssh.trainer_flags;
    let has = |name: &str| {
        let is_it = |flag: &String| flag.split('=').next() == Some(name);
        flags.iter().any(is_it)
    };
    let own = ["--trainer_id", "--pservers", "--num_gradient_servers"];
    if let Some(flag) = own.iter().find(|flag| has(flag)) {
        let message = "this flag is set by the launcher, for each trainer: leave it out";
        return Err(Error::invalid(message).with("flag", flag));
    }
    if !args.program.is_empty() {
        // Those that mean something to the launcher too are in the environment.
        let is_shared = |flag: &&String| {
            let name = flag.split('=').next().unwrap_or_default();
            name.strip_prefix("--").is_some_and(|name| SHARED.contains(&name))
        };
        return match flags.iter().find(|flag| !is_shared(flag)) {
            None => Ok(Trainer::Program(args.program.clone())),
            Some(flag) => {
                let message = "this flag is not the launcher's: write it after the program";
                Err(Error::invalid(message).with("flag", flag))
            }
        };
    }
    if has("--config") {
        if crate::args::Paddle::command().find_subcommand("train").is_none() {
            let message = "this release has no paddle train: leave --config out and put a train.py \
                           into the package, or give a program after --";
            return Err(Error::new(Kind::Unsupported, message));
        }
        return Ok(Trainer::Configuration(flags.clone()));
    }
    let program = ["python".to_owned(), "train.py".to_owned()].into_iter();
    Ok(Trainer::Program(program.chain(flags.iter().cloned()).collect()))
}

/// Where a package comes from, so that hosts can tell packages of different machines apart.
fn origin(package: Option<&Path>) -> String {
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let path = package.map(|path| path.display().to_string()).unwrap_or_default();
    format!("{} {path}", machine.trim())
}

/// Whether a command is in PATH.
pub(super) fn has_command(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
