//! From a URL and credentials to a store that was tried.

use super::carrier::{carrier, is_unreachable};
use crate::config::{Credential, Scheme, StoreConfig, StoreUrl};
use base64::Engine;
use contract::{Error, Kind, Result};
use futures_util::StreamExt;
use opendal::layers::{RetryLayer, TimeoutLayer};
use opendal::services::{Azblob, Gcs, Oss, S3};
use opendal::{ErrorKind, Operator};
use std::time::Duration;

/// A request may take so long, and no more is waited for the next piece of an answer. More than for
/// its beginning, so that it is known who is late.
pub(super) const REQUEST: Duration = Duration::from_secs(90);
/// A request that broke off is tried again so often.
const RETRIES: usize = 4;
/// Where nobody says. What is not Amazon's own ignores it.
pub(super) const REGION: &str = "us-east-1";

/// An operator of the store. Nothing is asked of it yet.
pub(super) fn connect(url: &StoreUrl, config: &StoreConfig) -> Result<Operator> {
    let operator = match url.scheme {
        Scheme::S3 => Operator::new(s3(url, config)),
        Scheme::Gcs => Operator::new(gcs(url, config)),
        Scheme::Azblob => Operator::new(azblob(url, config)),
        Scheme::Oss => Operator::new(oss(url, config)),
        Scheme::Hdfs => {
            return Err(Error::new(Kind::Unsupported, "HDFS is no store of objects"));
        }
    };
    let operator = operator.map_err(|error| {
        Error::invalid("the settings of the store cannot be used").because(error)
    })?;
    let context = operator.context().with_http_transport(carrier());
    let timeout = TimeoutLayer::new().with_timeout(REQUEST).with_io_timeout(REQUEST);
    let retry = RetryLayer::new().with_max_times(RETRIES).with_jitter();
    Ok(operator.with_context(context).layer(timeout).layer(retry))
}

fn text(credential: Option<&Credential>) -> &str {
    credential.map_or("", Credential::expose)
}

fn s3(url: &StoreUrl, config: &StoreConfig) -> S3 {
    let mut builder = S3::default()
        .bucket(&url.authority)
        .root(&url.path)
        .region(config.region.as_deref().unwrap_or(REGION))
        // The store compares the sum of what arrives.
        .checksum_algorithm("crc32c");
    if let Some(endpoint) = &config.endpoint {
        builder = builder.endpoint(endpoint);
    }
    if config.access_key_id.is_some() {
        builder = builder
            .disable_config_load()
            .disable_ec2_metadata()
            .access_key_id(text(config.access_key_id.as_ref()))
            .secret_access_key(text(config.secret_access_key.as_ref()));
    }
    match &config.session_token {
        Some(token) => builder.session_token(token.expose()),
        None => builder,
    }
}

fn gcs(url: &StoreUrl, config: &StoreConfig) -> Gcs {
    let mut builder = Gcs::default().bucket(&url.authority).root(&url.path);
    if let Some(endpoint) = &config.endpoint {
        builder = builder.endpoint(endpoint);
    }
    match &config.service_account {
        Some(json) => {
            let encoded = base64::engine::general_purpose::STANDARD.encode(json.expose());
            builder.credential(&encoded).disable_config_load().disable_vm_metadata()
        }
        None => builder,
    }
}

fn azblob(url: &StoreUrl, config: &StoreConfig) -> Azblob {
    Azblob::default()
        .container(&url.authority)
        .root(&url.path)
        .endpoint(config.endpoint.as_deref().unwrap_or_default())
        .account_name(text(config.account_name.as_ref()))
        .account_key(text(config.account_key.as_ref()))
}

fn oss(url: &StoreUrl, config: &StoreConfig) -> Oss {
    Oss::default()
        .bucket(&url.authority)
        .root(&url.path)
        .endpoint(config.endpoint.as_deref().unwrap_or_default())
        .access_key_id(text(config.access_key_id.as_ref()))
        .access_key_secret(text(config.secret_access_key.as_ref()))
}

/// Tries what the cloud will need: to list, to write, to write only what is not there, to remove.
pub(super) async fn probe(operator: &Operator) -> Result<()> {
    let mut lister = operator.lister_with("/").limit(1).await.map_err(told)?;
    lister.next().await.transpose().map_err(told)?;
    let key = format!("{}/probe-{}", super::super::UNNAMED, crate::random::word::<12>()?);
    let write = || operator.write_with(&key, b"probe".to_vec()).if_not_exists(true);
    write().await.map_err(told)?;
    let again = write().await;
    operator.delete(&key).await.map_err(told)?;
    match again {
        Err(error) if error.kind() == ErrorKind::ConditionNotMatch => Ok(()),
        Err(error) => Err(told(error)),
        Ok(_) => {
            let message = "the store overwrites a file although it was told not to \
                           (If-None-Match): use one that keeps to it";
            Err(Error::new(Kind::Unsupported, message))
        }
    }
}

/// What an administrator has to mend.
fn told(error: opendal::Error) -> Error {
    let text = error.to_string();
    let (kind, message) = match error.kind() {
        ErrorKind::ConfigInvalid | ErrorKind::NotFound => (
            Kind::NotFound,
            "the store has no such bucket: make it, or name another one in `files:`",
        ),
        ErrorKind::PermissionDenied if text.contains("AccessDenied") => {
            (Kind::Forbidden, "the store's keys may not list, write or remove there")
        }
        ErrorKind::PermissionDenied => {
            (Kind::Unauthenticated, "the store refuses the credentials: look at `store:`")
        }
        _ if error.is_temporary() || is_unreachable(&error) => {
            (Kind::Unavailable, "the store cannot be reached: look at `store.endpoint`")
        }
        _ => (Kind::Io, "the store cannot be used"),
    };
    Error::new(kind, message).because(error)
}
