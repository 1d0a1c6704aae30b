//! How ssh hosts are found and reached: the flags that `paddle launch` and `paddle kill` share.

use crate::attach::follow::runtime;
use contract::job::JobSpec;
use contract::{Error, Result};
use scheduler::ssh::conf::{Conf, check_directory};
use scheduler::ssh::{Cluster, host};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On ssh hosts")]
pub(crate) struct Reach {
    /// Configuration of the cluster, in the original's form
    #[arg(long, value_name = "FILE")]
    pub(crate) conf: Option<PathBuf>,
    /// Machines, as user@host:port with commas between; instead of those of --conf
    #[arg(long, value_name = "LIST")]
    pub(crate) hosts: Option<String>,
    /// Where jobs live on the hosts, also on Slurm's nodes [default: ROOT_DIR of --conf, or
    /// ~/paddle_jobs]
    #[arg(long = "root_dir", alias = "root-dir", value_name = "DIR")]
    pub(crate) root_dir: Option<String>,
    /// Configuration of ssh [default: the user's own]
    #[arg(long = "ssh_config", alias = "ssh-config", value_name = "FILE")]
    pub(crate) ssh_config: Option<PathBuf>,
    /// The command paddle on the hosts: a name in their PATH, or a path [default: paddle; on Slurm
    /// the path of this command]
    #[arg(long = "remote_paddle", alias = "remote-paddle", value_name = "COMMAND")]
    pub(crate) remote_paddle: Option<String>,
}

impl Reach {
    /// The cluster, as file and flags describe it.
    pub(crate) fn conf(&self) -> Result<Conf> {
        let hosts = self.hosts.as_deref().map(|list| host::parse_hosts(list.split(',')));
        let mut conf = match (&self.conf, hosts.transpose()?) {
            (Some(path), hosts) => {
                let conf = runtime()?.block_on(Conf::read(path))?;
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

    /// The configuration of ssh, where its path means the same to a process that runs elsewhere.
    pub(crate) fn ssh_config(&self) -> Result<Option<PathBuf>> {
        let Some(path) = &self.ssh_config else { return Ok(None) };
        let refused = |source| {
            Error::io("cannot read the configuration of ssh", source)
                .with("ssh_config", path.display())
        };
        path.canonicalize().map(Some).map_err(refused)
    }

    /// The command paddle on ssh hosts.
    pub(crate) fn remote_paddle(&self) -> String {
        self.remote_paddle.clone().unwrap_or_else(|| "paddle".to_owned())
    }

    /// Connects to all hosts; where there is a terminal, passwords are asked for.
    pub(crate) async fn open(&self, hosts: &[host::Host]) -> Result<Cluster> {
        let reach = scheduler::ssh::command::Reach {
            config: self.ssh_config.clone(),
            paddle: self.remote_paddle(),
            patience: Duration::from_secs(JobSpec::default().ready_seconds),
        };
        Cluster::open(reach, hosts, env!("CARGO_PKG_VERSION"), may_ask()).await
    }
}

/// Whether there is somebody to ask for passwords.
pub(crate) fn may_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}
