//! The way to the master, across connections: dials, asks, and asks again.
//!
//! What is retried: everything that fails because a connection does. That is safe because every
//! request may come twice: the master knows leases by their epochs, and answers a lost task again.
//! What is not retried: whatever the master *says* is its last word.

use super::config::ClientConfig;
use crate::message::{KIND, Request, SERVICE, decode, encode};
use contract::port::Endpoint;
use contract::{Error, Kind, Result};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use wire::{Attempts, Body, Connector, Session, Waiter};

pub(super) struct Link {
    config: ClientConfig,
    address: String,
    connector: Connector,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
    /// Whether the log has said that the master is away.
    is_away: AtomicBool,
}

/// Why an attempt failed, as far as trying again is concerned.
enum Failure {
    /// The connection's fault.
    Broken(Error),
    Final(Error),
}

impl Link {
    pub(super) fn new(config: ClientConfig, address: &Endpoint) -> Result<Link> {
        let endpoint = wire::Endpoint {
            token: config.token.clone(),
            limits: config.limits,
            ..wire::Endpoint::new(SERVICE, config.incarnation)
        };
        let connector = Connector::new(endpoint, config.tls.clone())?.over(config.dial.clone());
        let address = Endpoint::new(address.host(), address.port_or(crate::PORT))?.to_string();
        let (session, is_away) = (tokio::sync::Mutex::default(), AtomicBool::new(false));
        Ok(Link { config, address, connector, session, is_away })
    }

    pub(super) fn config(&self) -> &ClientConfig {
        &self.config
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Connects.
    pub(super) async fn join(&self) -> Result<()> {
        let mut retry = self.config.retry;
        retry.deadline = self.config.connect_deadline.unwrap_or(retry.deadline);
        let mut attempts = retry.start();
        loop {
            match self.session().await {
                Ok(_) => return Ok(()),
                Err(failure) => self.endure(failure, &mut attempts).await?,
            }
        }
    }

    /// The answer to a request that lets the master wait for so long.
    pub(super) async fn ask<T>(&self, request: &Request, wait: Duration) -> Result<T>
    where
        T: DeserializeOwned,
    {
        let body = encode(request)?;
        let mut attempts = self.config.retry.start();
        loop {
            match self.attempt(&body, wait + self.config.silence_max).await {
                Ok(reply) => return decode(&reply),
                Err(failure) => self.endure(failure, &mut attempts).await?,
            }
        }
    }

    /// Tells the master something, if it is there.
    pub(super) async fn ask_once(&self, request: &Request) -> Result<()> {
        let body = encode(request)?;
        match self.attempt(&body, self.config.silence_max).await {
            Ok(_) => Ok(()),
            Err(Failure::Broken(error) | Failure::Final(error)) => Err(self.placed(error)),
        }
    }

    /// Waits before the next attempt; fails when another one makes no sense.
    async fn endure(&self, failure: Failure, attempts: &mut Attempts) -> Result<()> {
        match failure {
            Failure::Final(error) => Err(self.placed(error)),
            Failure::Broken(error) => {
                if !self.is_away.swap(true, Ordering::Relaxed) {
                    let (master, error) = (&self.address, error.chain());
                    tracing::warn!(master, error, "the master is away; waiting for it");
                }
                attempts.pause(error).await.map_err(|error| self.placed(error))
            }
        }
    }

    async fn attempt(&self, body: &[u8], patience: Duration) -> std::result::Result<Body, Failure> {
        let session = self.session().await?;
        let (deliveries, mut delivered) = unbounded_channel();
        let exchange = async {
            session.feed(Waiter { kind: KIND, index: 0, deliveries }, &[body]).await?;
            session.flush().await?;
            match delivered.recv().await {
                Some(delivery) => delivery.reply,
                None => Err(Error::new(Kind::Unavailable, "connection was given up")),
            }
        };
        let outcome = tokio::time::timeout(patience, exchange).await.unwrap_or_else(|_| {
            Err(Error::new(Kind::Timeout, "the master owes an answer for too long")
                .with("waited_s", patience.as_secs_f32()))
        });
        match outcome {
            Ok(reply) => reply.map_err(Failure::Final),
            Err(error) if error.kind() == Kind::LimitExceeded => Err(Failure::Final(error)),
            Err(error) => {
                session.give_up(&error);
                Err(Failure::Broken(error))
            }
        }
    }

    /// The connection, made anew if there is none or it is broken.
    async fn session(&self) -> std::result::Result<Arc<Session>, Failure> {
        let mut slot = self.session.lock().await;
        if let Some(session) = &*slot
            && !session.is_broken()
        {
            return Ok(Arc::clone(session));
        }
        *slot = None;
        let connection = self.connector.dial(&self.address).await.map_err(|error| {
            match wire::may_pass(error.kind()) {
                true => Failure::Broken(error),
                false => Failure::Final(error),
            }
        })?;
        if self.is_away.swap(false, Ordering::Relaxed) {
            tracing::info!(master = self.address, "the master is back");
        }
        let session = Arc::new(Session::start(connection));
        *slot = Some(Arc::clone(&session));
        Ok(session)
    }

    fn placed(&self, error: Error) -> Error {
        let is_placed = error.context().any(|(key, _)| key == "peer");
        if is_placed { error } else { error.with("master", &self.address) }
    }
}
