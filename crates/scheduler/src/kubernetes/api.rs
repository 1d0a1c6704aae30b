//! Reaching an API server, and its refusals as errors of ours.

use contract::{Error, Kind, Result};
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How long one request may take. Watches and logs that are followed are no such requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Which cluster, as whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// A kubeconfig; without one that of the user (`KUBECONFIG`, `~/.kube/config`), or, in a pod,
    /// its service account.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; empty for its current one.
    pub context: String,
}

/// A client of the cluster. Nothing is asked yet.
pub async fn connect(access: &Access) -> Result<Client> {
    let config = config(access).await?;
    Client::try_from(config)
        .map_err(|source| Error::invalid("cannot use this cluster").because(source))
}

/// The address of the API server, for people.
pub(super) async fn server(access: &Access) -> String {
    config(access).await.map(|config| config.cluster_url.to_string()).unwrap_or_default()
}

async fn config(access: &Access) -> Result<Config> {
    let unreadable = |source: kube::config::KubeconfigError| {
        let error = Error::invalid("cannot use the kubeconfig").because(source);
        match &access.kubeconfig {
            Some(path) => error.with("kubeconfig", path.display()),
            None => error,
        }
    };
    let context = (!access.context.is_empty()).then(|| access.context.clone());
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let mut config = match &access.kubeconfig {
        Some(path) => {
            let text = Kubeconfig::read_from(path).map_err(unreadable)?;
            Config::from_custom_kubeconfig(text, &options).await.map_err(unreadable)?
        }
        None if options.context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(unreadable)?
        }
        None => Config::infer().await.map_err(|source| {
            let message = "no Kubernetes cluster is known here: set KUBECONFIG to the path of a \
                           kubeconfig";
            // Its own words have those of its causes.
            Error::invalid(message).with("tried", source)
        })?,
    };
    config.connect_timeout = Some(REQUEST_TIMEOUT);
    // What `kube` finds in the environment it does not compare with `NO_PROXY` as it should: by the
    // address of the API server.
    if config.proxy_url.is_some() && !names_proxy(access) && is_direct(&config) {
        config.proxy_url = None;
    }
    Ok(config)
}

/// Whether the kubeconfig itself has a proxy for the cluster: then the environment does not count.
fn names_proxy(access: &Access) -> bool {
    let read = match &access.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let Ok(Kubeconfig { contexts, clusters, current_context, .. }) = read else { return false };
    let name =
        if access.context.is_empty() { current_context } else { Some(access.context.clone()) };
    let context = contexts.into_iter().find(|own| Some(&own.name) == name.as_ref());
    let cluster = context.and_then(|own| own.context).map(|own| own.cluster);
    let cluster = clusters.into_iter().find(|own| Some(&own.name) == cluster.as_ref());
    let proxy = cluster.and_then(|own| own.cluster).and_then(|own| own.proxy_url);
    proxy.is_some_and(|proxy| !proxy.is_empty())
}

/// Whether the API server is reached without the proxy of the environment, as by `kubectl`: `NO_PROXY`
/// has it, or it is on this machine.
fn is_direct(config: &Config) -> bool {
    let host = config.cluster_url.host().unwrap_or_default();
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let is_here = host == "localhost" || address.is_some_and(|address| address.is_loopback());
    is_here || Matcher::from_env().intercept(&config.cluster_url).is_none()
}

/// An answer within the time of a request, its refusal as an error that says what was tried.
pub(super) async fn ask<T>(what: &str, answer: impl Future<Output = kube::Result<T>>) -> Result<T> {
    match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
        Ok(answer) => answer.map_err(|error| refusal(what, error)),
        Err(_) => {
            let message = format!("cannot {what}: the API server does not answer");
            Err(Error::new(Kind::Timeout, message).with("seconds", REQUEST_TIMEOUT.as_secs()))
        }
    }
}

/// What an answer of the API server means.
pub(super) fn refusal(what: &str, error: kube::Error) -> Error {
    let message = format!("cannot {what}");
    match error {
        kube::Error::Api(status) => {
            let kind = match status.code {
                400 | 422 => Kind::Invalid,
                401 => Kind::Unauthenticated,
                403 if status.message.contains("exceeded quota") => Kind::LimitExceeded,
                403 => Kind::Forbidden,
                404 => Kind::NotFound,
                409 if status.reason == "AlreadyExists" => Kind::AlreadyExists,
                409 => Kind::Conflict,
                408 | 504 => Kind::Timeout,
                429 | 500 | 502 | 503 => Kind::Unavailable,
                _ => Kind::Io,
            };
            Error::new(kind, message).with("cluster_says", status.message)
        }
        kube::Error::Auth(_) => Error::new(Kind::Unauthenticated, message).because(error),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            Error::new(Kind::Damaged, message).because(error)
        }
        _ => Error::new(Kind::Unavailable, message).because(error),
    }
}
