//! A step of training: gradients out, values in.

use super::link::Link;
use super::plan::{Plan, Request};
use super::split::Rows;
use super::{Client, Pull, PullStyle, PushReport, Value};
use crate::message::{
    FLAG_AVERAGED, FLAG_DROPPED, FLAG_DUPLICATE, FLAG_LAST, FLAG_READ_ONLY, Head, Joined, Payload,
    Verb,
};
use contract::mode::Mode;
use contract::{Error, Kind, Result};
use futures_util::future::try_join_all;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use table::gradient::Gradient;
use table::model::ModelIndex;
use wire::Body;

impl Client {
    /// Pushes the gradients of one step, which was computed from `samples` samples, and waits until
    /// every shard has them. A parameter may be missing, and then gets no gradient.
    ///
    /// Slices are checked before anything is sent. A later failure (a server says no, or cannot be
    /// reached for too long) and dropping the future leave a step that some shards have and some
    /// have not: every further push is then refused with `Conflict`.
    pub async fn push(&self, gradients: &[Gradient<'_>], samples: u64) -> Result<PushReport> {
        self.push_pull(gradients, samples, &mut []).await
    }

    /// Pulls values. Sync: those after the last push, waiting for the other trainers' gradients.
    pub async fn pull(&self, pulls: &mut [Pull<'_>]) -> Result<()> {
        self.pull_with(pulls, PullStyle::default()).await
    }

    /// Pulls values in some style.
    pub async fn pull_with(&self, pulls: &mut [Pull<'_>], style: PullStyle) -> Result<()> {
        let rows = self.wanted_rows(pulls)?;
        let mut requests = Vec::with_capacity(self.links.len());
        for (number, link) in self.links.iter().enumerate() {
            // What is only looked at, to be saved perhaps, is exact.
            let Plan { mut dense, sparse } =
                Plan::wanted(&self.layout, number, pulls, &rows, style.is_read_only)?;
            dense.extend(sparse);
            let version = link.progress().steps;
            dense.iter_mut().for_each(|request| request.head = pull_head(version, style));
            requests.push(dense);
        }
        let pulls = Mutex::new(pulls);
        self.ask(&requests, &|link, request, reply| fill(link, request, reply, &pulls)).await?;
        drop(requests);
        self.keep_buffers(rows);
        Ok(())
    }

    /// Pushes a step and pulls the values after it, in one stream to each shard: a block's new
    /// values come back while later blocks are still on their way out. Errors as of
    /// [`Client::push`].
    pub async fn push_pull(
        &self,
        gradients: &[Gradient<'_>],
        samples: u64,
        pulls: &mut [Pull<'_>],
    ) -> Result<PushReport> {
        self.push_pull_part(Part::Whole, gradients, samples, pulls).await
    }

    /// As [`Client::push_pull`], for a part of a step: gradients and pulls of the other part must not
    /// be among those given. Both parts of a step may be under way at the same time; a step is
    /// delivered when both are, and the next one must not begin before. Only where
    /// [`Client::can_overlap`].
    pub async fn push_pull_part(
        &self,
        part: Part,
        gradients: &[Gradient<'_>],
        samples: u64,
        pulls: &mut [Pull<'_>],
    ) -> Result<PushReport> {
        if part != Part::Whole && !self.can_overlap() {
            let message = "steps of this model cannot be pushed in parts: rows need ports of their \
                           own, and a mode that does not wait for others";
            return Err(Error::new(Kind::Unsupported, message));
        }
        self.layout.check_once(gradients.iter().map(|gradient| *gradient.parameter()))?;
        let is_unique = self.shared.config.keys_are_unique;
        let given = self.given_rows(gradients, is_unique)?;
        let wanted = self.wanted_rows(pulls)?;
        let is_same_order = dense_parameters(gradients).eq(wanted_parameters(pulls));

        let mut stepping = self.stepping.lock(part).await;
        if stepping.is_stuck() {
            return Err(Error::new(
                Kind::Conflict,
                "an earlier push was interrupted or failed halfway; start the trainer again",
            ));
        }
        if self.is_resting.load(Ordering::Relaxed) {
            let message = "this trainer rests, so that no step waits for it; it has to wake first";
            return Err(Error::new(Kind::Conflict, message));
        }
        let mut requests = Vec::with_capacity(self.links.len());
        for (number, link) in self.links.iter().enumerate() {
            if !self.is_of(part, number) {
                requests.push(Vec::new());
                continue;
            }
            let pushes = Plan::given(Verb::Push, &self.layout, number, gradients, &given)?;
            let mut pulled = Plan::wanted(&self.layout, number, pulls, &wanted, false)?;
            let is_next_begun = part == Part::Rows { is_next_begun: true };
            let used_after = link.progress().steps + 1 + u64::from(is_next_begun);
            let head = pull_head(used_after, PullStyle::default());
            let all = pulled.dense.iter_mut().chain(&mut pulled.sparse);
            all.for_each(|request| request.head = head);
            let pushes = number_pushes(link, pushes, samples, is_next_begun);
            requests.push(one_stream(pushes, pulled, is_same_order));
        }
        let (report, pulls) = (Mutex::new(PushReport::default()), Mutex::new(pulls));
        stepping.set(true);
        let take = |link: &Link, request: &Request<'_>, reply: &Payload<Body>| {
            if request.verb == Verb::Pull {
                return fill(link, request, reply, &pulls);
            }
            let (sent, head) = (&request.head, &reply.head);
            let is_last = sent.flags & FLAG_LAST != 0;
            link.progress().acknowledge(sent.sequence, head.version, is_last);
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            report.duplicates += u64::from(head.flags & FLAG_DUPLICATE != 0);
            report.dropped += u64::from(head.flags & FLAG_DROPPED != 0);
            Ok(())
        };
        self.ask(&requests, &take).await?;
        stepping.set(false);
        drop(stepping);
        drop(requests);
        self.keep_buffers(given);
        self.keep_buffers(wanted);
        Ok(report.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the rows of a step may be on their way while the next step is computed: they lie on
    /// ports of their own, and do not wait for other trainers' rows. With a staleness of 0 they do.
    pub fn can_overlap(&self) -> bool {
        let config = &self.shared.config;
        let mut sparse = config.model.parameters.iter().filter(|one| one.shape.is_sparse());
        let is_apart = config.ports.sparse > 0 && sparse.clone().next().is_some();
        is_apart
            && sparse.all(|parameter| match parameter.mode {
                Mode::Async => true,
                Mode::Stale(steps) => steps > 0,
                Mode::Sync | Mode::Hybrid => false,
            })
    }

    fn is_of(&self, part: Part, link: usize) -> bool {
        match part {
            Part::Whole => true,
            Part::Dense => self.layout.shard(link, false).is_some(),
            Part::Rows { .. } => self.layout.shard(link, true).is_some(),
        }
    }

    /// Sets values as they are: trainer 0 before [`Client::begin`], or any trainer in mid training.
    /// What the optimizer keeps beside them starts anew. Of a key that repeats the last row counts.
    pub async fn set(&self, values: &[Value<'_>]) -> Result<()> {
        let rows = self.given_rows(values, true)?;
        let are_first = !self.has_begun.load(Ordering::Relaxed);
        let mut requests = Vec::with_capacity(self.links.len());
        for (number, link) in self.links.iter().enumerate() {
            // An earlier process of trainer 0 has set the first values there, and training has begun.
            let has_first = |joined: &Joined| !joined.needs_values;
            if are_first && link.progress().joined.as_ref().is_some_and(has_first) {
                requests.push(Vec::new());
                continue;
            }
            let Plan { mut dense, sparse } =
                Plan::given(Verb::Set, &self.layout, number, values, &rows)?;
            dense.extend(sparse);
            requests.push(dense);
        }
        self.ask(&requests, &|_, _, _| Ok(())).await?;
        self.has_set.store(true, Ordering::Relaxed);
        drop(requests);
        self.keep_buffers(rows);
        Ok(())
    }

    /// Sends each link its requests, all at the same time.
    pub(super) async fn ask(&self, requests: &[Vec<Request<'_>>], take: Take<'_>) -> Result<()> {
        let asked = self.links.iter().zip(requests).filter(|(_, requests)| !requests.is_empty());
        let exchanges = asked.map(|(link, requests)| async move {
            let mut take = |index: usize, body| take(link, &requests[index], &link.read(body)?);
            link.exchange(requests, &mut take).await
        });
        try_join_all(exchanges).await.map(|_| ())
    }

    fn given_rows<'a>(
        &self,
        gradients: &[Gradient<'a>],
        is_unique: bool,
    ) -> Result<Vec<Option<Rows<'a>>>> {
        let split = |gradient: &Gradient<'a>| match *gradient {
            Gradient::Dense { parameter, values } => {
                self.layout.placed(parameter)?.check_dense(values.len()).map(|()| None)
            }
            Gradient::Sparse { parameter, keys, values } => {
                let placed = self.layout.placed(parameter)?;
                let width = placed.check_sparse(keys, values.len())?;
                let placement = (placed.name_hash, self.layout.sparse_shards());
                let given = (keys, values);
                Rows::given(given, width, placement, is_unique, self.shelf.take()).map(Some)
            }
        };
        gradients.iter().map(split).collect()
    }

    fn wanted_rows<'a>(&self, pulls: &[Pull<'a>]) -> Result<Vec<Option<Rows<'a>>>> {
        let split = |pull: &Pull<'a>| match pull {
            Pull::Dense { parameter, out } => {
                self.layout.placed(*parameter)?.check_dense(out.len()).map(|()| None)
            }
            Pull::Sparse { parameter, keys, out } => {
                let placed = self.layout.placed(*parameter)?;
                let width = placed.check_sparse(keys, out.len())?;
                let placement = (placed.name_hash, self.layout.sparse_shards());
                Ok(Some(Rows::wanted(keys, width, placement, self.shelf.take())))
            }
        };
        pulls.iter().map(split).collect()
    }

    fn keep_buffers(&self, rows: Vec<Option<Rows<'_>>>) {
        self.shelf.put(rows.into_iter().flatten().map(Rows::into_buffers));
    }
}

/// What a call brings of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All.
    Whole,
    /// What is on ports for dense parameters.
    Dense,
    /// What is on ports for rows.
    Rows {
        /// The next step is computed meanwhile: what is pulled is for the one after it, and as fresh
        /// as bounded staleness wants it then.
        is_next_begun: bool,
    },
}

/// Whose turn it is to push: each part of a step by itself.
#[derive(Default)]
pub(super) struct Stepping {
    dense: tokio::sync::Mutex<bool>,
    rows: tokio::sync::Mutex<bool>,
}

/// The turn of a call; true while its step is on its way, and for ever if it got stuck.
struct Turn<'a>([Option<tokio::sync::MutexGuard<'a, bool>>; 2]);

impl Stepping {
    async fn lock(&self, part: Part) -> Turn<'_> {
        // Always in this order, so that no two wait for each other.
        let dense = match part {
            Part::Rows { .. } => None,
            Part::Whole | Part::Dense => Some(self.dense.lock().await),
        };
        let rows = match part {
            Part::Dense => None,
            Part::Whole | Part::Rows { .. } => Some(self.rows.lock().await),
        };
        Turn([dense, rows])
    }
}

impl Turn<'_> {
    fn is_stuck(&self) -> bool {
        self.0.iter().flatten().any(|is_stepping| **is_stepping)
    }

    fn set(&mut self, is_stepping: bool) {
        self.0.iter_mut().flatten().for_each(|own| **own = is_stepping);
    }
}

/// Takes a reply to a request of a link.
type Take<'a> = &'a (dyn Fn(&Link, &Request<'_>, &Payload<Body>) -> Result<()> + Sync);

fn pull_head(version: u64, style: PullStyle) -> Head {
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let flags = flag(style.is_read_only, FLAG_READ_ONLY) | flag(style.is_averaged, FLAG_AVERAGED);
    Head { version, flags, ..Head::default() }
}

fn fill(
    link: &Link,
    request: &Request<'_>,
    reply: &Payload<Body>,
    pulls: &Mutex<&mut [Pull<'_>]>,
) -> Result<()> {
    link.progress().read(reply.head.version);
    let mut pulls = pulls.lock().unwrap_or_else(PoisonError::into_inner);
    request.fill(reply, &mut pulls)
}

/// Every shard gets a last frame of every step, be it empty: it counts the steps of all trainers.
fn number_pushes<'a>(
    link: &Link,
    mut plan: Plan<'a>,
    samples: u64,
    is_overlapping: bool,
) -> Plan<'a> {
    if plan.dense.is_empty() && plan.sparse.is_empty() {
        plan.dense.push(Request::of(Verb::Push, Head::default()));
    }
    let mut progress = link.progress();
    let base = progress.take_base(is_overlapping);
    for request in plan.dense.iter_mut().chain(&mut plan.sparse) {
        progress.sequence += 1;
        request.head.sequence = progress.sequence;
        request.head.version = progress.steps;
        request.head.samples = samples;
        // What brings nothing cannot be too old.
        let is_empty = request.entries.is_empty();
        request.head.base = if is_empty { progress.version } else { base };
    }
    if let Some(last) = plan.sparse.last_mut().or(plan.dense.last_mut()) {
        last.head.flags = FLAG_LAST;
    }
    plan
}

/// Pushes in their order, each pull behind the pushes of the same values. The frames of the same
/// dense parameters in the same order hold the same blocks and alternate.
fn one_stream<'a>(pushes: Plan<'a>, pulls: Plan<'a>, is_same_order: bool) -> Vec<Request<'a>> {
    let mut stream = Vec::new();
    let mut dense = pulls.dense.into_iter();
    for push in pushes.dense {
        stream.push(push);
        if is_same_order {
            stream.extend(dense.next());
        }
    }
    stream.extend(pushes.sparse);
    stream.extend(dense);
    stream.extend(pulls.sparse);
    stream
}

fn dense_parameters<'a>(gradients: &'a [Gradient<'_>]) -> impl Iterator<Item = ModelIndex> + 'a {
    gradients.iter().filter_map(|gradient| match gradient {
        Gradient::Dense { parameter, .. } => Some(*parameter),
        Gradient::Sparse { .. } => None,
    })
}

fn wanted_parameters<'a>(pulls: &'a [Pull<'_>]) -> impl Iterator<Item = ModelIndex> + 'a {
    pulls.iter().filter_map(|pull| match pull {
        Pull::Dense { parameter, .. } => Some(*parameter),
        Pull::Sparse { .. } => None,
    })
}
