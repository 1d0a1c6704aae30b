//! The rules of jobs: who may see and change which, and what is accepted.

use super::mounts::{self, Paths};
use super::need::Need;
use super::row::{JobRow, Stage};
use super::start;
use super::store::{self, Filter};
use crate::Cloud;
use crate::blocking::blocking;
use crate::clock::now_ms;
use crate::cluster_train::{self, Plan};
use crate::database::Write;
use crate::datacenters::Datacenter;
use crate::http::Caller;
use crate::http::request::page_rows;
use crate::{packages, quotas, random, users};
use contract::api::Page;
use contract::api::job::{Event, Job, JobDetail, JobQuery, Kill, Submit};
use contract::api::quota::Usage;
use contract::path::{Access, PfsPath};
use contract::state::{JobState, State};
use contract::{Error, Kind, Result, name};
use scheduler::ssh::package::Manifest;
use std::sync::Arc;

const REQUEST_BYTES_MAX: usize = 100;
/// The longest that replicas may take to end once they are asked to. Until then a job goes on whose
/// time is over, or whose user was disabled.
const GRACE_SECONDS_MAX: u64 = 600;

/// By which command a job comes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FrontDoor<'a> {
    /// `paddlecloud submit`, and the calls of the original.
    Submit,
    /// `paddle cluster_train`, with the data of the job.
    ClusterTrain(&'a Plan),
}

/// Accepts a job of `paddlecloud submit`.
pub(crate) async fn submit(
    cloud: &Arc<Cloud>,
    caller: &Caller,
    datacenter: &str,
    submit: Submit,
) -> Result<(JobRow, bool)> {
    submit_by(cloud, caller, datacenter, submit, FrontDoor::Submit).await
}

/// The job of a request, if it was accepted before.
pub(crate) async fn known(
    cloud: &Cloud,
    caller: &Caller,
    datacenter: &str,
    request: &str,
) -> Result<Option<JobRow>> {
    let mut write = cloud.database.write().await?;
    store::of_request(&mut write, &caller.username, datacenter, request).await
}

/// Accepts a job: when this returns it is on disk. The same request again is the same job; the
/// second part says whether it is new.
pub(crate) async fn submit_by(
    cloud: &Arc<Cloud>,
    caller: &Caller,
    datacenter: &str,
    submit: Submit,
    door: FrontDoor<'_>,
) -> Result<(JobRow, bool)> {
    let place = Arc::clone(cloud.datacenter(datacenter)?);
    mounts::check(&place)?;
    let Submit { request, mut spec, package } = submit;
    if request.is_empty() || request.len() > REQUEST_BYTES_MAX {
        let message = format!("request: use 1 to {REQUEST_BYTES_MAX} bytes, drawn at random");
        return Err(Error::invalid(message));
    }
    for (field, given, own) in [
        ("user", &mut spec.user, caller.username.as_str()),
        ("datacenter", &mut spec.datacenter, datacenter),
    ] {
        if given.is_empty() {
            own.clone_into(given);
        } else if given != own {
            let message = format!("{field}: leave it out, or use {own}");
            return Err(Error::new(Kind::Forbidden, message).with(field, &*given));
        }
    }
    match door {
        // As the command's own guide says, and no data without its list.
        FrontDoor::Submit => {
            name::check_job_for_submit(&spec.name)?;
            if spec.staged {
                let message = "staged: data is staged by `paddle cluster_train`, leave it out";
                return Err(Error::invalid(message).with("field", "staged"));
            }
        }
        FrontDoor::ClusterTrain(_) => name::check_job(&spec.name)?,
    }
    let path = package_path(&place, caller, &spec, package.as_deref())?;
    spec.package = path.to_string();
    spec.check()?;
    if spec.grace_seconds > GRACE_SECONDS_MAX {
        let message = format!("grace_seconds: use at most {GRACE_SECONDS_MAX}");
        return Err(Error::invalid(message).with("grace_seconds", spec.grace_seconds));
    }
    check_queue(&place, &spec)?;
    if let Some(digest) = &package {
        packages::service::find(cloud, &caller.username, digest).await?;
    } else {
        check_present(&place, path).await?;
    }
    let user = users::store::user(&cloud.database, &caller.username).await?;
    let user = user.ok_or_else(|| Error::new(Kind::NotFound, "there is no such user"))?;
    // What is counted is also what a replica gets.
    super::need::fill(&mut spec.resources);
    let uid = format!("{}-{}", spec.id().as_str(), random::word::<10>()?);
    let mut row = JobRow::queued(uid, request, spec, package, now_ms());
    let need = row.need;
    let manifest = place.config.sends_packages().then(Manifest::default);
    {
        let (place, username) = (Arc::clone(&place), row.username.clone());
        let owner = start::owner(&place, user.posix_uid);
        blocking(move || place.store.ensure_home(&username, owner)).await?;
    }
    let secrets = start::secrets(cloud, &row).await?;
    // A mount is made when the job starts.
    let paths = Paths::imagined(&place, &row)?;
    let limits = quotas::limits(cloud, datacenter, &caller.username).await?;
    let brought = start::Brought { manifest, secrets, paths, limits: limits.clone() };
    let built = start::build(cloud, &place, &row, user.posix_uid, brought)?;
    place.backend.check(&built)?;
    need.check_possible(&place.capacity, "what the datacenter has")?;
    need.check_possible(&limits, "your quota")?;
    let mut write = cloud.database.write().await?;
    let is_enabled = users::store::user_in(&mut write, &row.username).await?;
    if !is_enabled.is_some_and(|user| user.user.is_enabled) {
        let message = "this user was disabled: ask an administrator";
        return Err(Error::new(Kind::Forbidden, message).with("user", &row.username));
    }
    let known = store::of_request(&mut write, &row.username, datacenter, &row.request).await?;
    if let Some(known) = known {
        if (&known.spec, &known.package) != (&row.spec, &row.package) {
            let message = "another job was submitted with this request: draw another one";
            return Err(Error::new(Kind::Conflict, message).with("request", &row.request));
        }
        return Ok((known, false));
    }
    if let Some(other) = store::active(&mut write, &row.username, datacenter, &row.name).await? {
        return Err(name_is_taken(&other));
    }
    if let Some(most) = limits.jobs {
        let count = store::count_active(write.connection(), &row.username, datacenter).await?;
        if count >= u64::from(most) {
            let message = format!(
                "your quota is {most} jobs that have not ended, and you have {count}: wait for one, \
                 or kill one"
            );
            return Err(Error::new(Kind::LimitExceeded, message).with("field", "jobs"));
        }
    }
    // Not earlier than the newest of its name, or that would be found instead.
    let newest = store::newest_ms(&mut write, &row).await?;
    row.submitted_ms = newest.map_or(row.submitted_ms, |newest| row.submitted_ms.max(newest + 1));
    store::insert(&mut write, &row).await?;
    if let FrontDoor::ClusterTrain(plan) = door {
        cluster_train::store::insert(&mut write, &row.uid, plan).await?;
    }
    let most = cloud.config.limits.events;
    store::add_event(&mut write, &row.uid, now_ms(), "submitted", most).await?;
    write.commit().await?;
    place.wake.notify_one();
    metrics::counter!("cloud_jobs_submitted").increment(1);
    Ok((row, true))
}

fn name_is_taken(other: &JobRow) -> Error {
    let message = match other.state {
        JobState::Killing => {
            "a job of this name is still being ended: wait for its end, or choose \
                              another name"
        }
        _ => "a job of this name has not ended: wait for it, kill it, or choose another name",
    };
    Error::new(Kind::Conflict, message)
        .with("job", &other.name)
        .with("uid", &other.uid)
        .with("state", other.state)
}

/// Where the program of a job is, as the job sees it.
fn package_path(
    place: &Datacenter,
    caller: &Caller,
    spec: &contract::job::JobSpec,
    digest: Option<&str>,
) -> Result<PfsPath> {
    let own = PfsPath::home(&place.name, &caller.username)?.join(&format!("jobs/{}", spec.name))?;
    let refuse = |message: &str| Err(Error::invalid(message).with("package", &spec.package));
    let path = match spec.package.as_str() {
        "" if digest.is_some() => return Ok(own),
        "" => {
            let message =
                "the job has no program: send a package, or name a directory of your home";
            return Err(Error::invalid(message).with("field", "package"));
        }
        text => PfsPath::parse(text, &place.name)?,
    };
    path.check_access(&caller.username, Access::Read)?;
    if path.datacenter() != place.name {
        return refuse("the package is in another datacenter than the job");
    }
    match digest {
        Some(_) if path != own => refuse("a package that is sent lies in jobs/<name> of your home"),
        _ => Ok(path),
    }
}

fn check_queue(place: &Datacenter, spec: &contract::job::JobSpec) -> Result<()> {
    if spec.queue.is_empty() {
        return Ok(());
    }
    match place.config.queue(&spec.queue) {
        Some(queue) => queue.admit(spec),
        None => {
            let known: Vec<&str> =
                place.config.queues.iter().map(|queue| queue.name.as_str()).collect();
            if known.is_empty() {
                let message = "this datacenter has no queues: leave it out";
                return Err(Error::new(Kind::NotFound, message).with("queue", &spec.queue));
            }
            let message = "there is no such queue: leave it out, or use another";
            Err(Error::new(Kind::NotFound, message)
                .with("queue", &spec.queue)
                .with("known", known.join(", ")))
        }
    }
}

/// Refuses a package that is not there.
async fn check_present(place: &Datacenter, path: PfsPath) -> Result<()> {
    match has_directory(place, &path).await? {
        true => Ok(()),
        false => {
            let message = "there is no such directory: upload the package first";
            Err(Error::new(Kind::NotFound, message).with("package", path))
        }
    }
}

/// Whether there is a directory of the file system. Links are not followed.
pub(crate) async fn has_directory(place: &Datacenter, path: &PfsPath) -> Result<bool> {
    match place.files.stat(path.clone()).await {
        Ok(entry) => Ok(entry.is_directory()),
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Invalid) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The job that somebody means: by uid, or the newest of a name. Others' jobs are not there, except
/// for administrators, by uid.
pub(crate) async fn find(
    cloud: &Cloud,
    caller: &Caller,
    datacenter: &str,
    job: &str,
) -> Result<JobRow> {
    cloud.datacenter(datacenter)?;
    // One that is being removed is gone for its user.
    let is_there = |row: &JobRow| !(row.is_removed_at_end && row.ended_ms.is_some());
    let own = store::newest(&cloud.database, &caller.username, datacenter, job).await?;
    if let Some(row) = own.filter(is_there) {
        return Ok(row);
    }
    let by_uid = store::get(&cloud.database, job).await?;
    let is_theirs = |row: &JobRow| {
        row.datacenter == datacenter
            && (caller.is_admin || row.username == caller.username)
            && is_there(row)
    };
    by_uid.filter(is_theirs).ok_or_else(|| {
        Error::new(Kind::NotFound, "there is no such job")
            .with("job", job)
            .with("datacenter", datacenter)
    })
}

/// The job of a uid, whoever's it is.
pub(crate) async fn get(cloud: &Cloud, uid: &str) -> Result<Option<JobRow>> {
    store::get(&cloud.database, uid).await
}

/// All of a job.
pub(crate) async fn detail(cloud: &Cloud, row: JobRow) -> Result<JobDetail> {
    let package = match &row.package {
        Some(digest) => packages::store::summary(&cloud.database, &row.username, digest).await?,
        None => None,
    };
    Ok(JobDetail {
        job: row.job(),
        spec: row.spec,
        package,
        workers: row.workers,
        notes: row.notes,
    })
}

/// What the cloud saw of a job.
pub(crate) async fn events(cloud: &Cloud, row: &JobRow) -> Result<Vec<Event>> {
    store::events(&cloud.database, &row.uid).await
}

/// What a query asks for, as far as the caller may see it.
pub(super) fn filter(
    cloud: &Cloud,
    caller: &Caller,
    datacenter: &str,
    query: &JobQuery,
) -> Result<Filter> {
    cloud.datacenter(datacenter)?;
    let username = match query.user.as_deref() {
        None => Some(caller.username.clone()),
        Some(user) if user == caller.username => Some(user.to_owned()),
        Some(user) => {
            caller.check_admin()?;
            (user != "*").then(|| user.to_owned())
        }
    };
    let states = query.state.as_deref().unwrap_or_default().split(',');
    let states = states.filter(|state| !state.is_empty());
    let states = states.map(|state| state.parse::<JobState>().map(|state| state.to_string()));
    let before = query.after.as_deref().map(|after| {
        let parse = || {
            let (at, uid) = after.split_once('.')?;
            Some((at.parse().ok()?, uid.to_owned()))
        };
        parse().ok_or_else(|| {
            Error::invalid("after: use the `next` of a page").with("after", after.escape_debug())
        })
    });
    Ok(Filter {
        datacenter: datacenter.to_owned(),
        username,
        name: query.name.clone(),
        states: states.collect::<Result<_>>()?,
        is_active: query.active,
        before: before.transpose()?,
        since: None,
        limit: page_rows(query.limit)?,
    })
}

/// The jobs of a list, newest first, without pages.
pub(crate) async fn rows(
    cloud: &Cloud,
    caller: &Caller,
    datacenter: &str,
    query: &JobQuery,
) -> Result<Vec<JobRow>> {
    let filter = filter(cloud, caller, datacenter, query)?;
    Ok(store::readable(store::list(&cloud.database, &filter).await?))
}

/// A page of jobs, newest first. One that cannot be read is named in a note.
pub(crate) async fn list(
    cloud: &Cloud,
    caller: &Caller,
    datacenter: &str,
    query: &JobQuery,
) -> Result<Page<Job>> {
    let mut filter = filter(cloud, caller, datacenter, query)?;
    let limit = filter.limit as usize;
    filter.limit += 1;
    let mut rows = store::summaries(&cloud.database, &filter).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| has_more);
    let next = last.map(|row| format!("{}.{}", row.submitted_ms, row.uid));
    let (mut items, mut notes) = (Vec::new(), Vec::new());
    for row in rows {
        match row.job {
            Ok(job) => items.push(job),
            Err(error) => notes.push(error.to_string()),
        }
    }
    Ok(Page { items, next, notes })
}

/// What a user's jobs use.
pub(crate) async fn usage(cloud: &Cloud, datacenter: &str, username: &str) -> Result<Usage> {
    let running = store::running(cloud.database.read(), datacenter).await?;
    let jobs = store::count_active(cloud.database.read(), username, datacenter).await?;
    let need = running.get(username).copied().unwrap_or_default();
    Ok(need.usage(u32::try_from(jobs).unwrap_or(u32::MAX)))
}

/// Asks to end a job. One that has not started ends at once; one that has ended stays as it is.
pub(crate) async fn kill(
    cloud: &Cloud,
    caller: &Caller,
    datacenter: &str,
    job: &str,
    kill: &Kill,
) -> Result<JobRow> {
    let found = find(cloud, caller, datacenter, job).await?;
    let mut write = cloud.database.write().await?;
    let row = store::get_in(&mut write, &found.uid).await?;
    let mut row = row.ok_or_else(|| Error::new(Kind::NotFound, "the job was removed"))?;
    if row.state.is_final() {
        drop(write);
        if kill.remove {
            remove_row(cloud, &row).await?;
        }
        return Ok(row);
    }
    let why = format!("{} asked to end it", caller.username);
    ask_to_end(cloud, &mut write, &mut row, &why, kill).await?;
    write.commit().await?;
    cloud.datacenter(datacenter)?.wake.notify_one();
    Ok(row)
}

/// Asks to end all jobs of a user, in the transaction that disables them. Whoever commits wakes
/// the datacenters.
pub(crate) async fn kill_all(
    cloud: &Cloud,
    write: &mut Write<'_>,
    username: &str,
    why: &str,
) -> Result<()> {
    for mut row in store::active_of_user(write, username).await? {
        ask_to_end(cloud, write, &mut row, why, &Kill::default()).await?;
    }
    Ok(())
}

/// Notes that somebody wants the end of a job that has not ended.
async fn ask_to_end(
    cloud: &Cloud,
    write: &mut Write<'_>,
    row: &mut JobRow,
    why: &str,
    kill: &Kill,
) -> Result<()> {
    let (now_ms, most) = (now_ms(), cloud.config.limits.events);
    row.is_removed_at_end |= kill.remove;
    row.is_kill_forced |= kill.is_forced;
    store::add_event(write, &row.uid, now_ms, why, most).await?;
    row.kill_ms = row.kill_ms.or(Some(now_ms));
    if row.stage == Stage::Queued {
        (row.stage, row.state) = (Stage::Ended, JobState::Killed);
        row.reason = format!("{why}, before it started");
        row.ended_ms = Some(now_ms);
        store::add_event(write, &row.uid, now_ms, "killed", most).await?;
    } else {
        row.state = JobState::Killing;
        why.clone_into(&mut row.reason);
    }
    store::update(write, row).await
}

/// Changes the number of trainers of a running job.
pub(crate) async fn scale(
    cloud: &Cloud,
    caller: &Caller,
    datacenter: &str,
    job: &str,
    trainers: u32,
) -> Result<JobRow> {
    let found = find(cloud, caller, datacenter, job).await?;
    let place = cloud.datacenter(datacenter)?;
    if found.stage != Stage::Placed {
        let message = "only a job that runs can be scaled";
        return Err(Error::new(Kind::Conflict, message).with("state", found.state));
    }
    if found.spec.fault_tolerance.is_none() {
        let message = "the number of trainers of this job is fixed: to change it while it runs, \
                       submit it with -faulttolerant";
        return Err(Error::new(Kind::Conflict, message).with("trainers", found.trainers));
    }
    let need = Need::of(&found.spec, trainers);
    // Taken before the backend is asked, so that nobody else is given the room meanwhile; what is
    // given up is given up when it has agreed.
    if trainers > found.trainers {
        take_room(cloud, place, &found.uid, trainers).await?;
    }
    let scaled = place.backend.scale(&found.uid, trainers).await;
    let mut write = cloud.database.write().await?;
    let fresh = store::get_in(&mut write, &found.uid).await?;
    let mut row = fresh.ok_or_else(|| Error::new(Kind::NotFound, "the job was removed"))?;
    match scaled {
        Ok(()) => {
            row.need = need;
            let most = cloud.config.limits.events;
            let event = format!("{} asked for {trainers} trainers", caller.username);
            store::add_event(&mut write, &row.uid, now_ms(), &event, most).await?;
        }
        Err(_) if row.need == need => row.need = found.need,
        Err(_) => {}
    }
    store::update(&mut write, &mut row).await?;
    write.commit().await?;
    scaled?;
    place.wake.notify_one();
    Ok(row)
}

/// Counts a running job as one of so many trainers, if there is room.
async fn take_room(cloud: &Cloud, place: &Datacenter, uid: &str, trainers: u32) -> Result<()> {
    let mut write = cloud.database.write().await?;
    let row = store::get_in(&mut write, uid).await?;
    let mut row = row.ok_or_else(|| Error::new(Kind::NotFound, "the job was removed"))?;
    let need = Need::of(&row.spec, trainers);
    let limits = quotas::limits(cloud, &place.name, &row.username).await?;
    let running = store::running(write.connection(), &place.name).await?;
    let without = |need: Need, own: Need| Need {
        cpu_milli: need.cpu_milli.saturating_sub(own.cpu_milli),
        memory_bytes: need.memory_bytes.saturating_sub(own.memory_bytes),
        gpu_milli: need.gpu_milli.saturating_sub(own.gpu_milli),
        replicas: need.replicas.saturating_sub(own.replicas),
    };
    let own = running.get(&row.username).copied().unwrap_or_default();
    let all = running.values().fold(Need::default(), |sum, need| sum.plus(*need));
    for (used, limits, whose) in
        [(own, &limits, "your quota"), (all, &place.capacity, "the datacenter")]
    {
        if let Some(why) = need.shortage(without(used, row.need), limits) {
            let message = format!("{whose} has no room for {trainers} trainers: {why}");
            return Err(Error::new(Kind::LimitExceeded, message));
        }
    }
    row.need = need;
    store::update(&mut write, &mut row).await?;
    write.commit().await
}

/// Removes a job that has ended, with its logs.
pub(crate) async fn remove(
    cloud: &Cloud,
    caller: &Caller,
    datacenter: &str,
    job: &str,
) -> Result<()> {
    let row = find(cloud, caller, datacenter, job).await?;
    if !row.state.is_final() {
        let message = "the job has not ended: kill it first";
        return Err(Error::new(Kind::Conflict, message)
            .with("job", &row.name)
            .with("state", row.state));
    }
    remove_row(cloud, &row).await
}

async fn remove_row(cloud: &Cloud, row: &JobRow) -> Result<()> {
    let place = Arc::clone(cloud.datacenter(&row.datacenter)?);
    let mut write = cloud.database.write().await?;
    let fresh = store::get_in(&mut write, &row.uid).await?;
    let Some(mut fresh) = fresh else { return Ok(()) };
    // Its backend has to forget it first; whoever drives it removes it then.
    if !fresh.is_forgotten {
        fresh.is_removed_at_end = true;
        store::update(&mut write, &mut fresh).await?;
        write.commit().await?;
        place.wake.notify_one();
        return Ok(());
    }
    drop(write);
    let uid = row.uid.clone();
    // Before its row: logs without a job would stay for ever.
    blocking(move || place.store.remove_logs(&uid)).await?;
    let mut write = cloud.database.write().await?;
    store::remove(&mut write, &row.uid).await?;
    write.commit().await
}
