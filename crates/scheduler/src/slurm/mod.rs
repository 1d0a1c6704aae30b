//! Jobs on nodes that Slurm gives: one allocation for a job, with an agent on each node.
//!
//! `sbatch` is given a script ([`plan`]) that starts a `paddle agent` on every node. The agents find
//! the conductor, which is where the job was submitted, and for it do what ssh does elsewhere: run a
//! supervisor, make directories ready, send results. They stay when a round of the job ends, so that
//! a job does not wait in the queue again because a process of it died, and they end with the job or
//! with its conductor, and with them the allocation.
//!
//! Where nodes and submitter share a file system the program runs in its own directory; where they
//! do not the package is sent to every node, and results are brought back.

pub mod agent;
pub mod plan;
pub mod state;

mod allocation;
mod command;
mod link;

pub use agent::Agent;
pub(crate) use plan::{check, devices};

use crate::jobs::{Paddle, Progress};
use crate::meeting::{self, Arrival, collect};
use crate::plan::Node;
use crate::record::Verdict;
use crate::ssh::message::{Package as PackageRequest, Prepare, Reply, Request};
use crate::ssh::session::Session;
use crate::ssh::{Source, Wanted, job_name, mirror};
use crate::submission::{Package, SlurmPlace, Submission};
use crate::supervisor::host::Host;
use crate::supervisor::message::{Command, Probe, ProbeAction};
use allocation::{Allocation, Desk};
use command::Slurm;
use contract::{Error, Kind, Result};
use futures_util::future::{join_all, try_join_all};
use link::{Channel, Word, Words};
use state::{End, Phase, TIME_LIMIT};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout};

/// A job for Slurm.
pub struct Job<'a> {
    /// What is asked of Slurm.
    pub place: &'a SlurmPlace,
    /// What was submitted.
    pub submission: &'a Submission,
    /// The job's directory.
    pub directory: &'a Path,
    /// Where the files of a dispatched package are.
    pub package: PathBuf,
    /// This program.
    pub paddle: &'a Paddle,
    /// When the job was submitted.
    pub began_ms: u64,
    /// Whether the job has had nodes before.
    pub is_again: bool,
    /// Whether it may get nodes if it has none.
    pub may_allocate: bool,
    /// Whether the job ends with its submitter.
    pub is_leashed: bool,
    /// Who hears what the job waits for.
    pub progress: &'a watch::Sender<Progress>,
}

/// Nodes that have been reached.
pub struct Site {
    nodes: Vec<Reached>,
    allocation: Allocation,
    /// Whether results have been brought.
    is_delivered: bool,
}

/// A node that has been reached.
struct Reached {
    session: Session,
    words: Words,
    /// The job's directory there, if it was made for the job.
    own: Option<PathBuf>,
}

/// How long an agent may take to answer, once it was found.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long agents may take to end when the job is over.
const END: Duration = Duration::from_secs(20);
/// How long Slurm may take to end an allocation, and to find out that it has to.
const ENDING: Duration = Duration::from_secs(90);
const NOTICE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(300);

impl Job<'_> {
    /// The command `paddle` on the nodes.
    fn paddle_there(&self) -> &str {
        match self.place.paddle.as_str() {
            "" => self.paddle.program.to_str().unwrap_or("paddle"),
            paddle => paddle,
        }
    }
}

impl Site {
    /// Waits for the nodes, makes the job's directory ready on each, and starts a supervisor.
    ///
    /// # Errors
    /// Slurm's words, or the node.
    pub async fn open(job: &Job<'_>) -> Result<(Site, Vec<Node>, Vec<Host>)> {
        let desk = Desk::new(job.place, job.submission, job.directory);
        let (listener, ticket) = desk.listen().await?;
        make_log_folder(job);
        let tether = match job.is_leashed {
            true => Some(Tether::tie(&desk.slurm, &job.submission.id, ticket.mark())?),
            false => None,
        };
        let allocation = match desk.allocate(&ticket, job).await {
            // Slurm has refused it: there is nothing to cancel.
            Err(error) if error.kind() != Kind::Unavailable => {
                if let Some(tether) = tether {
                    tether.untie().await;
                }
                return Err(error);
            }
            outcome => outcome?,
        };
        let key = ticket.key();
        let arrivals = match meet(&desk, job, &listener, &key, &allocation).await {
            // A node is gone, or its agent, and Slurm has not noticed: others may do.
            Err(error) if error.kind() == Kind::Timeout && job.is_again && job.may_allocate => {
                tracing::warn!(error = error.chain(), "asking Slurm to begin again");
                desk.slurm.requeue(allocation.id).await.map_err(|_| error)?;
                meet(&desk, job, &listener, &key, &allocation).await?
            }
            outcome => outcome?,
        };
        let outer = meeting::outer_address(&arrivals);
        let reached = arrivals.into_iter().map(|arrival| reach(job, arrival, outer));
        let (mut nodes, mut hosts, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (node, host, reached) in try_join_all(reached).await? {
            nodes.push(node);
            hosts.push(host);
            kept.push(reached);
        }
        check_shared(job, &nodes, &mut hosts).await?;
        if let Some(tether) = tether {
            // From here on the agents notice when the submitter is gone.
            tether.untie().await;
        }
        Ok((Site { nodes: kept, allocation, is_delivered: false }, nodes, hosts))
    }

    /// Brings logs of all nodes, and the output of the first, here, if a package was sent; in words
    /// what could not be copied.
    pub async fn deliver(
        &mut self,
        submission: &Submission,
        results: &Path,
    ) -> Result<Vec<String>> {
        if let Package::Present(_) = submission.package {
            return Ok(Vec::new());
        }
        let (log_dir, output_dir) = (&submission.spec.log_dir, &submission.spec.output_dir);
        let gathered = self.nodes.iter_mut().enumerate().map(|(index, node)| async move {
            let to = results.join(log_dir).join(index.to_string());
            let logs = Wanted { name: log_dir.clone(), to, replaces: true };
            let mut passed_over = node.session.gather(&logs).await?;
            if index == 0 {
                let to = results.join(output_dir);
                let output = Wanted { name: output_dir.clone(), to, replaces: false };
                passed_over.extend(node.session.gather(&output).await?);
            }
            Ok(passed_over)
        });
        // Nodes that fail do not keep others from delivering.
        let gathered: Result<Vec<Vec<String>>> = join_all(gathered).await.into_iter().collect();
        let notes = gathered?.concat();
        self.is_delivered = true;
        Ok(notes.into_iter().map(|what| format!("not brought here: {what}")).collect())
    }

    /// What Slurm did to the job while it ran, if that is why replicas were lost or failed and nothing
    /// can be done about it.
    pub(crate) async fn fate(
        &self,
        place: &SlurmPlace,
        submission: &Submission,
        job: &Path,
        doubt: Doubt,
    ) -> Option<Verdict> {
        let desk = Desk::new(place, submission, job);
        let id = self.allocation.id;
        let began = Instant::now();
        loop {
            let waited = began.elapsed();
            let told = desk.slurm.told(id).await.ok()?;
            match told.phase {
                Phase::Ended(end) => {
                    return desk.verdict(id, end).or_else(|| lost(id, end, doubt.may_repeat));
                }
                // Slurm waits for the agents, and they for us.
                Phase::Ending if told.reason == TIME_LIMIT => {
                    return desk.verdict(id, End::TimedOut);
                }
                Phase::Ending if waited < ENDING => {}
                // Slurm may hear of a loss later than we do; what it ends, it knows before.
                Phase::Running if waited < NOTICE && doubt.is_lost && !doubt.may_repeat => {}
                _ => return None,
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Lets the agents come again for the next round.
    pub async fn close(self) {
        join_all(self.nodes.iter().map(|node| node.words.say(&Word::Again))).await;
    }

    /// Lets the agents end, and the allocation with them. Whether all of them did.
    pub async fn end(self) -> bool {
        let is_delivered = self.is_delivered;
        let ends = self.nodes.into_iter().map(|Reached { session, words, own }| async move {
            let removes = own.filter(|_| is_delivered);
            let is_told = words.say(&Word::Over { removes }).await.is_ok();
            session.close().await;
            is_told && timeout(END, words.ended()).await.is_ok()
        });
        join_all(ends).await.into_iter().all(|has_ended| has_ended)
    }
}

/// Replicas that ended, perhaps because of what Slurm did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doubt {
    /// Whether some were lost with their nodes; else programs ended by themselves, or were told to.
    pub(crate) is_lost: bool,
    /// Whether the loss of nodes is for the next round of the job to repair.
    pub(crate) may_repeat: bool,
}

/// Why a job that lost its allocation failed.
fn lost(id: u64, end: End, may_repeat: bool) -> Option<Verdict> {
    let why = match end {
        End::OutOfMemory => {
            "it used more memory than Slurm had given it: ask for more with --memory"
        }
        End::NodeFailed if !may_repeat => "a node of it failed; with --restarts it would go on",
        End::Preempted if !may_repeat => {
            "its nodes were given to a more important job; with --restarts it would go on"
        }
        _ => return None,
    };
    Some(Verdict::failed(format!("Slurm ended the job: {why} (job {id})")))
}

/// Gives back what a job that is over may still have of Slurm.
///
/// # Errors
/// Slurm does not answer.
pub(crate) async fn release(
    place: &SlurmPlace,
    submission: &Submission,
    job: &Path,
    has_ended: bool,
) -> Result<()> {
    let desk = Desk::new(place, submission, job);
    match has_ended {
        true => desk.end().await,
        false => desk.release().await,
    }
}

/// Waits until all agents have come, or it is known that they will not.
async fn meet(
    desk: &Desk<'_>,
    job: &Job<'_>,
    listener: &TcpListener,
    key: &contract::secret::Secret,
    allocation: &Allocation,
) -> Result<Vec<Arrival>> {
    let spec = &job.submission.spec;
    let (begun, started) = oneshot::channel();
    let started = async {
        if started.await.is_err() {
            // The watch has ended, and with it this wait.
            std::future::pending::<()>().await;
        }
    };
    let patience = Duration::from_secs(spec.ready_seconds);
    let count = plan::nodes(job.place, spec);
    tokio::select! {
        arrivals = collect(listener, key, count, patience, started) => {
            job.progress.send_modify(|progress| {
                progress.waiting.clear();
                // Agents may come before Slurm was asked again.
                progress.granted_ms.get_or_insert_with(crate::conductor::now_ms);
            });
            arrivals.map_err(|error| {
                error.with("slurm_job", allocation.id)
                    .with("log", plan::output_of(job.submission, allocation.id))
            })
        }
        why = desk.watch(allocation, begun, job) => Err(why),
    }
}

/// Makes the folder in which Slurm writes what the script prints.
fn make_log_folder(job: &Job<'_>) {
    if let Package::Present(path) = &job.submission.package {
        // Where that is not possible Slurm says so.
        let _ = std::fs::create_dir_all(Path::new(path).join(&job.submission.spec.log_dir));
    }
}

/// Makes one node ready.
async fn reach(job: &Job<'_>, arrival: Arrival, outer: IpAddr) -> Result<(Node, Host, Reached)> {
    let Arrival { link, member, peer, .. } = arrival;
    let Channel { commands, events, requests, replies, words } = Channel::open(link);
    let name = member.machine.clone();
    let silent = |_| {
        Error::new(Kind::Unavailable, "the agent of this node does not answer")
            .with("host", &name)
            .with("seconds", PATIENCE.as_secs())
    };
    let opening = Session::attach(&name, requests, replies, &job.paddle.release);
    let mut session = timeout(PATIENCE, opening).await.map_err(silent)??;
    let spec = &job.submission.spec;
    let manifest = match &job.submission.package {
        Package::Dispatch(manifest) => Some(manifest),
        Package::Present(_) => None,
    };
    let request = Request::Probe {
        // The agent has told its address.
        nic: String::new(),
        root_dir: job.place.root_dir.clone(),
        will_copy: manifest.is_some(),
    };
    let root_dir = match session.ask(&request).await? {
        Reply::Probed(probed) => probed.root_dir,
        _ => return Err(session.senseless()),
    };
    let rank = member.rank;
    let directory = match &job.submission.package {
        Package::Present(path) => path.clone(),
        // One for each node, because nodes may share the root directory.
        Package::Dispatch(_) => {
            let name = job_name(job.began_ms / 1000, &job.submission.id);
            format!("{root_dir}/{name}-{rank}")
        }
    };
    let origin = format!("{} {} {rank}", job.submission.origin, spec.name);
    let prepare = Prepare {
        directory,
        node: rank,
        nodes: member.size,
        trainers: spec.trainers,
        // A directory that nodes share is not one node's to furnish.
        is_again: job.is_again || manifest.is_none(),
        log_dir: spec.log_dir.clone(),
        shard_train_list: job.place.shard_train_list,
        topology: spec.topology.clone(),
        package: manifest.map(|manifest| PackageRequest {
            mirror: mirror(&root_dir, &origin),
            manifest: manifest.clone(),
        }),
    };
    let source =
        manifest.map(|manifest| Source { root: &job.package, manifest, by_rsync: Vec::new() });
    let directory: PathBuf = session.prepare(prepare, source.as_ref(), &|_| ()).await?.into();
    words.say(&Word::Supervise).await?;
    let host = Host::attach(&name, Box::new(commands), Box::new(events), PATIENCE).await?;
    let address = match member.address.as_str() {
        "" if peer.is_loopback() => outer.to_string(),
        "" => peer.to_string(),
        address => address.to_owned(),
    };
    let node = Node {
        name,
        address,
        nic: job.place.nic.clone(),
        paddle: member.paddle,
        workspace: directory.clone(),
        directory: member.directory,
        owns_workspace: manifest.is_some(),
        env: BTreeMap::new(),
    };
    let own = manifest.is_some().then_some(directory);
    Ok((node, host, Reached { session, words, own }))
}

/// A program that is not sent runs in the very directory that was named: results in another one of
/// that name would be nobody's.
async fn check_shared(job: &Job<'_>, nodes: &[Node], hosts: &mut [Host]) -> Result<()> {
    let Package::Present(path) = &job.submission.package else { return Ok(()) };
    let refused =
        |source| Error::io("cannot write to the workspace", source).with("workspace", path);
    let sign = tempfile::Builder::new().prefix(".paddle-shared-").tempfile_in(path);
    let sign = sign.map_err(refused)?;
    let name = sign.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    for (node, host) in nodes.iter().zip(hosts) {
        let (folder, name) = (PathBuf::from(path), name.clone());
        let probe = Command::Probe(Probe { folder, name, action: ProbeAction::Find });
        if let Some(problem) = host.probe(&probe).await? {
            let message = "the workspace on this node is not the one here: use a directory of a \
                           file system that all nodes share, or send the program with \
                           --job_dispatch_package";
            return Err(Error::new(Kind::Unsupported, message)
                .with("node", &node.name)
                .with("workspace", path)
                .with("found", problem));
        }
    }
    Ok(())
}

/// The nodes as far as they are known before there are any: by their numbers.
pub(crate) fn imagine(place: &SlurmPlace, submission: &Submission, paddle: &Paddle) -> Vec<Node> {
    let paddle = match place.paddle.as_str() {
        "" => paddle.program.to_string_lossy().into_owned(),
        paddle => paddle.to_owned(),
    };
    let node = |rank: u32| {
        let workspace = match &submission.package {
            Package::Present(path) => PathBuf::from(path),
            Package::Dispatch(_) => format!("{}/JOB%Y%m%d%H%M%S-{rank}", place.root_dir).into(),
        };
        Node {
            name: format!("<node {rank}>"),
            address: format!("node-{rank}"),
            nic: place.nic.clone(),
            paddle: paddle.clone(),
            workspace,
            directory: format!("<job>/node-{rank}").into(),
            owns_workspace: matches!(submission.package, Package::Dispatch(_)),
            env: BTreeMap::new(),
        }
    };
    (0..plan::nodes(place, &submission.spec)).map(node).collect()
}

/// What a job would ask of Slurm, for people to look at.
///
/// # Errors
/// The submission is not for Slurm.
pub fn preview(submission: &Submission, paddle: &Paddle) -> Result<String> {
    let crate::submission::Place::Slurm(place) = &submission.place else {
        return Err(Error::invalid("the job is not for Slurm"));
    };
    let own = paddle.program.to_string_lossy();
    let paddle = if place.paddle.is_empty() { own.as_ref() } else { place.paddle.as_str() };
    plan::script(&plan::Batch {
        place,
        submission,
        mark: "MARK",
        paddle,
        is_leashed: true,
        asks_for_grace: true,
    })
}

/// Cancels the allocation when this process dies before its agents could notice: a shell waits for
/// the end of its input, which is ours to close. It is there before Slurm is asked, and knows the
/// allocation by its mark: whoever dies before `sbatch` has answered knows no number.
struct Tether(Child);

/// `sbatch` may outlive its caller, so the allocation is looked for until it is there.
const CANCEL: &str = r#"cat > /dev/null
for pause in 0 1 2 4 8 16 32; do
    sleep $pause
    ids=$(squeue --noheader --name "$0" --format '%i %k' | grep -w "mark=$1" | cut -d ' ' -f 1)
    if [ -n "$ids" ]; then
        scancel --quiet $ids && exit
    fi
done"#;

impl Tether {
    fn tie(slurm: &Slurm<'_>, name: &str, mark: &str) -> Result<Tether> {
        let mut command = slurm.command("sh");
        command.args(["-c", CANCEL, name, mark]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|source| Error::io("cannot run sh", source))?;
        Ok(Tether(child))
    }

    async fn untie(mut self) {
        // It waits for nothing else, and one that has gone is as good.
        let _ = self.0.kill().await;
    }
}

impl std::fmt::Debug for Job<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("id", &self.submission.id).finish_non_exhaustive()
    }
}
