//! The places of the trials.

use super::component;
use super::job::Harness;
use super::sshd::{self, Machines};
use scheduler::ssh::host::parse_hosts;
use scheduler::submission::{LocalPlace, MpiPlace, MpiStart, Place, SshPlace};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn environment() -> BTreeMap<String, String> {
    std::env::vars().collect()
}

/// This machine, with a PID namespace where one is permitted or without.
pub(crate) struct Local {
    pub(crate) isolates: bool,
}

impl Harness for Local {
    fn place(&self, _: &Path, _: u32) -> Place {
        Place::Local(LocalPlace { isolates: self.isolates, environment: environment() })
    }

    fn package(&self, folder: &Path) -> String {
        folder.join("package").to_str().unwrap().to_owned()
    }

    fn workspace(&self, folder: &Path, _: u32) -> PathBuf {
        folder.join("package")
    }

    fn many(&self) -> u32 {
        16
    }
}

/// Machines that are reached by ssh.
pub(crate) struct Ssh(pub(crate) &'static Machines);

impl Ssh {
    pub(crate) fn find() -> Option<Ssh> {
        sshd::machines().map(Ssh)
    }

    /// The workspace has the folder in its name, by which everything of a job is found.
    fn relative(folder: &Path) -> &Path {
        folder.strip_prefix("/").unwrap()
    }
}

impl Harness for Ssh {
    fn place(&self, folder: &Path, count: u32) -> Place {
        Place::Ssh(SshPlace {
            hosts: parse_hosts(self.0.hosts(count).split(',')).unwrap(),
            root_dir: "~/jobs".to_owned(),
            nic: String::new(),
            ld_library_path: String::new(),
            paddle: "paddle".to_owned(),
            ssh_config: Some(self.0.ssh_config()),
            shard_train_list: false,
            may_ask: false,
            results: folder.join("results"),
        })
    }

    fn package(&self, folder: &Path) -> String {
        format!("~/{}", Ssh::relative(folder).display())
    }

    fn workspace(&self, folder: &Path, rank: u32) -> PathBuf {
        self.0.home(rank).join(Ssh::relative(folder))
    }

    fn many(&self) -> u32 {
        sshd::MACHINES
    }
}

/// Open MPI on this machine.
pub(crate) struct Mpi;

impl Mpi {
    pub(crate) fn find() -> Option<Mpi> {
        component::find("mpirun").map(|_| Mpi)
    }
}

impl Harness for Mpi {
    fn place(&self, _: &Path, count: u32) -> Place {
        Place::Mpi(MpiPlace {
            ranks: count,
            hostfile: format!("127.0.0.1 slots={count}\n"),
            mpirun_arguments: Vec::new(),
            nic: String::new(),
            port: 0,
            start: MpiStart::Mpirun,
            environment: environment(),
        })
    }

    fn package(&self, folder: &Path) -> String {
        folder.join("package").to_str().unwrap().to_owned()
    }

    fn workspace(&self, folder: &Path, _: u32) -> PathBuf {
        folder.join("package")
    }

    fn many(&self) -> u32 {
        8
    }
}
