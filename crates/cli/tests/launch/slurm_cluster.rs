//! A Slurm for tests: a controller, four node daemons and munge on this machine, each on ports of
//! its own. They end with the test.
//!
//! Two nodes, of the partition `main`, see this machine's files. The other two, of `apart`, see other
//! files in the cluster's folder `own`, each its own, and nothing in `hidden`: so what arrives there
//! was sent. The first two have two devices each, as far as Slurm knows.

use super::component;
use super::job::wait_until;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// A Slurm that runs.
pub(crate) struct Cluster {
    /// Where it keeps everything.
    pub(crate) folder: PathBuf,
    /// Removes the folder when this process, and with it the pipe to that one, is gone: a static is
    /// never dropped.
    _remover: Child,
}

/// Nodes, the ports of the daemons behind them, and whether they see other files.
const NODES: [(&str, bool); 4] = [("n0", false), ("n1", false), ("p0", true), ("p1", true)];
const PROGRAMS: [&str; 4] = ["slurmctld", "slurmd", "munged", "sbatch"];

impl Cluster {
    /// The value of `SLURM_CONF`.
    pub(crate) fn conf(&self) -> String {
        self.folder.join("slurm.conf").to_str().unwrap().to_owned()
    }

    /// What a command of Slurm prints.
    pub(crate) fn call(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        let output = command.args(arguments).env("SLURM_CONF", self.conf()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }
}

/// The cluster that all tests of a process share, started when it is first asked for; none where
/// Slurm is not installed.
pub(crate) fn cluster() -> Option<&'static Cluster> {
    static CLUSTER: OnceLock<Option<Cluster>> = OnceLock::new();
    CLUSTER.get_or_init(start).as_ref()
}

/// Another one, for a test that is not kind to it.
pub(crate) fn start() -> Option<Cluster> {
    let found = PROGRAMS.map(|program| component::find_in("slurm", program));
    if found.iter().any(Option::is_none) {
        return None;
    }
    let [slurmctld, slurmd, munged, _] = found.map(Option::unwrap);
    let folder = tempfile::Builder::new().prefix("paddle-slurm-").tempdir().unwrap().keep();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["state", "own", "hidden"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    for device in ["gpu0", "gpu1"] {
        // Slurm takes devices alone, of any kind.
        std::os::unix::fs::symlink("/dev/null", folder.join(device)).unwrap();
    }
    let devices = format!("NodeName=n0,n1 Name=gpu File={}/gpu[0-1]\n", folder.display());
    std::fs::write(folder.join("gres.conf"), devices).unwrap();
    let remover = Command::new("sh")
        .args(["-c", "cat > /dev/null; rm -rf \"$0\""])
        .arg(&folder)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let ports: Vec<u16> = (0..=NODES.len()).map(|_| free_port()).collect();
    std::fs::write(folder.join("slurm.conf"), conf(&folder, &ports)).unwrap();
    let key: Vec<u8> = (0..128).map(|_| getrandom_byte()).collect();
    std::fs::write(folder.join("munge.key"), key).unwrap();
    let owner_only = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(folder.join("munge.key"), owner_only).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let place = folder.clone();
    // A daemon is told of the end of the thread that started it, so that thread stays.
    std::thread::spawn(move || {
        let path = |name: &str| format!("{}/{name}", place.display());
        let mut daemons = vec![daemon(
            &place,
            "munged",
            Command::new(munged).args([
                "--foreground",
                "--force",
                &format!("--key-file={}", path("munge.key")),
                &format!("--socket={}", path("munge.socket")),
                &format!("--pid-file={}", path("munge.pid")),
                &format!("--log-file={}", path("munge.log")),
                &format!("--seed-file={}", path("munge.seed")),
            ]),
        )];
        wait_until("munge answers", || Path::new(&path("munge.socket")).exists());
        daemons.push(daemon(&place, "slurmctld", Command::new(slurmctld).arg("-D")));
        for (node, is_apart) in NODES {
            let mut command = match is_apart {
                false => Command::new(&slurmd),
                true => apart(&slurmd, &place),
            };
            daemons.push(daemon(&place, node, command.args(["-D", "-N", node])));
        }
        sender.send(()).unwrap();
        for mut daemon in daemons {
            daemon.wait().unwrap();
        }
    });
    receiver.recv().unwrap();
    let cluster = Cluster { folder, _remover: remover };
    wait_until("all nodes are there", || {
        let mut command = Command::new("sinfo");
        let asked = command.args(["-h", "-N", "-o", "%T"]).env("SLURM_CONF", cluster.conf());
        let output = asked.output().unwrap();
        let states = String::from_utf8_lossy(&output.stdout).into_owned();
        // A line for each node in each of its partitions.
        states.lines().count() >= NODES.len() && states.lines().all(|state| state == "idle")
    });
    Some(cluster)
}

fn conf(folder: &Path, ports: &[u16]) -> String {
    let user = Command::new("id").arg("-un").output().unwrap().stdout;
    let (user, folder) = (String::from_utf8(user).unwrap(), folder.display());
    let nodes: String = NODES
        .iter()
        .zip(&ports[1..])
        .map(|((name, is_apart), port)| {
            let devices = if *is_apart { "" } else { " Gres=gpu:2" };
            format!(
                "NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=64 \
                 RealMemory=65536 Feature={name}{devices}\n"
            )
        })
        .collect();
    format!(
        "ClusterName=test\nSlurmctldHost=localhost(127.0.0.1)\nSlurmctldPort={port}\n\
         SlurmUser={user}SlurmdUser={user}\
         AuthType=auth/munge\nAuthInfo=socket={folder}/munge.socket\nCredType=cred/munge\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\n\
         SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd-%n.pid\n\
         ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         JobAcctGatherType=jobacct_gather/none\nMpiDefault=none\n\
         SlurmdParameters=config_overrides\nSelectType=select/cons_tres\n\
         SelectTypeParameters=CR_CPU\nGresTypes=gpu\nReturnToService=2\nKillWait=2\n\
         SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0\n\
         {nodes}\
         PartitionName=main Nodes=n0,n1 Default=YES MaxTime=INFINITE State=UP\n\
         PartitionName=apart Nodes=p0,p1 MaxTime=INFINITE State=UP\n\
         PartitionName=short Nodes=n0,n1 MaxTime=1 State=UP\n",
        port = ports[0],
    )
}

/// A node daemon that sees other files than this process.
fn apart(slurmd: &Path, folder: &Path) -> Command {
    let mut command = Command::new("unshare");
    let script =
        "mount -t tmpfs own \"$0/own\" && mount -t tmpfs hidden \"$0/hidden\" && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(folder).arg(slurmd);
    command
}

/// A process that ends with the thread that calls this.
pub(crate) fn daemon(folder: &Path, name: &str, command: &Command) -> Child {
    let output = std::fs::File::create(folder.join(format!("{name}.out"))).unwrap();
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(command.get_program())
        .args(command.get_args())
        .env("SLURM_CONF", folder.join("slurm.conf"))
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A key that nobody else has.
fn getrandom_byte() -> u8 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0).to_le_bytes()[0]
}
