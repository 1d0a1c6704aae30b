//! A node of a training, as it talks to its receiver: it fetches its share of the data and sends its
//! results. A receiver that is away for some minutes, to be started again for example, is waited for,
//! unless the node is to end.

use crate::body;
use crate::client::get;
use crate::config::Datacenter;
use crate::files::in_parallel;
use crate::files::receive::checked;
use crate::retry::{self, ATTEMPTS_MAX, OUTAGE_MAX, Repeat};
use crate::transport::{Call, Content, Transport};
use contract::api::cluster_train::{Awaited, NodeQuery, SCHEME, Share, SharedFile, Stage};
use contract::api::path;
use contract::checksum::Summing;
use contract::{Error, Kind, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use ureq::http::{Method, Response};

/// A receiver, asked by one of the nodes of a job.
pub struct Receiver {
    /// Ways to it, of which some may lead nowhere, or to somebody else.
    transports: Vec<Transport>,
    /// The one that has led to it.
    used: OnceLock<usize>,
    job: String,
    authorization: String,
    rank: u32,
    /// Is told, in a line, what is worth knowing and no error.
    notice: fn(&str),
    /// Set when the node is to end: then nothing is fetched and nobody waited for.
    ending: Arc<AtomicBool>,
}

/// What is fetched at a time, and by how many threads.
const PART_BYTES: u64 = 8 << 20;
const THREADS: usize = 6;
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// How long a receiver may take to answer once it has a result, beside the time that its store takes
/// for the bytes, at the slowest rate that a store may have.
const KEEP: Duration = Duration::from_secs(60);
const STORE_BYTES_PER_SECOND: u64 = 4 << 20;

impl Receiver {
    /// Nothing is asked yet. Once `ending` is set only results are sent.
    pub fn open(
        stage: &Stage,
        rank: u32,
        ending: Arc<AtomicBool>,
        notice: fn(&str),
    ) -> Result<Receiver> {
        let refused = |source| Error::io("cannot keep a certificate", source);
        let mut file = tempfile::NamedTempFile::new().map_err(refused)?;
        file.write_all(stage.ca.as_bytes()).map_err(refused)?;
        let transport = |url: &String| {
            let datacenter = Datacenter {
                name: String::new(),
                username: String::new(),
                password: None,
                endpoint: url.parse()?,
                ca: (!stage.ca.is_empty()).then(|| file.path().to_owned()),
                socket: None,
            };
            Transport::new(&datacenter, None)
        };
        let urls = std::iter::once(&stage.url).chain(&stage.others);
        Ok(Receiver {
            transports: urls.map(transport).collect::<Result<_>>()?,
            used: OnceLock::new(),
            job: stage.job.clone(),
            authorization: format!("{SCHEME} {}", stage.token),
            rank,
            notice,
            ending,
        })
    }

    /// What this node fetches.
    pub fn share(&self) -> Result<Share> {
        let path = format!("{}?rank={}", path::fill(path::STAGE, &[&self.job]), self.rank);
        let bytes =
            self.patiently(|| self.whole(&get(path.clone(), "ask for the list of its data")))?;
        body::decode(&bytes, "ask for the list of its data")
    }

    /// Says that this node has its data; the nodes that do not.
    pub fn ready(&self) -> Result<Vec<u32>> {
        let what = "say that it has its data";
        let call = Call {
            method: Method::POST,
            path: path::fill(path::STAGE_READY, &[&self.job]),
            content: Content::Json(body::encode(&NodeQuery { rank: self.rank })?),
            repeat: Repeat::Safe,
            what,
            answer: None,
        };
        Ok(body::decode::<Awaited>(&self.patiently(|| self.whole(&call))?, what)?.ranks)
    }

    /// Fetches all files of a share, several parts at a time. Each part is checked by its checksum
    /// and fetched again if it is damaged; a file has its name when it is whole. `see` is told each
    /// file that is.
    pub fn fetch(
        &self,
        share: &Share,
        workspace: &Path,
        see: impl Fn(&SharedFile, &Path) -> Result<()> + Sync,
    ) -> Result<()> {
        let mut parts = Vec::new();
        let mut left = HashMap::new();
        for file in &share.files {
            let target = inside(workspace, &file.target)?;
            make_above(&target)?;
            File::create(partial(workspace, file)).map_err(unwritable(&target))?;
            let before = parts.len();
            let mut offset = 0;
            loop {
                let bytes = PART_BYTES.min(file.bytes - offset);
                parts.push((file, target.clone(), offset, bytes));
                offset += bytes;
                if offset >= file.bytes {
                    break;
                }
            }
            left.insert(file.number, parts.len() - before);
        }
        let left = Mutex::new(left);
        let (failed, is_over) = (Mutex::new(None), AtomicBool::new(false));
        in_parallel(THREADS, parts, |(file, target, offset, bytes)| {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            let unfinished = partial(workspace, file);
            let done = self.fetch_part(file, &unfinished, (offset, bytes)).and_then(|()| {
                let is_whole = {
                    let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
                    let count = left.entry(file.number).or_default();
                    *count -= 1;
                    *count == 0
                };
                if !is_whole {
                    return Ok(());
                }
                std::fs::rename(&unfinished, &target).map_err(unwritable(&target))?;
                see(file, &target)
            });
            if let Err(error) = done {
                is_over.store(true, Ordering::Relaxed);
                let error = error.with("file", &file.target);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        });
        let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) else {
            return Ok(());
        };
        for file in &share.files {
            // Those that were whole have another name.
            let _ = std::fs::remove_file(partial(workspace, file));
        }
        Err(error)
    }

    fn fetch_part(
        &self,
        file: &SharedFile,
        target: &Path,
        (offset, bytes): (u64, u64),
    ) -> Result<()> {
        let number = file.number.to_string();
        let path = path::fill(path::STAGE_FILE, &[&self.job, &number]);
        let call = get(format!("{path}?offset={offset}&bytes={bytes}"), "fetch its data");
        let part =
            self.patiently(|| checked(self.once(&call)?.into_body().into_reader(), bytes))?;
        let opened = File::options().write(true).open(target);
        let file = opened.map_err(unwritable(target))?;
        file.write_all_at(&part, offset).map_err(unwritable(target))
    }

    /// Sends a file of the results, to a path below `output/rank-N` or `log/rank-N`. A file that
    /// grows meanwhile is sent as far as it was at first. One that arrives damaged, because the
    /// network or another writer has changed it on its way, is read and sent again.
    pub fn send_result(&self, file: &Path, name: &str) -> Result<()> {
        let mut attempt = 1;
        loop {
            match self.send_once(file, name) {
                Err(error) if error.kind() == Kind::Damaged && attempt < ATTEMPTS_MAX => {
                    (self.notice)(&format!("{name}: {}", error.message()));
                    attempt += 1;
                }
                sent => return sent,
            }
        }
    }

    fn send_once(&self, file: &Path, name: &str) -> Result<()> {
        let unreadable =
            |source| Error::io("cannot read a result", source).with("file", file.display());
        let source = File::open(file).map_err(unreadable)?;
        let (mut sum, mut bytes) = (Summing::new(), 0_u64);
        let mut piece = vec![0; 256 << 10];
        let mut reader = source;
        loop {
            let count = reader.read(&mut piece).map_err(unreadable)?;
            if count == 0 {
                break;
            }
            sum.add(&piece[..count]);
            bytes += count as u64;
        }
        let open = || {
            let file = File::open(file).map_err(unreadable)?;
            Ok(Box::new(file.take(bytes)) as Box<dyn Read>)
        };
        let path = path::fill(path::STAGE_RESULT, &[&self.job]);
        let query =
            format!("rank={}&path={}&checksum={}", self.rank, path::encode(name), sum.checksum());
        let call = Call {
            method: Method::PUT,
            path: format!("{path}?{query}"),
            content: Content::Stream(bytes, &open),
            repeat: Repeat::Safe,
            what: "send a result",
            answer: Some(time_to_keep(bytes)),
        };
        // Also when the node is to end: what it has done is not lost.
        retry::patiently(OUTAGE_MAX, self.notice, || self.whole(&call)).map(|_| ())
    }

    /// Asks once, for an answer of moderate length.
    fn whole(&self, call: &Call<'_>) -> Result<Vec<u8>> {
        let mut answer = self.once(call)?;
        let read = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        read.map_err(|source| Error::new(Kind::Unavailable, "the answer broke off").because(source))
    }

    /// Asks by the way that has led to the receiver; until one has, by all.
    fn once(&self, call: &Call<'_>) -> Result<Response<ureq::Body>> {
        if let Some(used) = self.used.get() {
            return self.exchange(*used, call);
        }
        let (mut refusal, mut outage) = (None, None);
        for way in 0..self.transports.len() {
            match self.exchange(way, call) {
                Ok(answer) => {
                    self.used.get_or_init(|| way);
                    return Ok(answer);
                }
                Err(error) if error.kind().is_retryable() => outage = Some(error),
                Err(error) => refusal = Some(error),
            }
        }
        let nowhere = || Error::invalid("the job does not say where its receiver is");
        // Who refuses may be a stranger as long as somebody else does not answer.
        Err(outage.or(refusal).unwrap_or_else(nowhere))
    }

    fn exchange(&self, way: usize, call: &Call<'_>) -> Result<Response<ureq::Body>> {
        let headers = [("authorization", self.authorization.clone())];
        let fix = "if nodes reach the receiver under another address, its administrator sets \
                   `address:`";
        let answer = self.transports[way].exchange(call, None, &headers);
        answer.map_err(|error| match error.kind() {
            Kind::Unavailable | Kind::Timeout => error.with("fix", fix),
            _ => error,
        })
    }

    fn patiently<T>(&self, ask: impl Fn() -> Result<T>) -> Result<T> {
        retry::patiently(OUTAGE_MAX, self.notice, || match self.ending.load(Ordering::Relaxed) {
            true => Err(Error::new(Kind::Interrupted, "asked to end before the training began")),
            false => ask(),
        })
    }
}

/// How long a receiver may take to put a result of this length into its store: it answers when the
/// result is there.
fn time_to_keep(bytes: u64) -> Duration {
    KEEP + Duration::from_secs(bytes / STORE_BYTES_PER_SECOND)
}

/// Where a file of a share goes. The receiver is trusted with the data, not with the machine.
fn inside(workspace: &Path, target: &str) -> Result<PathBuf> {
    let is_plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
    match !target.is_empty() && Path::new(target).components().all(is_plain) {
        true => Ok(workspace.join(target)),
        false => {
            Err(Error::new(Kind::Damaged, "the receiver names a file outside of the workspace")
                .with("target", target.escape_debug()))
        }
    }
}

fn make_above(target: &Path) -> Result<()> {
    let folder = target.parent().unwrap_or(target);
    std::fs::create_dir_all(folder).map_err(unwritable(folder))
}

/// Where a file is that is not whole: nowhere that the name of another file of the data could be.
fn partial(workspace: &Path, file: &SharedFile) -> PathBuf {
    workspace.join(format!(".fetched-{}", file.number))
}

fn unwritable(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| Error::io("cannot write the data", source).with("path", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    #[test]
    fn files_that_are_not_whole_have_names_of_no_other_file() {
        let file = |number, target: &str| SharedFile { number, target: target.into(), bytes: 1 };
        let workspace = Path::new("/package");
        let files = [file(0, "train/a"), file(1, "train/a.part")];
        let unfinished = files.each_ref().map(|file| partial(workspace, file));
        assert_ne!(unfinished[0], unfinished[1]);
        for file in &files {
            assert!(!unfinished.contains(&inside(workspace, &file.target).unwrap()));
        }
    }

    fn stage(url: String, others: Vec<String>) -> Stage {
        Stage { url, others, ca: String::new(), job: "job".into(), token: "token".into() }
    }

    fn receiver(stage: &Stage) -> Receiver {
        Receiver::open(stage, 0, Arc::default(), |_| ()).unwrap()
    }

    /// Answers a request with each of these, one after the other; where.
    fn serve(answers: Vec<Vec<u8>>) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for body in answers {
                let (mut connection, _) = listener.accept().unwrap();
                let _ = connection.read(&mut [0; 4096]).unwrap();
                let length = body.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close");
                connection.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
                connection.write_all(&body).unwrap();
            }
        });
        url
    }

    #[test]
    fn a_part_that_arrives_damaged_is_fetched_again() {
        let content = b"1 2 3\n";
        let sum = contract::checksum::Checksum::of(content).0;
        let (whole, mut damaged) = ([&content[..], &sum].concat(), [&content[..], &sum].concat());
        damaged[2] ^= 1;
        let receiver = receiver(&stage(serve(vec![damaged, whole]), vec![]));
        let file = SharedFile { number: 0, target: "train/a".into(), bytes: 6 };
        let share = Share { files: vec![file], ..Share::default() };
        let workspace = tempfile::tempdir().unwrap();
        receiver.fetch(&share, workspace.path(), |_, _| Ok(())).unwrap();
        assert_eq!(std::fs::read(workspace.path().join("train/a")).unwrap(), content);
    }

    #[test]
    fn a_node_that_is_to_end_waits_for_no_receiver() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let stage = stage(format!("http://{nobody}"), vec![]);
        let ending = Arc::new(AtomicBool::new(true));
        let receiver = Receiver::open(&stage, 0, ending, |_| ()).unwrap();
        assert_eq!(receiver.ready().unwrap_err().kind(), Kind::Interrupted);
    }

    #[test]
    fn a_large_result_has_the_time_that_a_slow_store_takes() {
        assert_eq!(time_to_keep(0), KEEP);
        // An HDFS that writes 10 MB/s.
        assert!(time_to_keep(20 << 30) > Duration::from_secs(2048));
    }

    /// Answers one request; where.
    fn server(status: &'static str, body: &'static str) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || answer(&listener, status, body));
        url
    }

    /// Answers one request, when all of it is here; its body.
    fn answer(listener: &std::net::TcpListener, status: &str, body: &str) -> Vec<u8> {
        let (connection, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(connection);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line).unwrap() > 2 {
            if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
                length = text.trim().parse().unwrap();
            }
            line.clear();
        }
        let mut content = vec![0; length];
        reader.read_exact(&mut content).unwrap();
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close");
        reader.get_mut().write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
        content
    }

    #[test]
    fn a_result_that_arrives_damaged_is_sent_again_and_not_for_ever() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver =
            receiver(&stage(format!("http://{}", listener.local_addr().unwrap()), vec![]));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "Pass=0\n").unwrap();
        let damaged = r#"{"kind":"damaged","message":"send it again","context":{}}"#;
        let sent = std::thread::scope(|scope| {
            let sent = scope.spawn(|| receiver.send_result(file.path(), "log/rank-00000/a"));
            answer(&listener, "422 Unprocessable Entity", damaged);
            assert_eq!(answer(&listener, "204 No Content", ""), b"Pass=0\n");
            sent.join().unwrap()
        });
        sent.unwrap();
        let error = std::thread::scope(|scope| {
            let sent = scope.spawn(|| receiver.send_result(file.path(), "log/rank-00000/a"));
            for _ in 0..ATTEMPTS_MAX {
                answer(&listener, "422 Unprocessable Entity", damaged);
            }
            sent.join().unwrap().unwrap_err()
        });
        assert_eq!(error.kind(), Kind::Damaged);
    }

    #[test]
    fn a_share_that_cannot_be_fetched_leaves_no_halves() {
        let refusal = r#"{"kind":"conflict","message":"the file was changed","context":{}}"#;
        let receiver = receiver(&stage(server("409 Conflict", refusal), vec![]));
        let file = |number, target: &str| SharedFile { number, target: target.into(), bytes: 6 };
        let share = Share { files: vec![file(0, "train/a")], ..Share::default() };
        let workspace = tempfile::tempdir().unwrap();
        let fetched = receiver.fetch(&share, workspace.path(), |_, _| Ok(()));
        assert_eq!(fetched.unwrap_err().kind(), Kind::Conflict);
        let left: Vec<_> = std::fs::read_dir(workspace.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1, "the folder of the data alone: {left:?}");
    }

    /// A machine has addresses that lead nowhere from others, or to somebody else.
    #[test]
    fn a_receiver_is_looked_for_at_all_its_addresses() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let stranger = server("404 Not Found", "nothing here");
        let receiver = server("200 OK", "{\"ranks\":[3]}");
        let receiver = self::receiver(&stage(format!("http://{nobody}"), vec![stranger, receiver]));
        assert_eq!(receiver.ready().unwrap(), [3]);
        assert_eq!(receiver.used.get(), Some(&2));
    }

    /// The receiver is started again, and somebody else listens at another of its addresses.
    #[test]
    fn the_refusal_of_a_stranger_does_not_end_the_wait_for_the_receiver() {
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let stranger = server("404 Not Found", "nothing here");
        let receiver = receiver(&stage(format!("http://{nobody}"), vec![stranger]));
        let error = receiver.once(&get("/".to_owned(), "ask")).unwrap_err();
        assert!(error.kind().is_retryable(), "{error}");
    }

    #[test]
    fn nothing_is_written_outside_of_the_workspace() {
        let workspace = Path::new("/package");
        assert_eq!(inside(workspace, "train/a").unwrap(), Path::new("/package/train/a"));
        for target in ["", "/etc/passwd", "../a", "a/../../b", "./a/.."] {
            assert!(inside(workspace, target).is_err(), "{target}");
        }
    }
}
