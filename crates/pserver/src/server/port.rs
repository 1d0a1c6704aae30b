//! One port: accepts connections, feeds the shard, hands replies to the links, watches the clock.

use super::link::Link;
use super::saver::Saver;
use super::{Checkpointing, ServerConfig};
use crate::checkpoint::{self, Directory, Which, mark};
use crate::message::{Join, Verb};
use crate::metrics::Metrics;
use crate::shard::{CutFacts, Part, Reply, Request, Restore, Saved, Shard, epoch_of};
use contract::ready::Farewell;
use contract::{Error, Kind, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet, LocalSet};
use tokio::time::Interval;
use wire::{Acceptor, Body, Connection, Frame, Header, Listener};

const TICK: Duration = Duration::from_millis(200);
/// How long replies to a job that has ended may take to leave.
const FAREWELL: Duration = Duration::from_secs(5);
/// Requests of one connection that are handled before others get their turn.
const REQUESTS_PER_TURN: usize = 32;
/// Copies made for a checkpoint under way beyond which requests wait for the disk.
const DISPLACED_BYTES_MAX: usize = 512 << 20;
/// How often it is said that the disk takes nothing of a checkpoint.
const STUCK_SAID_EVERY: Duration = Duration::from_secs(60);
/// How long it may take nothing until a server that ends does not wait for it any more: for its
/// last checkpoint, and for one that was under way when the job failed.
const STUCK_MAX: Duration = Duration::from_secs(600);
const STUCK_FAILED_MAX: Duration = Duration::from_secs(60);

/// Serves one port until the job is over, a stop is signalled, or it cannot go on.
pub(super) fn serve(
    listeners: Vec<TcpListener>,
    acceptor: Acceptor,
    config: &ServerConfig,
    stops: [watch::Receiver<bool>; 2],
) -> Result<Farewell> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| Error::io("cannot start the runtime of a port", source))?;
    LocalSet::new().block_on(&runtime, async {
        let mut number = 0;
        let mut open = Vec::new();
        for listener in listeners {
            let place = |source| Error::io("cannot listen", source);
            listener.set_nonblocking(true).map_err(place)?;
            number = listener.local_addr().map_err(place)?.port();
            let listener = tokio::net::TcpListener::from_std(listener).map_err(place)?;
            open.push(Listener::Tcp(listener));
        }
        run(number, open, acceptor, config, stops).await
    })
}

/// The same as a future in a [`LocalSet`].
pub(super) async fn run(
    number: u16,
    listeners: Vec<Listener>,
    acceptor: Acceptor,
    config: &ServerConfig,
    stops: [watch::Receiver<bool>; 2],
) -> Result<Farewell> {
    Rc::new(Port::new(number, config)?).run(listeners, acceptor, config, stops).await
}

/// The time by the runtime's clock, which stands still between the events of a simulation.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Where an answer goes.
#[derive(Debug, Clone, Copy)]
struct Token {
    connection: u64,
    request: Header,
}

struct Port {
    shard: RefCell<Shard<Token, Body>>,
    restore: RefCell<Source>,
    /// By number of the connection.
    links: RefCell<BTreeMap<u64, Rc<Link>>>,
    /// Connections so far; they are numbered.
    connections: Cell<u64>,
    connections_max: usize,
    /// One for each connection that may come, in its handshake or later.
    places: Arc<Semaphore>,
    /// The job is over, or has failed.
    has_ended: Notify,
    has_begun_cut: Notify,
    has_saved: Notify,
    is_ending: Cell<bool>,
    /// The newest cut could not be written.
    is_unsaved: Cell<bool>,
    /// A cut is under way that is not on disk.
    is_saving: Cell<bool>,
    /// When the disk last took a part of a cut, and when it was last said that it does not.
    taken: Cell<Instant>,
    stuck_said: Cell<Instant>,
    number: u16,
}

/// Where values come from when the first trainer joins.
struct Source {
    incarnation: u64,
    folder: Option<PathBuf>,
    /// What this server was told.
    which: Option<Which>,
}

impl Restore for Source {
    fn restore(
        &mut self,
        join: &Join,
        put: &mut dyn FnMut(usize, Part<'_>) -> Result<()>,
    ) -> Result<Option<CutFacts>> {
        if let Some(folder) = &self.folder {
            match join.epoch {
                None => mark::leave(folder, epoch_of(self.incarnation)),
                Some(epoch) => mark::expect(folder, epoch)?,
            }
        }
        let wanted = match join.epoch {
            None => self.which,
            Some(epoch) => {
                let is_other = match self.which {
                    None | Some(Which::Common) => false,
                    Some(Which::Latest) => epoch.cut == 0,
                    Some(Which::Cut(cut)) => epoch.cut != cut,
                };
                if is_other {
                    let message = "this server was told another --restore than shard 0, which \
                                   decides; start all servers with the same";
                    return Err(Error::new(Kind::Conflict, message)
                        .with("restore", format_args!("{:?}", self.which))
                        .with("of_shard_0", epoch.cut));
                }
                Some(Which::Cut(epoch.cut))
            }
        };
        match (wanted, &self.folder) {
            (None | Some(Which::Cut(0)), _) | (Some(Which::Common), None) => Ok(None),
            (Some(which), Some(folder)) => {
                Directory { folder: folder.clone(), which }.restore(join, put)
            }
            (Some(Which::Cut(cut)), None) => {
                let message = "shard 0 begins with a checkpoint, and this server has no folder to \
                               find it in; give all servers the same --checkpoint_dir";
                Err(Error::new(Kind::Conflict, message).with("cut", cut))
            }
            (Some(Which::Latest), None) => {
                Err(Error::invalid("there is no folder to restore from; give --checkpoint_dir"))
            }
        }
    }
}

impl Port {
    fn new(number: u16, config: &ServerConfig) -> Result<Self> {
        let mut shard = Shard::new(config.shard(), Metrics::new(number), now());
        if let Some(checkpoint) = &config.checkpoint {
            // Another job's, perhaps: its checkpoints are not overwritten.
            shard.number_cuts_after(checkpoint::newest(&checkpoint.folder)?);
        }
        Ok(Port {
            shard: RefCell::new(shard),
            restore: RefCell::new(Source {
                incarnation: config.incarnation,
                folder: config.checkpoint.as_ref().map(|checkpoint| checkpoint.folder.clone()),
                which: config.restore,
            }),
            links: RefCell::default(),
            connections: Cell::new(0),
            connections_max: config.connections_max,
            places: Arc::new(Semaphore::new(config.connections_max)),
            has_ended: Notify::new(),
            has_begun_cut: Notify::new(),
            has_saved: Notify::new(),
            is_ending: Cell::new(false),
            is_unsaved: Cell::new(false),
            is_saving: Cell::new(false),
            taken: Cell::new(now()),
            stuck_said: Cell::new(now()),
            number,
        })
    }

    async fn run(
        self: Rc<Self>,
        listeners: Vec<Listener>,
        acceptor: Acceptor,
        config: &ServerConfig,
        [mut stop, mut has_failed]: [watch::Receiver<bool>; 2],
    ) -> Result<Farewell> {
        let mut accepting = JoinSet::new();
        for listener in listeners {
            let port = Rc::clone(&self);
            accepting.spawn_local(port.accept(listener, acceptor.clone()));
        }
        let saving = config
            .checkpoint
            .as_ref()
            .map(|checkpoint| tokio::task::spawn_local(Rc::clone(&self).save(checkpoint.clone())));
        let mut ticks = tokio::time::interval(TICK);
        let mut is_whole = true;
        loop {
            tokio::select! {
                // In this order, so that equal runs are equal.
                biased;
                _ = ticks.tick() => {
                    self.shard.borrow_mut().tick(now());
                    self.deliver();
                    self.watch_disk();
                }
                () = self.has_ended.notified() => {}
                _ = stop.wait_for(|stop| *stop) => break,
                _ = has_failed.wait_for(|failed| *failed) => {
                    // The shard of another port is lost: a cut without it would be none.
                    is_whole = false;
                    break;
                }
            }
            let shard = self.shard.borrow();
            if shard.is_over() || shard.failure().is_some() {
                break;
            }
        }
        let is_over = self.shard.borrow().is_over();
        if !is_over {
            accepting.abort_all();
        }
        let outcome = self.shard.borrow().failure().map_or(Ok(()), Err);
        if let Some(saving) = saving {
            self.finish_saving(saving, outcome.is_ok() && is_whole, ticks).await?;
        }
        // Until now: a trainer that was killed on its way out, and was started again, hears here
        // that nothing is left to do.
        accepting.abort_all();
        self.farewell().await;
        let shard = self.shard.borrow();
        outcome.map(|()| Farewell {
            trainers_joined: shard.trainers_joined(),
            was_stopped: !is_over,
            is_unsaved: self.is_unsaved.get(),
            goodbyes: is_over.then(|| shard.goodbyes()),
        })
    }

    /// Waits for the checkpoint under way, and writes another one if the server `ends_well`.
    async fn finish_saving(
        &self,
        mut saving: JoinHandle<()>,
        ends_well: bool,
        mut ticks: Interval,
    ) -> Result<()> {
        self.taken.set(now());
        let finish = async {
            if ends_well {
                while self.shard.borrow().is_cutting() {
                    self.has_saved.notified().await;
                }
                self.shard.borrow_mut().begin_last_cut();
            }
            self.is_ending.set(true);
            self.has_begun_cut.notify_one();
            let saved = (&mut saving).await;
            saved.map_err(|source| Error::new(Kind::Io, "saving failed").because(source))
        };
        tokio::pin!(finish);
        let limit = if ends_well { STUCK_MAX } else { STUCK_FAILED_MAX };
        loop {
            tokio::select! {
                biased;
                saved = &mut finish => return saved,
                _ = ticks.tick() => self.watch_disk(),
            }
            if now().saturating_duration_since(self.taken.get()) > limit {
                let seconds = limit.as_secs();
                tracing::error!(
                    port = self.number,
                    seconds,
                    "the disk takes nothing of the checkpoint, which is given up"
                );
                self.is_unsaved.set(true);
                return Ok(());
            }
        }
    }

    /// Says that a checkpoint under way does not get on.
    fn watch_disk(&self) {
        let waited = now().saturating_duration_since(self.taken.get());
        let said = now().saturating_duration_since(self.stuck_said.get());
        if self.is_saving.get() && waited.min(said) > STUCK_SAID_EVERY {
            self.stuck_said.set(now());
            let seconds = waited.as_secs();
            tracing::warn!(
                port = self.number,
                seconds,
                "waiting for the disk with the checkpoint folder"
            );
        }
    }

    async fn accept(self: Rc<Self>, mut listener: Listener, acceptor: Acceptor) {
        loop {
            let socket = match listener.accept().await {
                Ok(socket) => socket,
                Err(error) => {
                    // Out of file descriptors, most likely: others must end before we go on.
                    tracing::warn!(port = self.number, %error, "cannot accept a connection");
                    tokio::time::sleep(TICK).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
                let connections_max = self.connections_max;
                tracing::warn!(port = self.number, connections_max, "too many connections");
                continue;
            };
            let connection = self.connections.get();
            self.connections.set(connection + 1);
            let (port, acceptor) = (Rc::clone(&self), acceptor.clone());
            tokio::task::spawn_local(async move {
                let _place = place;
                let outcome = match acceptor.accept(socket).await {
                    Ok(established) => port.converse(connection, established).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = outcome {
                    tracing::warn!(port = port.number, error = %error.chain(), "connection ended");
                }
            });
        }
    }

    async fn converse(self: &Rc<Self>, connection: u64, established: Connection) -> Result<()> {
        let Connection { sender, mut receiver, .. } = established;
        let link = Rc::new(Link::default());
        self.links.borrow_mut().insert(connection, Rc::clone(&link));
        let port = Rc::clone(self);
        let writing = tokio::task::spawn_local(Rc::clone(&link).write(sender, move |reply| {
            if let Reply::Message(message) = reply {
                port.shard.borrow_mut().recycle(message.values);
            }
        }));
        let outcome = loop {
            let mut next = match receiver.next().await {
                Ok(Some(frame)) => Some(frame),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let mut handled = 0;
            while let Some(frame) = next.take() {
                self.handle(connection, frame);
                handled += 1;
                if handled < REQUESTS_PER_TURN {
                    match receiver.next_buffered() {
                        Ok(frame) => next = frame,
                        Err(_) => break, // Said again by `next`.
                    }
                }
            }
            while self.shard.borrow().displaced_bytes() > DISPLACED_BYTES_MAX {
                self.has_saved.notified().await;
            }
            link.room().await;
            tokio::task::yield_now().await;
        };
        self.links.borrow_mut().remove(&connection);
        self.shard.borrow_mut().forget(|token| token.connection == connection);
        self.shard.borrow_mut().disconnect(now(), connection);
        link.close();
        // The peer is gone; what could not be written is nobody's loss.
        let _ = writing.await;
        outcome
    }

    fn handle(&self, connection: u64, frame: Frame) {
        let Frame { header: request, incarnation, body } = frame;
        let token = Token { connection, request };
        match Verb::decode(request.kind) {
            Ok(verb) => {
                let request = Request { token, verb, incarnation, connection, body };
                let mut shard = self.shard.borrow_mut();
                shard.handle(now(), request, &mut *self.restore.borrow_mut());
            }
            Err(error) => self.put(token, Reply::Error(error)),
        }
        self.deliver();
    }

    /// Hands out what the shard has to say.
    fn deliver(&self) {
        let mut shard = self.shard.borrow_mut();
        let replies = shard.take_replies();
        if shard.is_cutting() {
            self.has_begun_cut.notify_one();
        }
        if shard.is_over() || shard.failure().is_some() {
            self.has_ended.notify_one();
        }
        drop(shard);
        for (token, reply) in replies {
            self.put(token, reply);
        }
    }

    fn put(&self, token: Token, reply: Reply) {
        if let Some(link) = self.links.borrow().get(&token.connection) {
            link.put(token.request, reply);
        }
    }

    /// Moves checkpoints from the shard to the disk, a piece at a time.
    async fn save(self: Rc<Self>, config: Checkpointing) {
        let mut saver: Option<Saver> = None;
        loop {
            while self.shard.borrow().is_cutting() {
                self.is_saving.set(true);
                self.taken.set(now());
                let join = self.shard.borrow().joined().cloned();
                let Some(join) = join else { break };
                let outcome = match saver.take().map_or_else(|| Saver::start(&config, &join), Ok) {
                    Ok(started) => self.save_cut(saver.insert(started)).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = outcome {
                    // The next cut gets another saver.
                    saver = None;
                    self.is_unsaved.set(true);
                    let error = error.chain();
                    tracing::error!(port = self.number, %error, "cannot write checkpoint");
                    self.give_cut_up().await;
                }
            }
            self.is_saving.set(false);
            if self.is_ending.get() {
                if let Some(saver) = saver {
                    saver.finish();
                }
                return;
            }
            self.has_begun_cut.notified().await;
        }
    }

    /// Drops what is left of the cut under way, so that nobody waits for it.
    async fn give_cut_up(&self) {
        loop {
            let piece = self.shard.borrow_mut().next_saved();
            self.has_saved.notify_waiters();
            if matches!(piece, None | Some(Saved::End)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Writes the cut under way. A disk that fails costs the cut, which is told here; an error is
    /// one of the saver's, which is of no use any more.
    async fn save_cut(&self, saver: &mut Saver) -> Result<()> {
        loop {
            let piece = self.shard.borrow_mut().next_saved();
            self.has_saved.notify_waiters();
            let Some(piece) = piece else { return Ok(()) };
            let is_end = matches!(piece, Saved::End);
            saver.put(piece).await?;
            self.taken.set(now());
            if is_end {
                let done = saver.done().await;
                self.is_unsaved.set(done.is_err());
                match done {
                    Ok(done) => {
                        let cut = done.completed.cut;
                        self.shard.borrow_mut().complete_cut(cut, done.time, done.completed.bytes);
                        tracing::info!(port = self.number, cut, "checkpoint written");
                    }
                    Err(error) => {
                        tracing::error!(port = self.number, error = %error.chain(), "cannot write checkpoint");
                    }
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Lets the last replies leave.
    async fn farewell(&self) {
        for link in self.links.borrow().values() {
            link.close();
        }
        let written = async {
            while self.links.borrow().values().any(|link| !link.is_done()) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // A peer that does not read its last reply does not keep the server alive.
        let _ = tokio::time::timeout(FAREWELL, written).await;
    }
}
