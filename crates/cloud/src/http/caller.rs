//! Who makes a request, by the token it carries. The original's clients send `Token`, scripts may
//! send `Bearer`; a name and a password (`Basic`) are taken too, as the original's server does.

use super::Refusal;
use super::connection::network;
use crate::Cloud;
use crate::config::origin;
use crate::users::service;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use contract::{Error, Kind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Somebody who proved who they are.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Their name.
    pub(crate) username: String,
    /// Whether they are an administrator.
    pub(crate) is_admin: bool,
    /// The token's public number; empty where a password was sent.
    pub(crate) token: String,
    /// When the token ends.
    pub(crate) expires_ms: u64,
    /// Where they call from.
    pub(crate) address: IpAddr,
}

/// A caller who is an administrator.
pub(crate) struct Admin(pub(crate) Caller);

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address(pub(crate) IpAddr);

impl FromRequestParts<Arc<Cloud>> for Address {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, cloud: &Arc<Cloud>) -> Result<Self, Refusal> {
        let info = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let peer = info.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |info| info.0.ip());
        let values = parts.headers.get_all("x-forwarded-for").into_iter();
        let forwarded: Vec<&str> = values.map(|value| value.to_str().unwrap_or_default()).collect();
        Ok(Address(origin(peer, &forwarded.join(","), &cloud.config.proxies)))
    }
}

impl Address {
    /// Counts a request of somebody who has not proved who they are.
    pub(crate) fn admit(self, cloud: &Cloud) -> Result<(), Refusal> {
        cloud.rate.admit(&self.key())
    }

    /// They have proved it, and are counted by their name.
    pub(crate) fn refund(self, cloud: &Cloud) {
        cloud.rate.refund(&self.key());
    }

    /// No user's name has a blank.
    fn key(self) -> String {
        format!("from {}", network(self.0))
    }
}

impl FromRequestParts<Arc<Cloud>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, cloud: &Arc<Cloud>) -> Result<Self, Refusal> {
        let from = Address::from_request_parts(parts, cloud).await?;
        let address = from.0;
        let caller = match credentials(&parts.headers)? {
            Credentials::Token(token) => service::caller_of_token(cloud, &token, address).await?,
            Credentials::Password { username, password } => {
                service::caller_of_password(cloud, &username, &password, address).await?
            }
        };
        from.refund(cloud);
        cloud.rate.queue(&caller.username).await?;
        Ok(caller)
    }
}

impl FromRequestParts<Arc<Cloud>> for Admin {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, cloud: &Arc<Cloud>) -> Result<Self, Refusal> {
        let caller = Caller::from_request_parts(parts, cloud).await?;
        caller.check_admin()?;
        Ok(Admin(caller))
    }
}

impl Caller {
    /// Refuses everybody but administrators.
    pub(crate) fn check_admin(&self) -> contract::Result<()> {
        match self.is_admin {
            true => Ok(()),
            false => Err(Error::new(Kind::Forbidden, "this is for administrators")
                .with("user", &self.username)),
        }
    }
}

enum Credentials {
    Token(String),
    Password { username: String, password: String },
}

fn credentials(headers: &HeaderMap) -> contract::Result<Credentials> {
    let refuse = |message: &str| Error::new(Kind::Unauthenticated, message);
    let Some(value) = headers.get(header::AUTHORIZATION) else {
        return Err(refuse("log in first: the request has no token"));
    };
    let text = value.to_str().map_err(|_| refuse("the Authorization header cannot be read"))?;
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    match scheme.to_ascii_lowercase().as_str() {
        "token" | "bearer" => Ok(Credentials::Token(rest.trim().to_owned())),
        "basic" => {
            let decoded = STANDARD.decode(rest.trim()).ok();
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            let (username, password) = decoded
                .as_deref()
                .and_then(|text| text.split_once(':'))
                .ok_or_else(|| refuse("the Authorization header cannot be read"))?;
            Ok(Credentials::Password {
                username: username.to_owned(),
                password: password.to_owned(),
            })
        }
        _ => Err(refuse("use `Authorization: Token …`")),
    }
}
