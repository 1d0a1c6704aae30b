//! Wrong passwords, old tokens, foreign jobs, full disks, and a second server on the same data.

use super::component;
use super::server::{Server, wait_for};
use super::user::{PASSWORD, User};
use contract::state::JobState;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const JOBS: &str = "/api/v2/datacenters/local/jobs";

#[test]
fn the_first_password_is_for_the_owner_of_the_data_and_printed_once() {
    let mut server = Server::start();
    let file = server.data().join("admin_password");
    let password = fs::read_to_string(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
    let line = format!("the first administrator is `admin`, password {}\n", password.trim());
    assert_eq!(server.log().matches(&line).count(), 1, "{}", server.log());
    server.stop();
    server.restart();
    assert_eq!(server.log().matches(password.trim()).count(), 1, "{}", server.log());
    User::login(&server, "admin", password.trim());
}

#[test]
fn guessing_a_password_becomes_slow() {
    let server = Server::start();
    server.user("wu");
    let nobody = User::nobody(&server);
    let guess = || nobody.post("/api/v2/login", &json!({"username": "wu", "password": "guess"}));
    for _ in 0..5 {
        assert_eq!(guess().refusal(401), "wrong user name or password");
    }
    assert!(guess().refusal(429).contains("too many failed logins"));
    // Somebody who is not there is not told apart.
    let body = json!({"username": "nobody", "password": "guess"});
    assert_eq!(nobody.post("/api/v2/login", &body).refusal(401), "wrong user name or password");
    assert!(!server.log().contains("guess"));
}

#[test]
fn tls_is_spoken_by_flags_and_without_it_the_server_warns_beyond_loopback() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let files = [&cert, &key].map(|path| path.to_str().unwrap());
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"])
        .args(["-keyout", files[1], "-out", files[0]])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    let warning = "passwords and tokens can be read on the way";
    let secure = Server::with("", &["--tls_cert", files[0], "--tls_key", files[1]]);
    assert!(secure.url().starts_with("https://127.0.0.1:"), "{}", secure.url());
    assert!(!secure.log().contains(warning));
    log_in_with_its_certificate(&secure, folder.path());
    let plain = Server::start();
    assert!(!plain.log().contains(warning));
    let mut open = Server::prepared("listen: 0.0.0.0:0", &[]);
    let config = open.data().with_file_name("cloud.yaml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddlecloud"));
    command.arg("serve").arg("--config").arg(config).arg("--data_dir").arg(open.data());
    open.run(command);
    assert!(open.url().starts_with("http://0.0.0.0:"), "{}", open.url());
    assert!(open.log().contains(warning), "{}", open.log());
}

/// The certificate is named at the first login, and kept for later commands.
fn log_in_with_its_certificate(server: &Server, folder: &Path) {
    let run = |words: &[&str]| {
        let password = fs::File::open(server.data().join("admin_password")).unwrap();
        Command::new(env!("CARGO_BIN_EXE_paddlecloud"))
            .args(words)
            .current_dir(folder)
            .env("HOME", folder)
            .stdin(password)
            .output()
            .unwrap()
    };
    let login = ["login", "-endpoint", server.url(), "-username", "admin"];
    let refused = run(&login);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("certificate is not trusted") && error.contains("-ca"), "{error}");
    for words in [&[&login[..], &["-ca", "cert.pem"]].concat()[..], &["get", "jobs"]] {
        let done = run(words);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn a_token_ends_by_itself_by_revocation_and_with_its_user() {
    let server = Server::start();
    let user = server.user("wu");
    let make = |seconds: u64| {
        let body = json!({"label": "script", "ttl_seconds": seconds});
        let session: Value = user.post("/api/v2/tokens", &body).read();
        user.with_token(session["token"].as_str().unwrap())
    };
    let short = make(1);
    wait_for("the token to end", || (short.get("/api/v2/whoami").status == 401).then_some(()));
    assert_eq!(short.get("/api/v2/whoami").refusal(401), "the token has expired: log in again");
    let (script, other) = (make(3600), make(3600));
    let list: Vec<Value> = user.get("/api/v2/tokens").read();
    let id = list.iter().find(|token| token["label"] == "script").unwrap()["id"].clone();
    let path = format!("/api/v2/tokens/{}", id.as_str().unwrap());
    assert_eq!(server.user("eve").delete(&path).status, 404);
    assert_eq!(user.delete(&path).status, 204);
    let lives = [&script, &other].map(|token| token.get("/api/v2/whoami").status);
    assert!(lives == [401, 200] || lives == [200, 401], "{lives:?}");
    // A new password ends all of them.
    let body = json!({"password": "another password", "old_password": "wrong"});
    let change = |body: &Value| {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let call = agent.patch(format!("{}/api/v2/users/wu", server.url()));
        let call = call.header("Authorization", user.authorization());
        call.send(body.to_string().as_bytes()).unwrap().status().as_u16()
    };
    assert_eq!(change(&body), 403);
    let body = json!({"password": "another password", "old_password": PASSWORD});
    assert_eq!(change(&body), 200);
    assert_eq!(user.get("/api/v2/whoami").status, 401);
    User::login(&server, "wu", "another password");
}

#[test]
fn nobody_sees_or_changes_the_jobs_of_others() {
    let server = Server::start();
    let (user, other) = (server.user("wu"), server.user("eve"));
    let job = user.submit("job", "while :; do sleep 0.05; done");
    user.wait_until("job", JobState::Running);
    for word in ["job", job.uid.as_str()] {
        for path in ["", "/why", "/events", "/workers", "/logs", "/metrics"] {
            assert_eq!(other.get(&format!("{JOBS}/{word}{path}")).status, 404, "{path}");
        }
        assert_eq!(other.post(&format!("{JOBS}/{word}/kill"), &json!({})).status, 404);
        assert_eq!(other.delete(&format!("{JOBS}/{word}")).status, 404);
    }
    let list: Value = other.get(JOBS).read();
    assert_eq!(list["items"], json!([]));
    assert_eq!(other.get(&format!("{JOBS}?user=wu")).status, 403);
    assert_eq!(other.get("/api/v2/users").status, 403);
    assert_eq!(other.get("/api/v2/audit").status, 403);
    assert_eq!(other.post("/api/v2/users", &json!({"username": "x"})).status, 403);
    assert_eq!(User::nobody(&server).get(JOBS).status, 401);
    let admin = server.admin();
    let all: Value = admin.get(&format!("{JOBS}?user=*")).read();
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
    let path = format!("{JOBS}/{}/kill", job.uid);
    assert_eq!(admin.post(&path, &json!({"is_forced": true})).status, 200);
    user.wait_until("job", JobState::Killed);
    let audit: Value = admin.get("/api/v2/audit?limit=1").read();
    assert_eq!(audit["items"][0]["action"], "job.kill");
    assert_eq!(audit["items"][0]["user"], "admin");
}

/// A server whose data is on a small disk of its own, the way to that disk, and its administrator.
fn on_a_small_disk() -> Option<(Server, PathBuf, User)> {
    let mut server = Server::prepared("", &[]);
    fs::create_dir(server.data()).unwrap();
    // In a mount namespace that goes with the server.
    let own = server.command();
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=24m none \"$0\" && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(server.data());
    command.arg(own.get_program()).args(own.get_args());
    let mut probe = Command::new("unshare");
    probe.args(["--mount", "true"]).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        return component::missing("sandbox", "no mount namespaces here");
    }
    server.run(command);
    let disk = PathBuf::from(format!("/proc/{}/root{}", server.pid(), server.data().display()));
    let password = fs::read_to_string(disk.join("admin_password")).unwrap();
    let user = User::login(&server, "admin", password.trim());
    Some((server, disk, user))
}

#[test]
fn a_full_disk_is_a_clear_error_and_not_the_end() {
    let Some((_server, disk, user)) = on_a_small_disk() else { return };
    let large = "x".repeat(32 << 20);
    let sum = super::user::sha256(&large);
    let answer = user.put(&format!("/api/v2/blobs/{sum}"), large.as_bytes());
    assert!(answer.refusal(413).contains("disk is full"), "{answer:?}");
    // What did not fit is gone, and there is room for others.
    let body = user.submission("job", "true", |_| ());
    fill(&disk);
    let answer = user.submit_body(&body);
    assert!(answer.refusal(413).contains("the server's disk is full"), "{answer:?}");
    assert_eq!(user.get(&format!("{JOBS}/job")).status, 404);
    fs::remove_file(disk.join(BALLAST)).unwrap();
    let _: Value = user.submit_body(&body).read();
    user.wait_until("job", JobState::Succeeded);
}

const BALLAST: &str = "ballast";

fn fill(disk: &Path) {
    let mut file = fs::File::create(disk.join(BALLAST)).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
}

#[test]
fn what_a_full_disk_takes_from_a_log_is_said_in_it() {
    let Some((_server, disk, user)) = on_a_small_disk() else { return };
    // How far it is goes into a block that it has already.
    let script = "i=0; while [ ! -e ../../go ]; do i=$((i+1)); echo line $i; \
                  echo $i 1<> ../../count; done; echo over";
    user.submit("job", script);
    let home = disk.join("files/local/home/admin");
    let count = || {
        let text = fs::read_to_string(home.join("count")).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or(0)
    };
    let wait_lines = |more: u64| {
        let until = count() + more;
        wait_for("more lines", || (count() >= until).then_some(()));
    };
    wait_for("the first lines", || {
        user.log("job", "trainer-0").contains("line 100\n").then_some(())
    });
    fill(&disk);
    wait_lines(20_000);
    fs::remove_file(disk.join(BALLAST)).unwrap();
    wait_lines(1000);
    fs::write(home.join("go"), "").unwrap();
    user.wait_until("job", JobState::Succeeded);
    let log = user.log("job", "trainer-0");
    assert!(log.ends_with("over\n"), "{}", &log[log.len() - 100..]);
    // Every line once and in order; what is missing is beside a gap that says so.
    let is_mark = |line: &str| line.contains("bytes could not be written here");
    let (mut last, mut gaps, mut is_gap) = (0, 0, false);
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if is_mark(line) {
            (gaps, is_gap) = (gaps + 1, true);
            continue;
        }
        let number = line.strip_prefix("line ").and_then(|number| number.parse::<u64>().ok());
        // A line may be cut before a gap, and what is left of one follows it.
        let is_cut = lines.peek().is_some_and(|next| is_mark(next));
        let Some(number) = number.filter(|_| !is_cut) else { continue };
        assert!(number == last + 1 || (is_gap && number > last), "line {number} after {last}");
        (last, is_gap) = (number, false);
    }
    assert!(gaps > 0, "nothing was lost, or that was not said");
}

#[test]
fn the_data_of_a_server_belongs_to_one_server() {
    let server = Server::start();
    let output = server.command().output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error.contains("another server uses this data directory"), "{error}");
}

#[test]
fn a_wrong_configuration_names_the_key() {
    for (yaml, words) in [
        ("colour: red", "unknown field `colour`"),
        ("datacenters: [{name: a, backend: mpi}]", "backend mpi needs `mpi:`"),
        ("listen: somewhere", "listen"),
        ("isolation: maybe", "isolation"),
    ] {
        let output = Server::prepared(yaml, &[]).command().output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(words), "{error}");
    }
}
