//! The cluster of `make test-clusters`, and what is asked of it by `kubectl`.

use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Set by `scripts/clusters/kubernetes.sh`: where the cluster has its programs and its kubeconfig.
const HOME: &str = "PADDLE_TEST_KUBERNETES";
/// The image that the stories run.
pub(crate) const IMAGE: &str = "paddlecloud/paddle:v1";
/// How long anything may take. Only a failure waits so long.
const DEADLINE: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(500);

/// A running cluster, held by one story at a time: jobs of two would wait for each other's
/// processors.
pub(crate) struct Cluster {
    home: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    /// The cluster; `None`, with a word about it, where there is none.
    pub(crate) fn find() -> Option<Cluster> {
        static TURN: Mutex<()> = Mutex::new(());
        let Some(home) = std::env::var_os(HOME) else {
            let note = b"skipped: there is no cluster, run make test-clusters\n";
            std::io::stderr().write_all(note).unwrap();
            return None;
        };
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Cluster { home: home.into(), _turn: turn })
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.home.join("run/admin.kubeconfig")
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = Command::new(self.home.join("bin/kubectl"))
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.home.join("run/kubectl-cache"))
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

    /// One object; null if it is not there.
    pub(crate) fn object(&self, kind: &str, name: &str) -> Value {
        let text = self.ask(&["get", kind, name, "-o", "json", "--ignore-not-found"]);
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
    }

    /// The names of all objects of a job that are left.
    pub(crate) fn left(&self, selector: &str) -> String {
        let kinds = "secrets,pods,services,configmaps,jobs.batch.volcano.sh";
        self.ask(&["get", kinds, "-l", selector, "-o", "name"])
    }
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
