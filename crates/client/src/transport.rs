//! One HTTP exchange after the other: timeouts, attempts, and errors in our words. Knows bytes and
//! statuses, not what is in them, and no tokens beyond the one it is given.

use crate::body;
use crate::config::Datacenter;
use crate::endpoint::Endpoint;
use crate::retry::{self, Failure, Repeat};
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};
use ureq::http::{Method, Request, Response};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, SendBody};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that are kept for the next request: as many as there are requests at the same time.
const CONNECTIONS: usize = 16;
/// How long a server may take until it begins to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How long nothing may move on a connection.
const STILL_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest answer.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The longest body of an error.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// The way to one server.
pub(crate) struct Transport {
    agent: Agent,
    pub(crate) patience: Option<Duration>,
    pub(crate) endpoint: Endpoint,
}

/// What to ask for.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    /// With the query.
    pub(crate) path: String,
    pub(crate) content: Content<'a>,
    pub(crate) repeat: Repeat,
    /// What it does, for errors: `list jobs`.
    pub(crate) what: &'static str,
    /// How long the server may take until it begins to answer; absent for the usual limit.
    pub(crate) answer: Option<Duration>,
}

/// What is sent.
pub(crate) enum Content<'a> {
    Nothing,
    Json(Vec<u8>),
    /// Bytes of this length. Called for every attempt.
    Stream(u64, &'a (dyn Fn() -> Result<Box<dyn Read>> + Sync)),
}

impl Transport {
    /// `patience` is the longest that anything may take; absent for the usual limits.
    pub(crate) fn new(datacenter: &Datacenter, patience: Option<Duration>) -> Result<Transport> {
        let endpoint = datacenter.endpoint.clone();
        let limit = |usual: Duration| Some(patience.map_or(usual, |most| most.min(usual)));
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirect is told, not followed: the token is for this server alone.
            .max_redirects(0)
            .max_idle_connections(CONNECTIONS)
            .max_idle_connections_per_host(CONNECTIONS)
            .user_agent(concat!("paddlecloud/", env!("CARGO_PKG_VERSION")))
            .timeout_resolve(limit(CONNECT_TIMEOUT))
            .timeout_connect(limit(CONNECT_TIMEOUT))
            .timeout_recv_response(limit(ANSWER_TIMEOUT))
            .timeout_per_read(limit(STILL_TIMEOUT))
            .timeout_per_write(limit(STILL_TIMEOUT));
        if endpoint.is_loopback() {
            config = config.proxy(None);
        }
        if let Some(file) = &datacenter.ca {
            config = config.tls_config(trust(file)?);
        }
        Ok(Transport { agent: agent(config.build(), datacenter)?, endpoint, patience })
    }

    /// The answer as bytes, after as many attempts as may be made.
    pub(crate) fn call(&self, call: &Call<'_>, token: Option<&Secret>) -> Result<Vec<u8>> {
        self.repeated(call, |attempt| match self.once(call, token, None) {
            Ok(mut answer) => {
                let read = read(answer.body_mut(), ANSWER_BYTES_MAX);
                read.map_err(|error| self.failed(error, call))
            }
            // The attempt before has done it, and its answer was lost.
            Err(failed)
                if attempt > 1
                    && call.method == Method::DELETE
                    && failed.error.kind() == Kind::NotFound =>
            {
                Ok(Vec::new())
            }
            Err(failed) => Err(failed),
        })
    }

    /// Attempts until one succeeds, or no other may be made.
    fn repeated<T>(
        &self,
        call: &Call<'_>,
        once: impl Fn(u32) -> std::result::Result<T, Box<Failed>>,
    ) -> Result<T> {
        let began = Instant::now();
        let mut attempt = 1;
        loop {
            let Failed { error, failure } = match once(attempt) {
                Ok(answer) => return Ok(answer),
                Err(failed) => *failed,
            };
            let elapsed = began.elapsed();
            let is_late = self.patience.is_some_and(|most| elapsed >= most);
            match retry::decide(attempt, elapsed, failure, call.repeat, chance()) {
                Some(pause) if !is_late => std::thread::sleep(pause),
                _ => return Err(error),
            }
            attempt += 1;
        }
    }

    /// As [`Transport::stream`], after as many attempts as may be made. What breaks off later is not
    /// tried again: whoever reads it has seen a part.
    pub(crate) fn begin_stream(
        &self,
        call: &Call<'_>,
        token: Option<&Secret>,
        still: Duration,
    ) -> Result<Body> {
        self.repeated(call, |_| self.once(call, token, Some(still)).map(Response::into_body))
    }

    /// The beginning of an answer that goes on; `still` is how long it may be silent.
    pub(crate) fn stream(
        &self,
        call: &Call<'_>,
        token: Option<&Secret>,
        still: Duration,
    ) -> Result<Body> {
        self.once(call, token, Some(still)).map(Response::into_body).map_err(|failed| failed.error)
    }

    /// One attempt with more headers, for an answer that is read as it comes.
    pub(crate) fn exchange(
        &self,
        call: &Call<'_>,
        token: Option<&Secret>,
        headers: &[(&'static str, String)],
    ) -> Result<Response<Body>> {
        self.once_with(call, token, None, headers).map_err(|failed| failed.error)
    }

    fn once(
        &self,
        call: &Call<'_>,
        token: Option<&Secret>,
        still: Option<Duration>,
    ) -> std::result::Result<Response<Body>, Box<Failed>> {
        self.once_with(call, token, still, &[])
    }

    fn once_with(
        &self,
        call: &Call<'_>,
        token: Option<&Secret>,
        still: Option<Duration>,
        headers: &[(&'static str, String)],
    ) -> std::result::Result<Response<Body>, Box<Failed>> {
        let unsent = |error: Error| {
            let failure =
                Failure { kind: error.kind(), may_have_been_seen: false, retry_after: None };
            Box::new(Failed { error, failure })
        };
        let url = self.endpoint.url(&call.path);
        let mut request = Request::builder().method(call.method.clone()).uri(url);
        request = request.header("accept", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if let Some(token) = token {
            request = request.header("authorization", format!("Token {}", token.expose()));
        }
        let content = match &call.content {
            Content::Nothing if call.method == Method::GET || call.method == Method::DELETE => {
                SendBody::none()
            }
            Content::Nothing => {
                request = request.header("content-length", "0");
                SendBody::none()
            }
            Content::Json(bytes) => {
                request = request.header("content-type", "application/json");
                request = request.header("content-length", bytes.len());
                SendBody::from_owned_reader(std::io::Cursor::new(bytes.clone()))
            }
            Content::Stream(length, open) => {
                request = request.header("content-type", "application/octet-stream");
                request = request.header("content-length", *length);
                SendBody::from_owned_reader(open().map_err(unsent)?)
            }
        };
        let request = request.body(content).map_err(|source| {
            unsent(Error::invalid("this cannot be asked of the server").because(source))
        })?;
        let mut request = self.agent.configure_request(request);
        if let Some(still) = still {
            request = request.timeout_per_read(Some(still));
        }
        if let Some(answer) = call.answer {
            request = request.timeout_recv_response(Some(answer)).timeout_per_read(Some(answer));
        }
        let answer = self.agent.run(request.build()).map_err(|error| self.failed(error, call))?;
        match answer.status().as_u16() {
            200..=299 => Ok(answer),
            _ => Err(Box::new(self.refused(answer, call))),
        }
    }

    /// A status that is no success, with what its body says.
    fn refused(&self, mut answer: Response<Body>, call: &Call<'_>) -> Failed {
        let header = |name: &str| {
            let value = answer.headers().get(name).and_then(|value| value.to_str().ok());
            value.map(str::to_owned)
        };
        let status = answer.status().as_u16();
        let retry_after = header("retry-after").and_then(|text| text.parse().ok());
        let location = header("location");
        let bytes = read(answer.body_mut(), ERROR_BYTES_MAX).unwrap_or_default();
        let error = body::refusal(status, &bytes, location.as_deref(), call.what);
        let failure = Failure {
            kind: error.kind(),
            may_have_been_seen: true,
            retry_after: retry_after.map(Duration::from_secs),
        };
        Failed { error, failure }
    }

    /// No answer at all.
    fn failed(&self, error: ureq::Error, call: &Call<'_>) -> Box<Failed> {
        use std::io::ErrorKind;
        use ureq::Timeout;
        let mut may_have_been_seen = true;
        let (kind, message) = match &error {
            ureq::Error::HostNotFound => {
                may_have_been_seen = false;
                (Kind::Unavailable, "the server's name is not known: look at `endpoint`")
            }
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
                may_have_been_seen = false;
                (Kind::Timeout, "the server does not answer: is it up, and is `endpoint` right?")
            }
            ureq::Error::Timeout(_) => (Kind::Timeout, "the server takes too long to answer"),
            ureq::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
                may_have_been_seen = false;
                (
                    Kind::Unavailable,
                    "nothing listens at the server: is it up, and is `endpoint` right?",
                )
            }
            ureq::Error::ConnectionFailed => {
                may_have_been_seen = false;
                (Kind::Unavailable, "the server cannot be reached")
            }
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) | ureq::Error::Pem(_) => {
                may_have_been_seen = false;
                (Kind::Unauthenticated, NOT_TRUSTED)
            }
            // What TLS refuses while the connection is made.
            ureq::Error::Io(error)
                if error.kind() == ErrorKind::InvalidData && self.endpoint.is_secure() =>
            {
                may_have_been_seen = false;
                (Kind::Unauthenticated, NOT_TRUSTED)
            }
            ureq::Error::Protocol(_) if !self.endpoint.is_secure() => {
                let message = "the connection to the server broke, or it does not speak plain \
                               HTTP: should `endpoint` begin with https://?";
                (Kind::Unavailable, message)
            }
            ureq::Error::Io(_) | ureq::Error::Protocol(_) | ureq::Error::BodyStalled => {
                (Kind::Unavailable, "the connection to the server broke")
            }
            ureq::Error::BodyExceedsLimit(_) => {
                (Kind::LimitExceeded, "the server's answer is too long")
            }
            _ => (Kind::Io, "the server cannot be asked"),
        };
        let error = Error::new(kind, format!("cannot {}: {message}", call.what))
            .with("server", &self.endpoint)
            .because(error);
        let failure = Failure { kind, may_have_been_seen, retry_after: None };
        Box::new(Failed { error, failure })
    }
}

const NOT_TRUSTED: &str = "the server's certificate is not trusted, or it speaks no TLS: name its \
                           authority's certificate by `ca: FILE` in the configuration, or by -ca \
                           at the first login; one that signs itself must not be an authority's \
                           (CA:FALSE)";

struct Failed {
    error: Error,
    failure: Failure,
}

fn read(body: &mut Body, bytes_max: u64) -> std::result::Result<Vec<u8>, ureq::Error> {
    body.with_config().limit(bytes_max).read_to_vec()
}

/// By the network, or by a socket of this machine.
#[cfg(unix)]
fn agent(config: ureq::config::Config, datacenter: &Datacenter) -> Result<Agent> {
    let Some(socket) = &datacenter.socket else { return Ok(config.into()) };
    let resolver = ureq::unversioned::resolver::DefaultResolver::default();
    Ok(Agent::with_parts(config, crate::socket::Socket(socket.clone()), resolver))
}

#[cfg(not(unix))]
fn agent(config: ureq::config::Config, datacenter: &Datacenter) -> Result<Agent> {
    match &datacenter.socket {
        None => Ok(config.into()),
        Some(socket) => {
            let message = "this system has no such sockets: remove `socket`, use `endpoint`";
            Err(Error::new(Kind::Unsupported, message).with("socket", socket.display()))
        }
    }
}

/// The authorities of a file instead of those that come with the program.
fn trust(file: &std::path::Path) -> Result<TlsConfig> {
    let pem = std::fs::read(file).map_err(|source| {
        Error::io("cannot read the certificate that `ca` names", source)
            .with("file", file.display())
    })?;
    let certificates: Vec<_> = ureq::tls::parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        let message = "the file that `ca` names has no certificate: it is a PEM file";
        return Err(Error::invalid(message).with("file", file.display()));
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(certificates))).build())
}

/// A number below 1 that differs from call to call; nothing secret depends on it.
fn chance() -> f64 {
    let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    f64::from(nanos.map_or(0, |elapsed| elapsed.subsec_nanos()) % 1000) / 1000.0
}
