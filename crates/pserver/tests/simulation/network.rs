//! The network: bytes arrive late, in order within a connection and in none between connections,
//! or not at all. And the disk, which may be slow or full.

use crate::plan::Who;
use crate::random::Random;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};
use wire::{Dialling, Socket};

const BUFFER_BYTES: usize = 64 << 10;
const DELAY_MS_MAX: u64 = 12;

#[derive(Debug)]
pub(crate) struct Network(Mutex<State>);

#[derive(Debug)]
struct State {
    random: Random,
    listeners: BTreeMap<String, (Who, UnboundedSender<Socket>)>,
    connections: Vec<(Who, Who, AbortHandle)>,
    silent_until: BTreeMap<Who, Instant>,
    parted_until: BTreeMap<[Who; 2], Instant>,
    disk_full_until: Option<Instant>,
    disk_slow_until: Option<Instant>,
}

/// A process's way into the network.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) network: Arc<Network>,
    pub(crate) who: Who,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Arc<Network> {
        Arc::new(Network(Mutex::new(State {
            random: Random::new(seed ^ 0x6e65_7477),
            listeners: BTreeMap::new(),
            connections: Vec::new(),
            silent_until: BTreeMap::new(),
            parted_until: BTreeMap::new(),
            disk_full_until: None,
            disk_slow_until: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    pub(crate) fn draw(&self, end: u64) -> u64 {
        self.state().random.below(end)
    }

    pub(crate) fn listen(&self, who: Who, address: String) -> UnboundedReceiver<Socket> {
        let (sender, receiver) = unbounded_channel();
        self.state().listeners.insert(address, (who, sender));
        receiver
    }

    /// A process is no more.
    pub(crate) fn forget(&self, who: Who) {
        self.state().listeners.retain(|_, (listener, _)| *listener != who);
    }

    /// All connections of a process break.
    pub(crate) fn disconnect(&self, who: Who) {
        self.state().connections.retain(|(from, to, relay)| {
            let is_of = *from == who || *to == who;
            if is_of {
                relay.abort();
            }
            !is_of && !relay.is_finished()
        });
    }

    pub(crate) fn silence(&self, who: Who, time: Duration) {
        self.state().silent_until.insert(who, Instant::now() + time);
    }

    /// No byte travels between two processes.
    pub(crate) fn part(&self, who: Who, other: Who, time: Duration) {
        self.state().parted_until.insert(sorted([who, other]), Instant::now() + time);
    }

    pub(crate) fn fill_disk(&self, time: Duration) {
        self.state().disk_full_until = Some(Instant::now() + time);
    }

    pub(crate) fn slow_disk(&self, time: Duration) {
        self.state().disk_slow_until = Some(Instant::now() + time);
    }

    /// Waits until no side is silent, nor parted from the other.
    pub(crate) async fn hush(&self, sides: &[Who]) {
        loop {
            let until = {
                let state = self.state();
                let silent = sides.iter().filter_map(|who| state.silent_until.get(who));
                let pair = <[Who; 2]>::try_from(sides).ok().map(sorted);
                let parted = pair.and_then(|pair| state.parted_until.get(&pair));
                silent.chain(parted).max().copied()
            };
            match until {
                Some(until) if until > Instant::now() => sleep_until(until).await,
                _ => return,
            }
        }
    }

    async fn carry(
        self: Arc<Self>,
        sides: [Who; 2],
        mut from: ReadHalf<DuplexStream>,
        mut to: WriteHalf<DuplexStream>,
    ) {
        let mut bytes = vec![0; 4096];
        loop {
            let Ok(count) = from.read(&mut bytes).await else { return };
            sleep(Duration::from_millis(self.draw(DELAY_MS_MAX))).await;
            self.hush(&sides).await;
            if count == 0 || to.write_all(&bytes[..count]).await.is_err() {
                let _ = to.shutdown().await;
                return;
            }
        }
    }
}

fn sorted(mut pair: [Who; 2]) -> [Who; 2] {
    pair.sort_unstable();
    pair
}

impl wire::Dial for Way {
    fn dial<'a>(&'a self, address: &'a str) -> Dialling<'a> {
        Box::pin(async move {
            sleep(Duration::from_millis(1 + self.network.draw(DELAY_MS_MAX))).await;
            let listener = self.network.state().listeners.get(address).cloned();
            let Some((to, sockets)) = listener else {
                return Err(io::ErrorKind::ConnectionRefused.into());
            };
            let sides = [self.who, to];
            self.network.hush(&sides).await;
            let (near, from_near) = tokio::io::duplex(BUFFER_BYTES);
            let (far, from_far) = tokio::io::duplex(BUFFER_BYTES);
            let (near_reader, near_writer) = tokio::io::split(from_near);
            let (far_reader, far_writer) = tokio::io::split(from_far);
            let out = Arc::clone(&self.network).carry(sides, near_reader, far_writer);
            let back = Arc::clone(&self.network).carry(sides, far_reader, near_writer);
            let relay = tokio::spawn(async move { tokio::join!(out, back) }).abort_handle();
            self.network.state().connections.push((self.who, to, relay));
            let name = format!("{:?}", self.who);
            let socket = Socket::Other(Box::new(far), name);
            sockets.send(socket).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            Ok(Box::new(near) as Box<dyn wire::Stream>)
        })
    }
}

impl pserver::server::Disk for Network {
    fn write(&self, bytes: usize) -> Pin<Box<dyn Future<Output = io::Result<()>> + Send + '_>> {
        Box::pin(async move {
            let now = Instant::now();
            let (is_full, is_slow) = {
                let state = self.state();
                let is_until = |until: Option<Instant>| until.is_some_and(|until| until > now);
                (is_until(state.disk_full_until), is_until(state.disk_slow_until))
            };
            let time = 1 + bytes as u64 / 100_000;
            sleep(Duration::from_millis(if is_slow { 700 * time } else { time })).await;
            match is_full {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Ok(()),
            }
        })
    }
}
