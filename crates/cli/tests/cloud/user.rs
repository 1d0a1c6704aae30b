//! Somebody who is logged in, over plain HTTP: what is tried is the server, not our client.

use super::server::{PATIENCE, Server, wait_for};
use contract::api::job::{Job, JobDetail};
use contract::api::log::LogPiece;
use contract::job::JobSpec;
use contract::state::{JobState, State};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A user with a token.
#[derive(Clone)]
pub(crate) struct User {
    agent: ureq::Agent,
    url: String,
    pub(crate) name: String,
    token: String,
    datacenter: String,
}

/// An answer: its status and its body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Answer {
    /// The body of an answer that must be good.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> T {
        assert!(self.status < 300, "{self:?}");
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The message of a refusal that must have this status.
    pub(crate) fn refusal(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let body: Value = serde_json::from_str(&self.text).unwrap();
        body["message"].as_str().unwrap().to_owned()
    }
}

pub(crate) const PASSWORD: &str = "a password";

impl User {
    /// Somebody who is not logged in.
    pub(crate) fn nobody(server: &Server) -> User {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .build();
        User {
            agent: config.into(),
            url: server.url().to_owned(),
            name: String::new(),
            token: String::new(),
            datacenter: "local".to_owned(),
        }
    }

    pub(crate) fn login(server: &Server, name: &str, password: &str) -> User {
        let nobody = User::nobody(server);
        let body = json!({"username": name, "password": password});
        let session: Value = nobody.post("/api/v2/login", &body).read();
        let token = session["token"].as_str().unwrap().to_owned();
        User { token, name: name.to_owned(), ..nobody }
    }

    /// The same user at another address, with the same token.
    pub(crate) fn at(&self, server: &Server) -> User {
        User { url: server.url().to_owned(), ..self.clone() }
    }

    /// In another datacenter.
    pub(crate) fn within(&self, datacenter: &str) -> User {
        User { datacenter: datacenter.to_owned(), ..self.clone() }
    }

    /// The path of the jobs, and of what is below them.
    fn jobs(&self, below: &str) -> String {
        format!("/api/v2/datacenters/{}/jobs{below}", self.datacenter)
    }

    /// With another token.
    pub(crate) fn with_token(&self, token: &str) -> User {
        User { token: token.to_owned(), ..self.clone() }
    }

    pub(crate) fn add_user(&self, name: &str) -> User {
        let body = json!({"username": name, "password": PASSWORD});
        let _: Value = self.post("/api/v2/users", &body).read();
        let session: Value =
            self.post("/api/v2/login", &json!({"username": name, "password": PASSWORD})).read();
        let token = session["token"].as_str().unwrap().to_owned();
        User { token, name: name.to_owned(), ..self.clone() }
    }

    fn answer(mut response: ureq::http::Response<ureq::Body>) -> Answer {
        let text = response.body_mut().with_config().limit(1 << 30).read_to_string().unwrap();
        Answer { status: response.status().as_u16(), text }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The header that proves who calls.
    pub(crate) fn authorization(&self) -> String {
        format!("Token {}", self.token)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        let call = self.agent.get(format!("{}{path}", self.url));
        User::answer(call.header("Authorization", self.authorization()).call().unwrap())
    }

    /// Status and bytes of an answer; `None` if it broke off.
    pub(crate) fn try_get(&self, path: &str) -> Option<(u16, Vec<u8>)> {
        let call = self.agent.get(format!("{}{path}", self.url));
        let mut response = call.header("Authorization", self.authorization()).call().unwrap();
        let body = response.body_mut().with_config().limit(1 << 30).read_to_vec();
        Some((response.status().as_u16(), body.ok()?))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        let call = self.agent.delete(format!("{}{path}", self.url));
        User::answer(call.header("Authorization", self.authorization()).call().unwrap())
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.try_post(path, body).unwrap()
    }

    /// A call to a server that may be killed meanwhile.
    pub(crate) fn try_post(&self, path: &str, body: &Value) -> Result<Answer, ureq::Error> {
        let call = self.agent.post(format!("{}{path}", self.url));
        let call = call.header("Authorization", self.authorization());
        Ok(User::answer(call.send(body.to_string().as_bytes())?))
    }

    pub(crate) fn put(&self, path: &str, bytes: &[u8]) -> Answer {
        let call = self.agent.put(format!("{}{path}", self.url));
        User::answer(call.header("Authorization", self.authorization()).send(bytes).unwrap())
    }

    /// A call with a body of bytes.
    pub(crate) fn send_post(user: &User, path: &str, bytes: &[u8]) -> Answer {
        user.send_with("POST", path, ("Content-Type", "application/octet-stream"), bytes)
    }

    /// A call with one more header.
    pub(crate) fn send_with(
        &self,
        method: &str,
        path: &str,
        (name, value): (&str, &str),
        bytes: &[u8],
    ) -> Answer {
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Authorization", self.authorization())
            .header(name, value);
        let response = match bytes.is_empty() && method == "GET" {
            true => self.agent.run(request.body(()).unwrap()),
            false => self.agent.run(request.body(bytes).unwrap()),
        };
        User::answer(response.unwrap())
    }

    /// The bytes of an answer that must be good.
    pub(crate) fn get_bytes(&self, path: &str) -> Vec<u8> {
        let call = self.agent.get(format!("{}{path}", self.url));
        let mut response = call.header("Authorization", self.authorization()).call().unwrap();
        assert_eq!(response.status().as_u16(), 200);
        response.body_mut().with_config().limit(1 << 30).read_to_vec().unwrap()
    }

    /// The lines of an answer that goes on.
    pub(crate) fn stream(&self, path: &str) -> impl Iterator<Item = String> + use<> {
        let call = self.agent.get(format!("{}{path}", self.url));
        let response = call.header("Authorization", self.authorization()).call().unwrap();
        assert_eq!(response.status().as_u16(), 200);
        let reader = std::io::BufReader::new(response.into_body().into_reader());
        let lines = std::io::BufRead::lines(reader).map(|line| line.unwrap());
        lines.filter(|line| !line.is_empty())
    }

    /// Sends a package and returns its digest.
    pub(crate) fn upload(&self, files: &[(&str, &str)]) -> String {
        let entry = |text: &str| json!({"sha256": sha256(text), "bytes": text.len(), "is_executable": false});
        let files: BTreeMap<&str, &str> = files.iter().copied().collect();
        let manifest: BTreeMap<_, _> =
            files.iter().map(|(path, text)| (*path, entry(text))).collect();
        let manifest = json!({"files": manifest});
        let missing: Value = self.post("/api/v2/packages", &manifest).read();
        for sum in missing["missing"].as_array().unwrap() {
            let text = files.values().find(|text| sha256(text) == sum.as_str().unwrap()).unwrap();
            let path = format!("/api/v2/blobs/{}", sum.as_str().unwrap());
            assert_eq!(self.put(&path, text.as_bytes()).status, 204);
        }
        let missing: Value = self.post("/api/v2/packages", &manifest).read();
        assert_eq!(missing["missing"], json!([]));
        missing["digest"].as_str().unwrap().to_owned()
    }

    /// The body of a submission of a shell script, with one trainer and no server unless `change`
    /// says otherwise.
    pub(crate) fn submission(
        &self,
        name: &str,
        script: &str,
        change: impl FnOnce(&mut JobSpec),
    ) -> Value {
        let digest = self.upload(&[("train.sh", script)]);
        let mut spec = JobSpec {
            name: name.to_owned(),
            entry: "sh train.sh".to_owned(),
            allow_idle: true,
            ..JobSpec::default()
        };
        change(&mut spec);
        json!({"request": format!("{name}-{}", fresh()), "spec": spec, "package": digest})
    }

    /// Submits a job of one trainer.
    pub(crate) fn submit(&self, name: &str, script: &str) -> Job {
        let body = self.submission(name, script, |_| ());
        self.submit_body(&body).read()
    }

    pub(crate) fn submit_body(&self, body: &Value) -> Answer {
        self.post(&self.jobs(""), body)
    }

    pub(crate) fn job(&self, name: &str) -> JobDetail {
        self.get(&self.jobs(&format!("/{name}"))).read()
    }

    /// Waits until a job is in a state.
    pub(crate) fn wait_until(&self, name: &str, state: JobState) -> JobDetail {
        wait_for(&format!("{name} to be {state}"), || {
            let job = self.job(name);
            let is_reached = job.job.state == state;
            assert!(is_reached || !job.job.state.is_final(), "{:?}", job.job);
            is_reached.then_some(job)
        })
    }

    pub(crate) fn kill(&self, name: &str) -> Job {
        self.post(&self.jobs(&format!("/{name}/kill")), &json!({})).read()
    }

    pub(crate) fn why(&self, name: &str) -> String {
        let why: Value = self.get(&self.jobs(&format!("/{name}/why"))).read();
        why["sentence"].as_str().unwrap().to_owned()
    }

    /// What a replica printed, without the lines that every trainer's log begins with.
    pub(crate) fn log(&self, name: &str, worker: &str) -> String {
        let path = self.jobs(&format!("/{name}/logs?worker={name}-{worker}"));
        let pieces: Vec<LogPiece> = self.get(&path).read();
        program_lines(&pieces.into_iter().map(|piece| piece.text).collect::<String>())
    }
}

/// What is behind the introduction of a trainer's log.
pub(crate) fn program_lines(text: &str) -> String {
    let introduction = ["label selector: ", "running pod list: ", "Starting training job: "];
    let is_own = |line: &&str| !introduction.iter().any(|begin| line.starts_with(begin));
    text.split_inclusive('\n').filter(is_own).collect()
}

/// A word that no other test draws.
fn fresh() -> String {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub(crate) fn sha256(text: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(text.as_bytes()).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}
