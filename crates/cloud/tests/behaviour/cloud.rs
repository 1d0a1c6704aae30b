//! A server on a thread of its own, and calls to it.

use cloud::{Config, Outside, Server};
use scheduler::jobs::Paddle;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;

/// A server that ends with its test.
pub(crate) struct Cloud {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) url: String,
    pub(crate) admin: String,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Cloud {
    pub(crate) fn start() -> Cloud {
        Cloud::with("{}")
    }

    /// A server with a configuration. Its `paddle` ends at once, so no job can start.
    pub(crate) fn with(yaml: &str) -> Cloud {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::from_yaml(yaml).unwrap();
        config.data_dir = folder.path().join("data");
        let outside = Outside {
            paddle: Paddle { program: PathBuf::from("/bin/false"), release: "0".to_owned() },
            paddlecloud: "/bin/false".into(),
            environment: BTreeMap::new(),
            exposed: Vec::new(),
            machine: "here".to_owned(),
            host: "here".to_owned(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let url = format!("{scheme}://{}", listener.local_addr().unwrap());
        let (stop, stopping) = watch::channel(false);
        let (opened, password) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = Server::open(config, outside).await.unwrap();
                opened.send(server.started().admin_password.unwrap()).unwrap();
                server.run(listener, stopping).await.unwrap();
            });
            runtime.shutdown_timeout(Duration::from_secs(10));
        });
        let password = password.recv().unwrap();
        let mut cloud = Cloud { folder, url, admin: String::new(), stop, thread: Some(thread) };
        if scheme == "http" {
            cloud.admin = cloud.login("admin", password.expose());
        }
        cloud
    }

    pub(crate) fn login(&self, username: &str, password: &str) -> String {
        let body = serde_json::json!({"username": username, "password": password});
        let answer = self.call("", "POST", "/api/v2/login", &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["token"].as_str().unwrap().to_owned()
    }

    /// A new user's token.
    pub(crate) fn user(&self, username: &str) -> String {
        let body = serde_json::json!({"username": username, "password": "a password"});
        let answer = self.call(&self.admin, "POST", "/api/v2/users", &body);
        assert_eq!(answer.status, 201, "{answer:?}");
        self.login(username, "a password")
    }

    pub(crate) fn get(&self, token: &str, path: &str) -> Answer {
        self.call(token, "GET", path, &Value::Null)
    }

    pub(crate) fn call(&self, token: &str, method: &str, path: &str, body: &Value) -> Answer {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        self.send(token, method, path, text.into_bytes())
    }

    pub(crate) fn send(&self, token: &str, method: &str, path: &str, body: Vec<u8>) -> Answer {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.url));
        if !token.is_empty() {
            request = request.header("Authorization", format!("Token {token}"));
        }
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .build()
            .into();
        let mut response = agent.run(request.body(body).unwrap()).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Answer { status: response.status().as_u16(), body }
    }
}

impl Answer {
    /// The body of an answer that must have this status.
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.body
    }

    /// The message of a refusal.
    pub(crate) fn message(self, status: u16) -> String {
        self.expect(status)["message"].as_str().unwrap().to_owned()
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server broke");
        }
    }
}
