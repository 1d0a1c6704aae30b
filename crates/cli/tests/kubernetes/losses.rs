//! What happens to a job when the cluster, or somebody who may do so, takes something away from it.

use super::cluster::{Cluster, IMAGE, wait_for};
use std::io::{BufRead, BufReader, Read};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// A way to the API server that can be cut.
struct Bridge {
    /// The connections over it; `None` while it is cut.
    open: Arc<Mutex<Option<Vec<TcpStream>>>>,
    kubeconfig: String,
}

impl Bridge {
    fn new(cluster: &Cluster) -> Bridge {
        let admin = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
        let server = admin.split_once("https://").unwrap().1;
        let server = server.split(['"', '\n', '}', ',']).next().unwrap().trim().to_owned();
        let (host, _) = server.rsplit_once(':').unwrap();
        // The certificate is of this host.
        let listener = TcpListener::bind((host, 0)).unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let kubeconfig = admin.replace(&server, &own);
        let open = Arc::new(Mutex::new(Some(Vec::new())));
        let shared = open.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut open = shared.lock().unwrap();
                // A connection that is dropped is refused.
                let Some(open) = open.as_mut() else { continue };
                let other = TcpStream::connect(&server).unwrap();
                let ends = [(&stream, &other), (&other, &stream)];
                for (from, to) in ends.map(|(a, b)| (a.try_clone(), b.try_clone())) {
                    let (mut from, mut to) = (from.unwrap(), to.unwrap());
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                open.extend([stream, other]);
            }
        });
        Bridge { open, kubeconfig }
    }

    fn cut(&self) {
        for stream in self.open.lock().unwrap().take().into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        *self.open.lock().unwrap() = Some(Vec::new());
    }
}

/// A launcher whose errors are read line by line, and whose output is kept.
struct Launched {
    process: Child,
    said: String,
    errors: BufReader<std::process::ChildStderr>,
}

impl Launched {
    fn new(folder: &Path, kubeconfig: &str, words: &[&str]) -> Launched {
        std::fs::write(folder.join("kubeconfig"), kubeconfig).unwrap();
        let output = std::fs::File::create(folder.join("printed")).unwrap();
        // Where nothing is told, its output ends all the same.
        let mut process = Command::new("timeout")
            .args(["300", env!("CARGO_BIN_EXE_paddle"), "launch", "--backend=kubernetes"])
            .args(["--image", IMAGE, "--kubeconfig=kubeconfig", "--output_dir=out"])
            .args(words)
            .arg("train.py")
            .current_dir(folder)
            .env("PADDLE_JOBS_DIR", folder.join(".jobs"))
            .stdout(output)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(process.stderr.take().unwrap());
        Launched { process, said: String::new(), errors }
    }

    fn await_words(&mut self, words: &str) {
        while !self.said.contains(words) {
            assert!(self.errors.read_line(&mut self.said).unwrap() > 0, "{words}: {}", self.said);
        }
    }

    /// Its exit code and everything it said.
    fn end(mut self) -> (Option<i32>, String) {
        self.errors.read_to_string(&mut self.said).unwrap();
        (self.process.wait().unwrap().code(), self.said)
    }
}

fn printed(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("printed")).unwrap()
}

const PROGRAM: &str = "import os, time\nprint('before', flush=True)\n\
                       while not os.path.exists('/shared/go'): time.sleep(0.1)\n\
                       for line in range(1000): print('line', line)\nprint('after')\n";

/// The API server is away while the job goes on: nothing that it prints meanwhile is lost or told
/// twice, and whoever looks on is told.
#[test]
fn a_job_is_followed_over_an_absence_of_the_api_server() {
    let Some(cluster) = Cluster::find() else { return };
    let (folder, volume) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let folder = folder.path();
    std::fs::write(folder.join("train.py"), PROGRAM).unwrap();
    let bridge = Bridge::new(&cluster);
    let mount = format!("--volume={}:/shared", volume.path().display());
    let mut launched = Launched::new(folder, &bridge.kubeconfig, &["--name=absence", &mount]);
    wait_for("it runs", || printed(folder).contains("before").then_some(()));
    bridge.cut();
    launched.await_words("the job cannot be looked at");
    std::fs::write(volume.path().join("go"), "").unwrap();
    bridge.mend();
    launched.await_words("the job can be looked at again");
    let (code, said) = launched.end();
    assert_eq!(code, Some(0), "{said}");
    let text = printed(folder);
    for words in ["before", "line 0\n", "line 500\n", "line 999\n", "after"] {
        assert_eq!(text.matches(words).count(), 1, "{words}: {text}");
    }
}

/// A namespace that is removed takes its jobs with it.
#[test]
fn a_launcher_says_that_its_job_was_removed() {
    let Some(cluster) = Cluster::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("train.py"), PROGRAM).unwrap();
    let namespaces = ["removed".to_owned()];
    cluster.remove_namespaces(&namespaces);
    cluster.ask(&["create", "namespace", "removed"]);
    let admin = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let launched = Launched::new(folder, &admin, &["--namespace=removed", "--grace=1s"]);
    wait_for("it runs", || printed(folder).contains("before").then_some(()));
    cluster.remove_namespaces(&namespaces);
    let (code, said) = launched.end();
    assert_eq!(code, Some(1), "{said}");
    // Its objects go in any order.
    let reasons =
        ["somebody has removed the job while it ran", "a pod was removed before the job was over"];
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
}
