//! The cluster of `make test-clusters`, and what is asked of it by `kubectl`.

use super::repository;
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// Set by `scripts/clusters/kubernetes.sh`: where the cluster has its programs and its kubeconfig.
const HOME: &str = "PADDLE_TEST_KUBERNETES";
/// The image that the stories run.
pub(crate) const IMAGE: &str = "paddlecloud/paddle:v1";
/// How long anything may take. Only a failure waits so long.
const DEADLINE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(500);

/// A running cluster.
pub(crate) struct Cluster {
    home: PathBuf,
    _turn: Turn,
}

/// Most of a story is waiting for the cluster, so many run at a time.
enum Turn {
    Shared { _guard: RwLockReadGuard<'static, ()>, _processors: Option<MutexGuard<'static, ()>> },
    Alone { _guard: RwLockWriteGuard<'static, ()> },
}

static TURN: RwLock<()> = RwLock::new(());
/// Held by a story whose pods ask for processors.
static PROCESSORS: Mutex<()> = Mutex::new(());

impl Cluster {
    /// The cluster; `None`, with a word about it, where there is none.
    pub(crate) fn find() -> Option<Cluster> {
        let home = home()?;
        let guard = TURN.read().unwrap_or_else(PoisonError::into_inner);
        Some(Cluster { home, _turn: Turn::Shared { _guard: guard, _processors: None } })
    }

    /// The cluster, with processors that no other story asks for.
    pub(crate) fn with_processors() -> Option<Cluster> {
        let home = home()?;
        let processors = Some(PROCESSORS.lock().unwrap_or_else(PoisonError::into_inner));
        let guard = TURN.read().unwrap_or_else(PoisonError::into_inner);
        Some(Cluster { home, _turn: Turn::Shared { _guard: guard, _processors: processors } })
    }

    /// The cluster, with nothing else on it: for a story that fills it, or changes what all see.
    pub(crate) fn alone() -> Option<Cluster> {
        let home = home()?;
        let guard = TURN.write().unwrap_or_else(PoisonError::into_inner);
        Some(Cluster { home, _turn: Turn::Alone { _guard: guard } })
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.home.join("run/admin.kubeconfig")
    }

    /// `kubectl`, not started.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.program("kubectl", arguments)
    }

    fn program(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.home.join("bin").join(name));
        command.args(arguments).env("KUBECONFIG", self.kubeconfig());
        command.env("KUBECACHEDIR", self.home.join("run/kubectl-cache"));
        // What Helm keeps for itself.
        command.env("XDG_CACHE_HOME", self.home.join("run/helm"));
        command
    }

    /// What `helm` prints; it must succeed.
    pub(crate) fn helm(&self, arguments: &[&str]) -> String {
        printed(self.program("helm", arguments).stdin(Stdio::null()))
    }

    /// What a shell script prints in which `kubectl` leads to the cluster; it must succeed.
    pub(crate) fn shell(&self, script: &str) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["-ec", script]).env("KUBECONFIG", self.kubeconfig());
        command.env("PATH", format!("{}:{path}", self.home.join("bin").display()));
        command.env("XDG_CACHE_HOME", self.home.join("run/helm"));
        printed(command.stdin(Stdio::null()))
    }

    /// What a shell script prints that runs where pods have addresses.
    pub(crate) fn inside(&self, directory: &Path, script: &str) -> String {
        let cluster = repository::path("scripts/clusters/kubernetes/cluster.sh");
        let mut command = Command::new(cluster);
        command.args(["exec", "bash", "-ec", script]).current_dir(directory);
        printed(command.env("KUBE_HOME", &self.home).stdin(Stdio::null()))
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// What `kubectl` prints; it must succeed.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        self.tell(arguments, "")
    }

    /// As [`Cluster::ask`], with something on its standard input.
    pub(crate) fn tell(&self, arguments: &[&str], input: &str) -> String {
        let output = self.kubectl(arguments, input);
        let printed = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "kubectl {arguments:?}: {}", printed(&output.stderr));
        printed(&output.stdout)
    }

    /// What `kubectl` prints, whether it succeeds or not.
    pub(crate) fn try_ask(&self, arguments: &[&str]) -> String {
        String::from_utf8_lossy(&self.kubectl(arguments, "").stdout).into_owned()
    }

    /// Removes namespaces with everything in them, and waits until they are gone.
    pub(crate) fn remove_namespaces(&self, names: &[String]) {
        let mut arguments = vec!["delete", "namespace", "--ignore-not-found"];
        arguments.extend(names.iter().map(String::as_str));
        self.ask(&arguments);
    }

    /// One object; null if it is not there.
    pub(crate) fn object(&self, kind: &str, name: &str) -> Value {
        let text = self.ask(&["get", kind, name, "-o", "json", "--ignore-not-found"]);
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
    }

    /// Waits until nothing is left of jobs that were launched under a name.
    pub(crate) fn await_nothing_of(&self, name: &str) {
        wait_for("nothing is left", || {
            let all = self.left("app.kubernetes.io/managed-by=paddlecloud");
            (!all.contains(&format!("/{name}"))).then_some(())
        });
    }

    /// The names of all objects of a job that are left.
    pub(crate) fn left(&self, selector: &str) -> String {
        let kinds = "secrets,pods,services,configmaps,statefulsets,jobs.batch,leases,\
                     networkpolicies,jobs.batch.volcano.sh,podgroups.scheduling.volcano.sh";
        self.ask(&["get", kinds, "-l", selector, "-o", "name"])
    }
}

fn home() -> Option<PathBuf> {
    let home = std::env::var_os(HOME);
    if home.is_none() {
        let note = b"skipped: there is no cluster, run make test-clusters\n";
        std::io::stderr().write_all(note).unwrap();
    }
    home.map(PathBuf::from)
}

/// What a command prints; it must succeed.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {err}\n{out}");
    out
}

/// Waits until there is an answer.
pub(crate) fn wait_for<T>(what: &str, mut question: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = question() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(PAUSE);
    }
}
