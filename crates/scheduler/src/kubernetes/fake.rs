//! An API server for tests, which answers as a function of the request says.

use super::api::Access;
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// What is not there.
pub(super) fn not_found() -> (u16, Vec<u8>) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
        "reason": "NotFound", "message": "the server could not find the resource",
    });
    (404, body.to_string().into_bytes())
}

pub(super) struct Server {
    folder: tempfile::TempDir,
    /// The first lines of all requests so far, such as `GET /api/v1/nodes HTTP/1.1`.
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers every request with a status and a body. Must be called on a runtime.
    pub(super) async fn start(answer: impl Fn(&str) -> (u16, Vec<u8>) + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 64 << 10];
                let count = stream.read(&mut request).await.unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..count]).into_owned();
                let line = request.lines().next().unwrap_or_default().to_owned();
                let (status, body) = answer(&line);
                seen.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                let head = format!(
                    "HTTP/1.1 {status} It\r\ncontent-type: application/json\r\n\
                     content-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": server}}],
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me"}}],
            "users": [{"name": "me", "user": {}}],
            "current-context": "fake",
        });
        std::fs::write(folder.path().join("kubeconfig"), text.to_string()).unwrap();
        Server { folder, requests }
    }

    pub(super) fn access(&self) -> Access {
        Access { kubeconfig: Some(self.folder.path().join("kubeconfig")), context: String::new() }
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
