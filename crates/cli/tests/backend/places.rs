//! The places of the trials.

use super::component;
use super::job::Harness;
use super::repository;
use super::slurm_cluster::{self, Cluster};
use super::sshd::{self, Machines};
use contract::port::Ports;
use scheduler::Submission;
use scheduler::ssh::host::parse_hosts;
use scheduler::submission::{
    KubernetesPlace, LocalPlace, Mount, MpiPlace, MpiStart, Package, Place, RunAs, Sandbox,
    SlurmPlace, SshPlace, Volume, VolumeSource,
};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

fn environment() -> BTreeMap<String, String> {
    std::env::vars().collect()
}

/// This machine, with a PID namespace where one is permitted or without.
pub(crate) struct Local {
    pub(crate) isolates: bool,
}

impl Harness for Local {
    fn place(&self, _: &Path, _: u32) -> Place {
        Place::Local(LocalPlace {
            isolates: self.isolates,
            environment: environment(),
            sandbox: None,
        })
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

/// This machine, with jobs of a user who is not trusted.
pub(crate) struct Sandboxed;

/// Nobody has this id here.
pub(crate) const USER: RunAs = RunAs { uid: 56_789, gid: 56_789 };

impl Sandboxed {
    pub(crate) fn find() -> Option<Sandboxed> {
        match scheduler::local::sandbox::probe() {
            Ok(()) => Some(Sandboxed),
            Err(why) => component::missing("sandbox", &why),
        }
    }

    /// What programs need of directories that others may not enter.
    fn sandbox() -> Sandbox {
        let paddle = Path::new(env!("CARGO_BIN_EXE_paddle")).parent().unwrap();
        let environment = repository::path(".venv");
        let python = environment.join("bin/python").canonicalize();
        let installed = python.ok().and_then(|python| Some(python.ancestors().nth(2)?.to_owned()));
        let exposed = [Some(paddle.to_owned()), environment.canonicalize().ok(), installed];
        Sandbox { exposed: exposed.into_iter().flatten().collect(), hidden: Vec::new() }
    }
}

impl Harness for Sandboxed {
    fn place(&self, _: &Path, _: u32) -> Place {
        Place::Local(LocalPlace {
            isolates: true,
            environment: environment(),
            sandbox: Some(Sandboxed::sandbox()),
        })
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

    /// Not below `/tmp`, of which nothing is seen inside.
    fn folder(&self) -> tempfile::TempDir {
        tempfile::Builder::new().prefix("paddle-test-").tempdir_in("/var").unwrap()
    }

    fn confine(&self, submission: &mut Submission) {
        submission.run_as = Some(USER);
        let Package::Present(path) = &submission.package else { return };
        let shared = Path::new(path).with_file_name("shared");
        let mount = Mount { source: shared.clone(), target: shared, is_read_only: false };
        submission.mounts.push(mount);
        std::os::unix::fs::chown(path, Some(USER.uid), Some(USER.gid)).unwrap();
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

/// A Slurm of this machine, whose nodes see its files.
pub(crate) struct Slurm(pub(crate) &'static Cluster);

impl Slurm {
    pub(crate) fn find() -> Option<Slurm> {
        slurm_cluster::cluster().map(Slurm)
    }
}

impl Harness for Slurm {
    fn place(&self, folder: &Path, count: u32) -> Place {
        let mut environment = environment();
        environment.insert("SLURM_CONF".to_owned(), self.0.conf());
        Place::Slurm(SlurmPlace {
            nodes: count.min(2),
            partition: "main".to_owned(),
            root_dir: folder.join("root").to_str().unwrap().to_owned(),
            environment,
            results: folder.join("results"),
            ..SlurmPlace::default()
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

/// The cluster of `make test-clusters`, whose nodes see the files of this machine. Every job has a
/// namespace of its own.
pub(crate) struct Kubernetes {
    home: PathBuf,
    uses_volcano: bool,
    run_as: Option<RunAs>,
}

impl Kubernetes {
    pub(crate) fn find(uses_volcano: bool) -> Option<Kubernetes> {
        match std::env::var_os("PADDLE_TEST_KUBERNETES") {
            Some(home) => Some(Kubernetes { home: home.into(), uses_volcano, run_as: None }),
            None => {
                let note = b"skipped: there is no cluster, run make test-clusters\n";
                std::io::Write::write_all(&mut std::io::stderr(), note).unwrap();
                None
            }
        }
    }

    pub(crate) fn without_root(self) -> Kubernetes {
        Kubernetes { run_as: Some(USER), ..self }
    }

    fn kubectl(&self, words: &[&str]) {
        let mut command = Command::new(self.home.join("bin/kubectl"));
        command.args(words).env("KUBECONFIG", self.home.join("run/admin.kubeconfig"));
        let output = command.env("KUBECACHEDIR", self.home.join("run/kubectl-cache")).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// A directory of this machine, at the same path in pods.
    fn volume(path: &Path, is_read_only: bool) -> Volume {
        let text = path.to_str().unwrap().to_owned();
        let source = VolumeSource::HostPath { path: text.clone() };
        let here = (!is_read_only).then(|| path.to_owned());
        Volume { source, path: text, sub_path: String::new(), is_read_only, here }
    }
}

impl Harness for Kubernetes {
    fn place(&self, folder: &Path, _: u32) -> Place {
        let namespace = folder.file_name().unwrap().to_str().unwrap().to_lowercase();
        self.kubectl(&["create", "namespace", &namespace]);
        let commands = Path::new(env!("CARGO_BIN_EXE_paddle")).parent().unwrap();
        Place::Kubernetes(KubernetesPlace {
            kubeconfig: Some(self.home.join("run/admin.kubeconfig")),
            namespace,
            image: "paddlecloud/paddle:v1".to_owned(),
            volumes: vec![Kubernetes::volume(folder, false), Kubernetes::volume(commands, true)],
            volcano: Some(self.uses_volcano),
            ..KubernetesPlace::default()
        })
    }

    fn package(&self, folder: &Path) -> String {
        folder.join("package").to_str().unwrap().to_owned()
    }

    fn workspace(&self, folder: &Path, _: u32) -> PathBuf {
        folder.join("package")
    }

    fn many(&self) -> u32 {
        4
    }

    /// Its name without capitals is that of the namespace, which must be a new one.
    fn folder(&self) -> tempfile::TempDir {
        static TRIALS: AtomicU32 = AtomicU32::new(0);
        let number = TRIALS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("trial-{}-{number}-", std::process::id());
        tempfile::Builder::new().prefix(&prefix).tempdir().unwrap()
    }

    /// Pods have addresses of their own, so all servers can have the same port.
    fn confine(&self, submission: &mut Submission) {
        submission.spec.ports = Ports::default();
        submission.run_as = self.run_as;
        if let (Some(_), Package::Present(package)) = (self.run_as, &submission.package) {
            let package = Path::new(package);
            for folder in [package, package.parent().unwrap()] {
                std::fs::set_permissions(folder, Permissions::from_mode(0o777)).unwrap();
            }
        }
    }

    fn leave(&self, submission: &Submission) {
        if let Place::Kubernetes(place) = &submission.place {
            self.kubectl(&["delete", "namespace", &place.namespace, "--wait=false"]);
        }
    }
}
