//! As little of an HTTP client as possible: it shares the machine with what is measured.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A connection that is kept.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) async fn open(address: &str) -> Connection {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Connection(BufReader::with_capacity(64 << 10, stream))
    }

    /// A question whose answer must be good; its body.
    pub(crate) async fn get(&mut self, path: &str, token: &str) -> Vec<u8> {
        self.call("GET", path, token, &Value::Null).await
    }

    pub(crate) async fn call(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &Value,
    ) -> Vec<u8> {
        let head = self.ask(method, path, token, body).await;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
        });
        let mut answer = vec![0; length.unwrap_or(0)];
        self.0.read_exact(&mut answer).await.unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{head}{}", String::from_utf8_lossy(&answer));
        answer
    }

    /// Reads an answer that goes on, until the connection is closed or `self` is dropped. Returns
    /// the number of bytes.
    pub(crate) async fn follow(&mut self, path: &str, token: &str) -> usize {
        let head = self.ask("GET", path, token, &Value::Null).await;
        assert!(head.starts_with("HTTP/1.1 2"), "{head}");
        let (mut piece, mut all) = (vec![0; 16 << 10], 0);
        loop {
            match self.0.read(&mut piece).await.unwrap() {
                0 => return all,
                count => all += count,
            }
        }
    }

    async fn ask(&mut self, method: &str, path: &str, token: &str, body: &Value) -> String {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
        if !token.is_empty() {
            head.push_str(&format!("Authorization: Token {token}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        head.push_str(&body);
        self.0.get_mut().write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut answer).await.unwrap() > 0, "the server hung up");
        }
        answer
    }
}
