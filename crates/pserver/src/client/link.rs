//! One port of one server, across connections: dials, joins, asks, and asks again.
//!
//! What is retried: everything that fails because a connection does. Requests that were not
//! answered are sent again, in their order, on the next connection. That is safe because pushes
//! carry sequence numbers by which the shard applies each once, and all else may be asked twice.
//! What is not retried: whatever a server *says*, of whatever kind, is its last word.

use super::config::{Addresses, ClientConfig};
use super::plan::Request;
use super::progress::Progress;
use crate::brain_float;
use crate::message::{
    Epoch, FLAG_LAST, Head, Join, Joined, Payload, ValueType, Verb, decode_json, encode_json,
};
use contract::{Error, Kind, Result};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use wire::{Body, Connection, Connector, Delivery, Header, Retry, Session, Waiter, fault};

/// What all links share.
pub(super) struct Shared {
    pub(super) config: ClientConfig,
    pub(super) addresses: Box<dyn Addresses>,
    pub(super) connector: Connector,
    pub(super) servers: u32,
    /// The newest checkpoint cut heard of, and its version; repeated to every shard.
    pub(super) cut: Mutex<(u64, u64)>,
    /// What shard 0 has said; every request carries its number.
    pub(super) epoch: OnceLock<Epoch>,
}

pub(super) struct Link {
    shared: Arc<Shared>,
    server: u32,
    port: u32,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
    progress: Mutex<Progress>,
}

/// Why an attempt failed, as far as trying again is concerned.
pub(super) enum Failure {
    /// The connection's fault.
    Broken(Error),
    Final(Error),
}

/// Takes the answer to one of several requests.
pub(super) type Take<'a> = &'a mut (dyn FnMut(usize, Body) -> Result<()> + Send);

impl Link {
    pub(super) fn new(shared: Arc<Shared>, server: u32, port: u32) -> Link {
        let (session, progress) = (tokio::sync::Mutex::default(), Mutex::default());
        Link { shared, server, port, session, progress }
    }

    /// Asks all at once and takes the answers as they come, again on a new connection when one
    /// breaks. Requests of one call arrive in their order.
    pub(super) async fn exchange(&self, requests: &[Request<'_>], take: Take<'_>) -> Result<()> {
        self.exchange_until(requests, take, None).await
    }

    /// Joins if that was not done yet.
    pub(super) async fn join(&self) -> Result<()> {
        self.exchange(&[], &mut |_, _| Ok(())).await
    }

    /// Says that this trainer leaves.
    pub(super) async fn begin_leave(&self) -> Result<()> {
        self.exchange(&[Request::of(Verb::Goodbye, Head::default())], &mut |_, _| Ok(())).await
    }

    /// Leaves for good. The server may end as soon as it has heard, so that one which cannot be
    /// found after the goodbye was sent has heard it, and so has one that our predecessor, who had
    /// begun to leave, may have told.
    pub(super) async fn leave(&self, had_left: bool) -> Result<()> {
        let goodbye = [Request::of(Verb::Goodbye, Head { flags: FLAG_LAST, ..Head::default() })];
        self.exchange_until(&goodbye, &mut |_, _| Ok(()), Some(had_left)).await?;
        self.progress().has_left = true;
        *self.session.lock().await = None;
        Ok(())
    }

    /// Keeps the shard informed that we live, and notices when it does not.
    pub(super) async fn keep_alive(self: Arc<Self>) {
        let config = &self.shared.config;
        loop {
            tokio::time::sleep(config.heartbeat_interval).await;
            if self.progress().has_left {
                return;
            }
            // Failures are met again, and told, by the next operation.
            let Ok(session) = self.session().await else { continue };
            let request = [Request::of(Verb::Heartbeat, Head::default())];
            let mut answered = [false];
            let mut take = |_, body| self.read(body).map(|_| ());
            let beat = self.attempt(&session, &request, &mut answered, &mut take);
            match tokio::time::timeout(config.silence_max, beat).await {
                Ok(Ok(())) => {}
                Ok(Err(Failure::Broken(error) | Failure::Final(error))) => {
                    tracing::debug!(server = self.server, error = %error.chain(), "no heartbeat");
                }
                Err(_) if session.heard().elapsed() < config.silence_max => {}
                Err(_) => session.give_up(&Error::new(Kind::Timeout, "server is silent")),
            }
        }
    }

    /// Reads a reply and hears what it says of checkpoints.
    pub(super) fn read(&self, body: Body) -> Result<Payload<Body>> {
        let payload = Payload::decode(body)?;
        self.shared.hear_cut(payload.head.cut, payload.head.cut_version);
        Ok(payload)
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        // Nothing in here panics halfway.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says which server an error is about.
    pub(super) fn placed(&self, error: Error) -> Error {
        match self.address() {
            Ok(address) => error.with("server", address),
            Err(_) => error.with("server", self.server),
        }
    }

    async fn exchange_until(
        &self,
        requests: &[Request<'_>],
        take: Take<'_>,
        was_told: Option<bool>,
    ) -> Result<()> {
        let mut attempts = self.retry().start();
        let mut answered = vec![false; requests.len()];
        let mut was_sent = was_told == Some(true);
        loop {
            let before = answered.iter().filter(|answered| **answered).count();
            let outcome = match self.session().await {
                Ok(session) => {
                    was_sent = true;
                    self.attempt(&session, requests, &mut answered, take).await
                }
                Err(Failure::Broken(_)) if was_told.is_some() && was_sent => return Ok(()),
                Err(failure) => Err(failure),
            };
            match outcome {
                Ok(()) => return Ok(()),
                Err(Failure::Final(error)) => return Err(self.placed(error)),
                Err(Failure::Broken(error)) => {
                    if answered.iter().filter(|answered| **answered).count() > before {
                        attempts.progressed();
                    }
                    tracing::debug!(server = self.server, error = %error.chain(), "will try again");
                    attempts.pause(error).await.map_err(|error| self.placed(error))?;
                }
            }
        }
    }

    /// When to give up: sooner while the server was never reached.
    fn retry(&self) -> Retry {
        let ClientConfig { retry, first_contact, .. } = &self.shared.config;
        match first_contact.filter(|_| !self.progress().has_joined()) {
            Some(deadline) => Retry { deadline, ..*retry },
            None => *retry,
        }
    }

    /// Sends what is not answered and takes answers, at the same time.
    async fn attempt(
        &self,
        session: &Session,
        requests: &[Request<'_>],
        answered: &mut [bool],
        take: Take<'_>,
    ) -> std::result::Result<(), Failure> {
        let (deliveries, mut delivered) = unbounded_channel::<Delivery>();
        let open: Vec<usize> = (0..requests.len()).filter(|index| !answered[*index]).collect();
        let sending = async {
            // Dropped at the end, so that the receiver learns when no answer can come any more.
            let deliveries = deliveries;
            let mut narrowed = Vec::new();
            for &index in &open {
                let waiter = Waiter {
                    kind: requests[index].verb as u16,
                    index,
                    deliveries: deliveries.clone(),
                };
                self.send(session, &requests[index], waiter, &mut narrowed).await?;
            }
            session.flush().await.map_err(Failure::Broken)
        };
        let receiving = async {
            for _ in &open {
                let Delivery { index, reply } = delivered.recv().await.ok_or_else(|| {
                    Failure::Broken(Error::new(Kind::Unavailable, "connection was given up"))
                })?;
                let body = reply.map_err(Failure::Broken)?.map_err(Failure::Final)?;
                take(index, body).map_err(Failure::Final)?;
                answered[index] = true;
            }
            Ok(())
        };
        let outcome = tokio::try_join!(receiving, sending).map(|_| ());
        if let Err(Failure::Broken(error)) = &outcome {
            session.give_up(error);
        }
        outcome
    }

    async fn send(
        &self,
        session: &Session,
        request: &Request<'_>,
        waiter: Waiter,
        narrowed: &mut Vec<u8>,
    ) -> std::result::Result<(), Failure> {
        let (cut, cut_version) = *self.shared.cut();
        let epoch = self.shared.epoch.get().map_or(0, |epoch| epoch.number);
        let rank = self.shared.config.rank;
        let head = Head { cut, cut_version, rank, epoch, ..request.head };
        let heads = crate::message::encode_heads(head, &request.entries);
        let mut parts: Vec<&[u8]> =
            Vec::with_capacity(1 + request.keys.len() + request.values.len());
        parts.push(&heads);
        parts.extend(request.keys.iter().map(|keys| bytemuck::cast_slice::<u64, u8>(keys)));
        if request.value_type() == ValueType::F32 as u16 {
            let values = request.values.iter();
            parts.extend(values.map(|values| bytemuck::cast_slice::<f32, u8>(values)));
        } else {
            narrowed.clear();
            request.values.iter().for_each(|values| brain_float::narrow(values, narrowed));
            parts.push(narrowed);
        }
        session.feed(waiter, &parts).await.map_err(|error| match error.kind() {
            Kind::LimitExceeded => Failure::Final(error),
            _ => Failure::Broken(error),
        })
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
        let session = Arc::new(self.open().await?);
        *slot = Some(Arc::clone(&session));
        Ok(session)
    }

    async fn open(&self) -> std::result::Result<Session, Failure> {
        let address = self.address().map_err(Failure::Broken)?;
        let dialled = self.shared.connector.dial(&address).await;
        let mut connection = dialled.map_err(|error| match wire::may_pass(error.kind()) {
            true => Failure::Broken(error),
            false => Failure::Final(error),
        })?;
        let server = connection.peer.incarnation;
        self.progress().check_server(server).map_err(Failure::Final)?;
        let body = self.introduce(&mut connection).await?;
        let joined: Joined = decode_json(&body).map_err(Failure::Final)?;
        self.agree(&joined).map_err(Failure::Final)?;
        self.progress().join(&joined, server);
        Ok(Session::start(connection))
    }

    /// Takes the word of shard 0 for the epoch, and nobody else's.
    fn agree(&self, joined: &Joined) -> Result<()> {
        let epoch = self.shared.epoch.get_or_init(|| joined.epoch);
        if !epoch.is_same(&joined.epoch) {
            let message = "server is of another epoch than shard 0; start all servers again with \
                           the same --restore, and then the trainers";
            return Err(Error::new(Kind::Conflict, message)
                .with("epoch", joined.epoch.number)
                .with("of_shard_0", epoch.number));
        }
        if let Some((cut, version)) = joined.announced {
            self.shared.hear_cut(cut, version);
        }
        Ok(())
    }

    async fn introduce(&self, connection: &mut Connection) -> std::result::Result<Body, Failure> {
        let join = encode_json(&self.introduction()).map_err(Failure::Final)?;
        let header = Header::new(Verb::Join as u16, 0);
        connection.sender.send(header, &[&join]).await.map_err(|error| match error.kind() {
            Kind::LimitExceeded => Failure::Final(error),
            _ => Failure::Broken(error),
        })?;
        let timeout: Duration = self.shared.config.join_timeout;
        let frame = tokio::time::timeout(timeout, connection.receiver.next()).await;
        let frame = frame.map_err(|_| {
            let slow = Error::new(Kind::Timeout, "server took too long to let the trainer join");
            Failure::Broken(slow.with("join_timeout_s", timeout.as_secs_f32()))
        })?;
        let frame = frame.map_err(Failure::Broken)?.ok_or_else(|| {
            Failure::Broken(Error::new(Kind::Unavailable, "server closed the connection"))
        })?;
        match frame.header.is_error() {
            true => Err(Failure::Final(fault::decode(&frame.body))),
            false => Ok(frame.body),
        }
    }

    fn introduction(&self) -> Join {
        let Shared { config, servers, .. } = &*self.shared;
        Join {
            rank: config.rank,
            trainers: config.trainers,
            server: self.server,
            servers: *servers,
            port: self.port,
            dense_ports: config.ports.dense.into(),
            sparse_ports: config.ports.sparse.into(),
            model: config.model.clone(),
            epoch: self.shared.epoch.get().copied(),
            lag_ratio_max: config.lag_ratio_max,
            attempt: config.attempt,
        }
    }

    fn address(&self) -> Result<String> {
        let addresses = self.shared.addresses.addresses();
        let endpoint = addresses.get(self.server as usize).ok_or_else(|| {
            Error::new(Kind::Unavailable, "the list of servers has become shorter")
                .with("server", self.server)
                .with("servers", addresses.len())
        })?;
        self.shared.config.address(endpoint, self.port)
    }
}

impl Shared {
    pub(super) fn cut(&self) -> MutexGuard<'_, (u64, u64)> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hear_cut(&self, cut: u64, version: u64) {
        let mut known = self.cut();
        if cut > known.0 {
            *known = (cut, version);
        }
    }
}
