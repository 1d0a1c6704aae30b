//! Jobs on ssh hosts and under MPI that outlive their submitter: a `paddle launch` for them is left
//! behind on this machine, as the one replica of a local job.
//!
//! So everything that is true of a local job is true of these: the launcher has a supervisor, is
//! found again by the directory, and takes its job with it when it is killed. What it writes about
//! the job, `state.json` in the job's log directory, is what [`Backend::observe`] tells.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use contract::job::JobSpec;
use contract::state::State;
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;

use crate::local::{Local, STATE, logs};
use crate::{Backend, Handle, JobRecord, Observation, ReplicaId, Submission};

/// Leads from a job's directory to its log directory.
const LOGS: &str = "launch";

/// Runs jobs by a `paddle launch` with given flags.
#[derive(Debug)]
pub struct Launched {
    name: &'static str,
    local: Local,
    place: Place,
}

/// Where a launcher runs a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On hosts that are reached by ssh; a job takes as many of them as it has trainers.
    Ssh {
        /// The hosts, as `--hosts` takes them.
        hosts: Vec<String>,
        /// More flags, such as `--root_dir=/home/paddle`.
        flags: Vec<String>,
    },
    /// Where `mpirun` puts it.
    Mpi {
        /// The list of machines, if there is one.
        hostfile: Option<PathBuf>,
        /// More flags, such as `--mpirun_args=--oversubscribe`.
        flags: Vec<String>,
    },
}

impl Launched {
    /// A backend. `paddle` is the program on this machine.
    pub fn new(paddle: PathBuf, place: Place) -> Self {
        let name = match place {
            Place::Ssh { .. } => "ssh",
            Place::Mpi { .. } => "mpi",
        };
        Launched { name, local: Local { paddle }, place }
    }

    fn inner(&self, handle: &Handle) -> Result<Handle> {
        if handle.backend == self.name {
            return Ok(Handle { backend: "local".to_owned(), id: handle.id.clone() });
        }
        let error = Error::invalid(format!("this job is not on the {} backend", self.name));
        Err(error.with("backend", &handle.backend))
    }

    async fn leave_behind(&self, submission: &Submission) -> Result<Handle> {
        let inner = inner(&self.place, submission, &self.local.paddle)?;
        let refused = |source| {
            let error = Error::io("cannot make the job's directory", source);
            error.with("directory", submission.directory.display())
        };
        std::fs::create_dir_all(&submission.directory).map_err(refused)?;
        match symlink(&submission.log_dir, submission.directory.join(LOGS)) {
            Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(refused(source));
            }
            _ => {}
        }
        let handle = self.local.submit(&inner).await?;
        Ok(Handle { backend: self.name.to_owned(), ..handle })
    }

    async fn look(&self, handle: &Handle) -> Result<Observation> {
        let launcher = self.local.observe(&self.inner(handle)?).await?;
        Ok(merge(launcher, record(handle)))
    }
}

impl Backend for Launched {
    fn submit<'a>(&'a self, submission: &'a Submission) -> BoxFuture<'a, Result<Handle>> {
        Box::pin(self.leave_behind(submission))
    }

    fn observe<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<Observation>> {
        Box::pin(self.look(handle))
    }

    fn logs<'a>(
        &'a self,
        handle: &'a Handle,
        replica: ReplicaId,
        offset: u64,
    ) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(async move {
            self.inner(handle)?;
            // Before it has reached its hosts, a launcher has nothing to tell.
            record(handle).map_or(Ok(Vec::new()), |record| logs(&record, replica, offset))
        })
    }

    fn kill<'a>(&'a self, handle: &'a Handle) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.local.kill(&self.inner(handle)?).await })
    }
}

/// The local job whose one replica is the launcher.
fn inner(place: &Place, submission: &Submission, paddle: &Path) -> Result<Submission> {
    let spec = &submission.spec;
    if spec.master || spec.pservers != spec.trainers {
        let message = "here every trainer has a server beside it, and there is no master: ask for as \
                       many servers as trainers";
        return Err(Error::new(Kind::Unsupported, message)
            .with("trainers", spec.trainers)
            .with("pservers", spec.pservers)
            .with("master", spec.master));
    }
    Ok(Submission {
        spec: JobSpec { trainers: 1, pservers: 0, ..spec.clone() },
        program: argv(place, submission, paddle)?,
        log_dir: submission.directory.clone(),
        checkpoint_dir: None,
        restore: false,
        dataset: Vec::new(),
        restarts: 0,
        ..submission.clone()
    })
}

/// The launcher's command line. Values of the job's variables are not in it: the launcher has them
/// in its own environment.
fn argv(place: &Place, submission: &Submission, paddle: &Path) -> Result<Vec<String>> {
    let Submission { spec, ports, .. } = submission;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut argv = vec![text(paddle), "launch".to_owned()];
    match place {
        Place::Ssh { hosts, flags } => {
            let Some(own) = hosts.get(..spec.trainers as usize) else {
                let message = "there are fewer hosts than trainers: ask for fewer";
                return Err(Error::new(Kind::LimitExceeded, message)
                    .with("trainers", spec.trainers)
                    .with("hosts", hosts.len()));
            };
            argv.extend([
                format!("--hosts={}", own.join(",")),
                format!("--job_dispatch_package={}", spec.package),
            ]);
            argv.extend_from_slice(flags);
        }
        Place::Mpi { hostfile, flags } => {
            argv.extend(["--backend=mpi".to_owned(), format!("--ranks={}", spec.trainers)]);
            argv.push(format!("--workspace={}", spec.package));
            argv.extend(hostfile.as_deref().map(|path| format!("--hostfile={}", text(path))));
            argv.extend_from_slice(flags);
        }
    }
    argv.extend([
        format!("--name={}", spec.name),
        format!("--mode={}", spec.mode),
        format!("--passes={}", spec.passes),
        format!("--log_dir={}", text(&submission.log_dir)),
        format!("--output_dir={}", text(&submission.output_dir)),
        format!("--port={}", ports.first),
        format!("--ports_num={}", ports.dense),
        format!("--ports_num_for_sparse={}", ports.sparse),
        format!("--restarts={}", submission.restarts),
        format!("--ready_timeout={}", submission.ready_seconds),
    ]);
    let checkpoint_dir = submission.checkpoint_dir.as_deref();
    argv.extend(checkpoint_dir.map(|path| format!("--checkpoint_dir={}", text(path))));
    argv.extend(submission.restore.then(|| crate::server::RESTORE.to_owned()));
    argv.extend(spec.env.keys().map(|name| format!("--env={name}")));
    argv.push("--".to_owned());
    match submission.program.is_empty() {
        true => argv.extend(["sh", "-c", &spec.entry].map(str::to_owned)),
        false => argv.extend_from_slice(&submission.program),
    }
    Ok(argv)
}

fn record(handle: &Handle) -> Option<JobRecord> {
    JobRecord::read(&Path::new(&handle.id).join(LOGS).join(STATE)).ok()
}

/// The launcher says whether the job goes on; its record, once it has one, says how.
fn merge(launcher: Observation, record: Option<JobRecord>) -> Observation {
    let Some(record) = record else {
        return Observation { replicas: Vec::new(), ..launcher };
    };
    let JobRecord { state, reason, replicas, .. } = record;
    match (launcher.state.is_final(), state.is_final()) {
        (false, false) => Observation { state, reason, exit_code: None, replicas },
        // It still brings the results here.
        (false, true) => Observation { replicas, ..launcher },
        (true, true) => Observation { reason, replicas, ..launcher },
        // It was killed before it could write the end.
        (true, false) => Observation { replicas, ..launcher },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::port::Ports;
    use contract::secret::Secret;

    fn submission() -> Submission {
        let spec = JobSpec {
            name: "ctr".into(),
            package: "/srv/my package".into(),
            entry: "python train.py".into(),
            trainers: 2,
            pservers: 2,
            env: [("PASSWORD".to_owned(), "secret".to_owned())].into(),
            ..JobSpec::default()
        };
        Submission {
            spec,
            program: Vec::new(),
            token: Secret::new("sesame"),
            directory: "/jobs/7".into(),
            log_dir: "/jobs/7/log".into(),
            output_dir: "/jobs/7/output".into(),
            checkpoint_dir: None,
            restore: false,
            dataset: Vec::new(),
            master_passes: 0,
            ports: Ports::default(),
            restarts: 1,
            ready_seconds: 60,
        }
    }

    fn ssh() -> Place {
        let hosts = ["a", "b", "c"].map(str::to_owned).to_vec();
        Place::Ssh { hosts, flags: vec!["--root_dir=/home/paddle".into()] }
    }

    #[test]
    fn a_launcher_has_a_command_line_without_secrets() {
        let show = |place: &Place| {
            let inner = inner(place, &submission(), Path::new("/bin/paddle")).unwrap();
            assert_eq!((inner.spec.trainers, inner.spec.pservers), (1, 0));
            crate::quote::quote(&inner.program)
        };
        insta::assert_snapshot!(show(&ssh()), @"/bin/paddle launch --hosts=a,b '--job_dispatch_package=/srv/my package' --root_dir=/home/paddle --name=ctr --mode=sync --passes=1 --log_dir=/jobs/7/log --output_dir=/jobs/7/output --port=7164 --ports_num=1 --ports_num_for_sparse=1 --restarts=1 --ready_timeout=60 --env=PASSWORD -- sh -c 'python train.py'");
        let mpi = Place::Mpi { hostfile: Some("/etc/machines".into()), flags: Vec::new() };
        insta::assert_snapshot!(show(&mpi), @"/bin/paddle launch --backend=mpi --ranks=2 '--workspace=/srv/my package' --hostfile=/etc/machines --name=ctr --mode=sync --passes=1 --log_dir=/jobs/7/log --output_dir=/jobs/7/output --port=7164 --ports_num=1 --ports_num_for_sparse=1 --restarts=1 --ready_timeout=60 --env=PASSWORD -- sh -c 'python train.py'");
    }

    #[test]
    fn what_these_places_cannot_do_is_refused() {
        let error = |change: fn(&mut JobSpec)| {
            let mut submission = submission();
            change(&mut submission.spec);
            inner(&ssh(), &submission, Path::new("paddle")).unwrap_err()
        };
        assert_eq!(error(|spec| spec.master = true).kind(), Kind::Unsupported);
        assert_eq!(error(|spec| spec.pservers = 1).kind(), Kind::Unsupported);
        let many = error(|spec| (spec.trainers, spec.pservers) = (4, 4));
        insta::assert_snapshot!(many, @"there are fewer hosts than trainers: ask for fewer (trainers: 4, hosts: 3)");
    }
}
