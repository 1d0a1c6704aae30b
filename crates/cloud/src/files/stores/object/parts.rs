//! Parts of files in S3 that a killed server did not finish: nobody sees them, and they are paid for.
//!
//! OpenDAL has no call for them, so the two requests are made here: the list of what is under way in
//! the bucket, and the end of one. Only what is below our own keys is touched.

use super::carrier::carrier;
use super::connect::REGION;
use crate::config::{Credential, Scheme, StoreConfig, StoreUrl};
use contract::{Error, Kind, Result};
use http::{Method, Request};
use opendal::{Buffer, HttpTransporter};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use reqsign_aws_v4::{DefaultCredentialProvider, RequestSigner, StaticCredentialProvider};
use reqsign_core::{Context, OsEnv, Signer};
use std::time::Duration;

/// The uploads of one bucket.
pub(super) struct Parts {
    transport: HttpTransporter,
    signer: Signer<reqsign_aws_v4::Credential>,
    /// The bucket's own URL.
    bucket: String,
    /// What our keys begin with.
    tops: [String; 2],
}

/// Pages of a list that are read in one sweep.
const PAGES_MAX: usize = 100;
/// What a key keeps in a URL.
const KEY: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl Parts {
    /// For S3; others remove them by themselves or by a rule of the bucket.
    pub(super) fn of(url: &StoreUrl, config: &StoreConfig) -> Option<Self> {
        if url.scheme != Scheme::S3 {
            return None;
        }
        let region = config.region.as_deref().unwrap_or(REGION);
        let context = Context::new().with_http_send(carrier()).with_env(OsEnv);
        let request = RequestSigner::new("s3", region);
        let text = |credential: &Option<Credential>| {
            credential.as_ref().map_or("", Credential::expose).to_owned()
        };
        let signer = match config.access_key_id {
            Some(_) => {
                let (id, key) = (text(&config.access_key_id), text(&config.secret_access_key));
                let given = StaticCredentialProvider::new(&id, &key);
                let given = match &config.session_token {
                    Some(token) => given.with_session_token(token.expose()),
                    None => given,
                };
                Signer::new(context, given, request)
            }
            None => Signer::new(context, DefaultCredentialProvider::new(), request),
        };
        let endpoint = match &config.endpoint {
            Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
            None => format!("https://s3.{region}.amazonaws.com"),
        };
        let prefix = match url.path.is_empty() {
            true => String::new(),
            false => format!("{}/", url.path),
        };
        Some(Parts {
            transport: carrier(),
            signer,
            bucket: format!("{endpoint}/{}", url.authority),
            tops: [format!("{prefix}home/"), format!("{prefix}public/")],
        })
    }

    /// Ends uploads that began so long ago; how many.
    pub(super) async fn sweep(&self, age: Duration) -> Result<u64> {
        let mut removed = 0;
        let mut from = String::new();
        for _ in 0..PAGES_MAX {
            let query = format!("{}?uploads&encoding-type=url{from}", self.bucket);
            let answer = self.ask(Method::GET, &query).await?;
            for upload in answer.split("<Upload>").skip(1) {
                let (Some(key), Some(id), Some(begun)) = (
                    between(upload, "Key"),
                    between(upload, "UploadId"),
                    between(upload, "Initiated"),
                ) else {
                    continue;
                };
                // As in a form: a space is a plus.
                let key = key.replace('+', " ");
                let key = percent_decode_str(&key).decode_utf8_lossy().into_owned();
                if self.tops.iter().any(|top| key.starts_with(top.as_str())) && is_old(begun, age) {
                    let key = utf8_percent_encode(&key, KEY);
                    let id = utf8_percent_encode(id, NON_ALPHANUMERIC);
                    let target = format!("{}/{key}?uploadId={id}", self.bucket);
                    self.ask(Method::DELETE, &target).await?;
                    removed += 1;
                }
            }
            if between(&answer, "IsTruncated") != Some("true") {
                break;
            }
            let key = between(&answer, "NextKeyMarker").unwrap_or_default();
            let id = between(&answer, "NextUploadIdMarker").unwrap_or_default();
            let id = utf8_percent_encode(id, NON_ALPHANUMERIC);
            // It is encoded already, as all keys of the list.
            from = format!("&key-marker={key}&upload-id-marker={id}");
        }
        Ok(removed)
    }

    async fn ask(&self, method: Method, url: &str) -> Result<String> {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(Kind::Unavailable, "the store's unfinished uploads cannot be listed")
                .because(source)
        };
        let request = Request::builder().method(method).uri(url).body(Buffer::new());
        let (mut head, body) = request.map_err(|error| failed(error.into()))?.into_parts();
        self.signer.sign(&mut head, None).await.map_err(|error| failed(error.into()))?;
        let sent = self.transport.send(Request::from_parts(head, body));
        let answer = tokio::time::timeout(super::connect::REQUEST, sent)
            .await
            .map_err(|error| failed(error.into()))?
            .map_err(|error| failed(error.into()))?;
        let status = answer.status();
        let text = String::from_utf8_lossy(&answer.into_body().to_bytes()).into_owned();
        match status.is_success() {
            true => Ok(text),
            false => Err(failed(format!("{status}: {text}").into())),
        }
    }
}

/// What is between a tag and its end. Keys are encoded for URLs, so nothing else needs to be.
fn between<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    rest.split_once(&format!("</{tag}>")).map(|(value, _)| value)
}

fn is_old(begun: &str, age: Duration) -> bool {
    let Ok(begun) = begun.parse::<jiff::Timestamp>() else { return false };
    let passed = jiff::Timestamp::now().duration_since(begun);
    Duration::try_from(passed).is_ok_and(|passed| passed >= age)
}
