//! The files of one user as the kernel sees them: numbers, open handles, and what may be done with
//! each. What the kernel asks is in `calls.rs`, what becomes of names in `names.rs`.

mod calls;
mod names;

use crate::blocks::Blocks;
use crate::content::Content;
use crate::draft::{Draft, Facts};
use crate::errno::{errno, local, stale};
use crate::place::{Meaning, Top};
use crate::remote::{Listing, Remote};
use crate::tree::{TOP, Tree};
use contract::api::file::{Entry, EntryKind};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, OpenAccMode, OpenFlags,
};
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The file system of one user.
pub(crate) struct Cloud {
    pub(crate) remote: Arc<Remote>,
    pub(crate) blocks: Blocks,
    pub(crate) top: Top,
    /// Whom everything seems to belong to.
    pub(crate) owner: (u32, u32),
    /// Whether the public area may be written to.
    pub(crate) is_admin: bool,
    /// Where files are that are written.
    pub(crate) scratch: PathBuf,
    /// Where it is mounted.
    pub(crate) directory: PathBuf,
    /// Is told what nobody else can be told.
    pub(crate) notice: fn(&str),
    pub(crate) tree: Arc<Mutex<Tree>>,
    pub(crate) handles: Mutex<HashMap<u64, Handle>>,
    pub(crate) next_handle: AtomicU64,
}

/// Something that is open.
#[derive(Clone)]
pub(crate) enum Handle {
    Read {
        number: u64,
        content: Arc<Content>,
    },
    Write {
        number: u64,
        draft: Arc<Draft>,
        opener: u32,
        is_opener_done: bool,
    },
    /// A file that somebody else writes to, opened for reading.
    Peek {
        number: u64,
        draft: Arc<Draft>,
    },
    Directory(Arc<Vec<(String, Shape)>>),
}

/// What a name in a directory is.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// A directory that is only there to lead to others.
    Between,
    Entry(Entry),
    Draft(Facts),
}

/// Permissions where the store has none.
const DIRECTORY_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;
/// What the kernel reads and writes at a time.
const REQUEST_BYTES: u32 = 1 << 20;
/// As if so much were free where there is no quota.
const UNLIMITED_BYTES: u64 = 1 << 50;
const FRAGMENT_BYTES: u32 = 4096;
const NAME_BYTES_MAX: usize = 255;
/// How long a process that closes a file is looked at.
const LOOK: Duration = Duration::from_millis(200);

type Answer<T> = std::result::Result<T, Errno>;

impl Cloud {
    /// The number of the top, which is there without being looked up.
    pub(crate) const TOP: u64 = TOP;

    fn place(&self, number: u64) -> Answer<Meaning> {
        let tree = self.tree();
        let names = tree.names(number).ok_or(Errno::ENOENT)?;
        self.top.place(&names).map_err(|error| errno(&error))
    }

    /// The path of a name in a directory of the cloud.
    fn path(&self, parent: u64, name: &OsStr) -> Answer<PfsPath> {
        let name = text(name)?;
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        match self.place(parent)? {
            Meaning::Cloud(path) => path.join(name).map_err(|error| errno(&error)),
            Meaning::Between(_) => Err(Errno::EACCES),
        }
    }

    /// As [`Cloud::path`], of something that is to be changed.
    fn writable(&self, parent: u64, name: &OsStr) -> Answer<PfsPath> {
        let path = self.path(parent, name)?;
        self.check_writable(&path)?;
        Ok(path)
    }

    fn check_writable(&self, path: &PfsPath) -> Answer<()> {
        match path.owner().is_some() || self.is_admin {
            true => Ok(()),
            false => Err(Errno::EROFS),
        }
    }

    /// What a number stands for now.
    fn shape(&self, number: u64) -> Answer<Shape> {
        let draft = self.tree().node(number).and_then(|node| node.draft.clone());
        if let Some(draft) = draft {
            return Ok(Shape::Draft(draft.facts()));
        }
        let path = match self.place(number) {
            Ok(Meaning::Between(_)) => return Ok(Shape::Between),
            Ok(Meaning::Cloud(path)) => path,
            // A file whose name was removed, and which is open.
            Err(code) => return self.opened(number).map(Shape::Entry).ok_or(code),
        };
        self.look(&path)
    }

    fn look(&self, path: &PfsPath) -> Answer<Shape> {
        match self.remote.look(path) {
            Ok(entry) => Ok(Shape::Entry(entry)),
            // A home that nobody has written to yet.
            Err(error) if error.kind() == Kind::NotFound && path.file_name().is_none() => {
                Ok(Shape::Between)
            }
            Err(error) => Err(errno(&error)),
        }
    }

    fn opened(&self, number: u64) -> Option<Entry> {
        let handles = self.handles();
        handles.values().find_map(|handle| match handle {
            Handle::Read { number: own, content } if *own == number => Some(content.entry.clone()),
            _ => None,
        })
    }

    fn attributes(&self, number: u64, shape: &Shape) -> FileAttr {
        let (kind, bytes, mode, modified) = match shape {
            Shape::Between => (FileType::Directory, 0, DIRECTORY_MODE, UNIX_EPOCH),
            Shape::Draft(facts) => (FileType::RegularFile, facts.bytes, facts.mode, facts.modified),
            Shape::Entry(entry) => {
                let (kind, usual) = match entry.kind {
                    EntryKind::File => (FileType::RegularFile, FILE_MODE),
                    EntryKind::Directory => (FileType::Directory, DIRECTORY_MODE),
                    EntryKind::Link => (FileType::Symlink, 0o777),
                    EntryKind::Other => (FileType::NamedPipe, 0),
                };
                let mode = if entry.mode == 0 { usual } else { entry.mode };
                let modified = UNIX_EPOCH + Duration::from_millis(entry.modified_ms);
                (kind, entry.bytes, mode, modified)
            }
        };
        FileAttr {
            ino: INodeNo(number),
            size: bytes,
            blocks: bytes.div_ceil(512),
            atime: modified,
            mtime: modified,
            ctime: modified,
            crtime: modified,
            kind,
            perm: u16::try_from(mode & 0o777).unwrap_or(0),
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 128 << 10,
            flags: 0,
        }
    }

    fn find(&self, parent: u64, name: &OsStr) -> Answer<FileAttr> {
        let plain = text(name)?;
        let known = self.tree().child(parent, plain);
        let draft = known.and_then(|number| self.tree().node(number)?.draft.clone());
        let shape = match (draft, self.place(parent)?) {
            (Some(draft), _) => Shape::Draft(draft.facts()),
            (None, Meaning::Between(names)) if !names.iter().any(|known| known == plain) => {
                return Err(Errno::ENOENT);
            }
            (None, Meaning::Between(_)) => {
                let mut names: Vec<String> = {
                    let tree = self.tree();
                    let names = tree.names(parent).ok_or(Errno::ENOENT)?;
                    names.into_iter().map(str::to_owned).collect()
                };
                names.push(plain.to_owned());
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                match self.top.place(&names).map_err(|error| errno(&error))? {
                    Meaning::Between(_) => Shape::Between,
                    Meaning::Cloud(path) => self.look(&path)?,
                }
            }
            (None, Meaning::Cloud(_)) => self.look(&self.path(parent, name)?)?,
        };
        Ok(self.enter(parent, plain, &shape))
    }

    /// Tells the kernel of a name.
    fn enter(&self, parent: u64, name: &str, shape: &Shape) -> FileAttr {
        let number = self.tree().enter(parent, name, shape.is_directory());
        self.attributes(number, shape)
    }

    fn open_file(&self, number: u64, flags: OpenFlags, pid: u32) -> Answer<(u64, FopenFlags)> {
        let Meaning::Cloud(path) = self.place(number)? else { return Err(Errno::EISDIR) };
        let is_written = flags.acc_mode() != OpenAccMode::O_RDONLY;
        let is_emptied = OFlags::from_bits_retain(flags.0.cast_unsigned()).contains(OFlags::TRUNC);
        if is_written || is_emptied {
            self.check_writable(&path)?;
        }
        let draft = self.tree().node(number).and_then(|node| node.draft.clone());
        let draft = match draft {
            None if !is_written && !is_emptied => return self.open_content(number, path),
            Some(draft) if !is_written && !is_emptied => {
                if let Some(node) = self.tree().node_mut(number) {
                    node.opens += 1;
                }
                return Ok((self.hold(Handle::Peek { number, draft }), FopenFlags::empty()));
            }
            Some(draft) => draft,
            None => {
                let content = Arc::new(Content::new(path.clone(), self.content(&path)?));
                let fresh = Draft::change(&self.scratch, content).map_err(|error| local(&error))?;
                Arc::new(fresh)
            }
        };
        let (key, draft) = self.hold_draft(number, draft, pid);
        if is_emptied && let Err(error) = draft.set_length(&self.remote, 0) {
            self.let_go(FileHandle(key));
            return Err(errno(&error));
        }
        Ok((key, FopenFlags::empty()))
    }

    fn content(&self, path: &PfsPath) -> Answer<Entry> {
        // The kernel, which believes that there is a file, looks for it again when it hears that.
        let entry = self.remote.stat(path).map_err(|error| match error.kind() {
            Kind::NotFound => stale(&error),
            _ => errno(&error),
        })?;
        match entry.kind {
            EntryKind::File => Ok(entry),
            EntryKind::Directory => Err(Errno::EISDIR),
            EntryKind::Link | EntryKind::Other => Err(Errno::EACCES),
        }
    }

    /// Opens what the cloud has now. The kernel keeps its pages if they are of the same content;
    /// while somebody reads an older one, they are not shared.
    fn open_content(&self, number: u64, path: PfsPath) -> Answer<(u64, FopenFlags)> {
        let entry = self.content(&path)?;
        let mut tree = self.tree();
        let node = tree.node_mut(number).ok_or(Errno::ENOENT)?;
        let is_same = node.cached.as_ref() == Some(&entry.etag);
        let flags = match (is_same, node.opens) {
            (true, _) => FopenFlags::FOPEN_KEEP_CACHE,
            (false, 0) => {
                node.cached = Some(entry.etag.clone());
                FopenFlags::empty()
            }
            (false, _) => FopenFlags::FOPEN_DIRECT_IO,
        };
        node.opens += 1;
        drop(tree);
        let content = Arc::new(Content::new(path, entry));
        Ok((self.hold(Handle::Read { number, content }), flags))
    }

    /// The handle of a writer, and what they write to.
    fn hold_draft(&self, number: u64, draft: Arc<Draft>, pid: u32) -> (u64, Arc<Draft>) {
        let mut tree = self.tree();
        let draft = match tree.node_mut(number) {
            Some(node) => {
                node.opens += 1;
                node.cached = None;
                // Somebody else may have begun to write meanwhile.
                Arc::clone(node.draft.get_or_insert(draft))
            }
            None => draft,
        };
        drop(tree);
        let (own, opener) = (Arc::clone(&draft), process(pid));
        (self.hold(Handle::Write { number, draft: own, opener, is_opener_done: false }), draft)
    }

    fn hold(&self, handle: Handle) -> u64 {
        let key = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.handles().insert(key, handle);
        key
    }

    fn handle(&self, key: FileHandle) -> Answer<Handle> {
        self.handles().get(&key.0).cloned().ok_or(Errno::EBADF)
    }

    /// Sends a draft to where its name leads now; one without a name goes with its last user.
    fn publish(&self, number: u64, draft: &Draft) -> Result<()> {
        let place = self.place(number);
        match place {
            Ok(Meaning::Cloud(path)) => draft.publish(&self.remote, &path),
            _ => Ok(()),
        }
    }

    /// A file is closed by one of those who have it.
    ///
    /// A program gives its open files to those that it starts. When one of these ends, the file is
    /// not complete as long as the program itself has it: `(first; second) > file` is one file. Nor
    /// is it when a program closes one of two descriptors, as `dd` does before it begins.
    fn close(&self, key: FileHandle, pid: u32) -> Answer<()> {
        let closer = process(pid);
        let (number, opener) = match self.handle(key)? {
            Handle::Write { number, opener, .. } => (number, opener),
            Handle::Read { .. } | Handle::Peek { .. } | Handle::Directory(_) => return Ok(()),
        };
        if closer == opener && self.is_open_in(closer, number) {
            return Ok(());
        }
        let (number, draft) = {
            let mut handles = self.handles();
            let Some(Handle::Write { number, draft, opener, is_opener_done }) =
                handles.get_mut(&key.0)
            else {
                return Ok(());
            };
            *is_opener_done |= closer == *opener || !is_alive(*opener);
            if !*is_opener_done {
                return Ok(());
            }
            (*number, Arc::clone(draft))
        };
        match is_killed(pid) {
            true => self.keep_aside(number, &draft),
            false => self.publish(number, &draft),
        }
        .map_err(|error| self.told(&error))
    }

    /// Sends what a killed program has written, which may be half of it, to a hidden name, so that
    /// it takes the place of nothing and is not lost either.
    fn keep_aside(&self, number: u64, draft: &Draft) -> Result<()> {
        let Ok(Meaning::Cloud(path)) = self.place(number) else { return Ok(()) };
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
        let short: String = name.chars().take(NAME_BYTES_MAX / 5).collect();
        let aside = above.join(&format!(".{short}.killed"))?;
        if draft.keep_aside(&self.remote, &aside)? {
            (self.notice)(&format!(
                "a program was killed while it wrote {path}: what it wrote is in {aside}"
            ));
        }
        Ok(())
    }

    /// Whether a process has a descriptor of a file, by the names that the kernel gives them.
    ///
    /// A process that closes files because it becomes another program cannot be looked at before
    /// it has closed them, so it is looked at for a moment only.
    fn is_open_in(&self, process: u32, number: u64) -> bool {
        let below = {
            let tree = self.tree();
            let Some(names) = tree.names(number) else { return false };
            names.iter().collect::<PathBuf>()
        };
        let here = self.directory.join(&below);
        // A job sees its files at other places than this machine does.
        let elsewhere = Path::new("/pfs").join(&below);
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let place = |whose: &str| std::fs::read_link(format!("/proc/{whose}/ns/mnt")).ok();
            let is_here = place("self") == place(&process.to_string());
            let name = if is_here { here } else { elsewhere };
            let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
            let mut links =
                open.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
            // Nobody waits any more if this took too long.
            let _ = sender.send(links.any(|link| link == name));
        });
        receiver.recv_timeout(LOOK).unwrap_or(false)
    }

    /// The last user of a handle is gone. Nobody can be told of a failure but by the log.
    fn let_go(&self, key: FileHandle) {
        let Some(handle) = self.handles().remove(&key.0) else { return };
        let number = match handle {
            Handle::Directory(_) => return,
            Handle::Read { number, .. } | Handle::Peek { number, .. } => number,
            Handle::Write { number, draft, .. } => {
                // Another writer's close will say what became of it.
                if draft.is_owed()
                    && !self.has_writer(number)
                    && let Err(error) = self.publish(number, &draft)
                {
                    let names = self.tree().names(number).map(|names| names.join("/"));
                    let name = names.unwrap_or_default();
                    (self.notice)(&format!("{name} is lost: {}", error.chain()));
                }
                number
            }
        };
        let is_still_read = match self.tree().node_mut(number) {
            Some(node) => {
                node.opens = node.opens.saturating_sub(1);
                node.opens > 0 && node.draft.is_some()
            }
            None => false,
        };
        // Until then they read what was written from here.
        if is_still_read && !self.has_writer(number) {
            self.renew_readers(number);
        }
        let mut tree = self.tree();
        if let Some(node) = tree.node_mut(number) {
            let is_written = node.opens > 0 && node.draft.is_some();
            if !(is_written && self.has_writer(number)) {
                node.draft = None;
            }
        }
        tree.drop_unused(number);
    }

    /// Those who still read a file that was written to by others of this machine go on with what it
    /// is now, as with a file on a disk.
    fn renew_readers(&self, number: u64) {
        let is_reader = |handle: &Handle| match handle {
            Handle::Read { number: own, content } => *own == number && !content.is_kept(),
            _ => false,
        };
        if !self.handles().values().any(is_reader) {
            return;
        }
        let Ok(Meaning::Cloud(path)) = self.place(number) else { return };
        let Ok(entry) = self.remote.stat(&path) else { return };
        let now = Arc::new(Content::new(path, entry));
        for handle in self.handles().values_mut().filter(|handle| is_reader(handle)) {
            *handle = Handle::Read { number, content: Arc::clone(&now) };
        }
    }

    fn has_writer(&self, number: u64) -> bool {
        let is_writer =
            |handle: &Handle| matches!(handle, Handle::Write { number: own, .. } if *own == number);
        self.handles().values().any(is_writer)
    }

    /// The code of an error, whose words go to the log.
    fn told(&self, error: &Error) -> Errno {
        (self.notice)(&error.chain());
        errno(error)
    }

    /// As [`Cloud::told`], of a content that was to be read, also to change a part of it.
    fn told_of_content(&self, error: &Error) -> Errno {
        (self.notice)(&error.chain());
        stale(error)
    }

    fn list(&self, number: u64) -> Answer<Vec<(String, Shape)>> {
        let mut shapes: Vec<(String, Shape)> = match self.place(number)? {
            Meaning::Between(names) => {
                names.into_iter().map(|name| (name, Shape::Between)).collect()
            }
            Meaning::Cloud(path) => {
                let listing: Listing = self.remote.list(&path).map_err(|error| errno(&error))?;
                let entries = listing.iter();
                entries.map(|(name, entry)| (name.clone(), Shape::Entry(entry.clone()))).collect()
            }
        };
        let drafts = self.tree().drafts(number);
        for (name, draft) in drafts {
            shapes.retain(|(known, _)| *known != name);
            shapes.push((name, Shape::Draft(draft.facts())));
        }
        Ok(shapes)
    }

    fn change(&self, number: u64, wish: &Wish) -> Answer<Shape> {
        let Wish { mode, bytes, modified } = *wish;
        if mode.is_none() && bytes.is_none() && modified.is_none() {
            return self.shape(number);
        }
        let Meaning::Cloud(path) = self.place(number)? else { return Err(Errno::EPERM) };
        self.check_writable(&path)?;
        let failed = |error: Error| self.told(&error);
        let open = self.tree().node(number).and_then(|node| node.draft.clone());
        if let Some(draft) = &open {
            if let Some(bytes) = bytes {
                let cut = draft.set_length(&self.remote, bytes);
                cut.map_err(|error| self.told_of_content(&error))?;
            }
            if draft.dress(mode, modified) {
                return Ok(Shape::Draft(draft.facts()));
            }
        } else if let Some(bytes) = bytes {
            let content = Arc::new(Content::new(path.clone(), self.content(&path)?));
            let draft = Draft::change(&self.scratch, content).map_err(|error| local(&error))?;
            let cut = draft.set_length(&self.remote, bytes);
            cut.map_err(|error| self.told_of_content(&error))?;
            draft.dress(mode, modified);
            draft.publish(&self.remote, &path).map_err(failed)?;
            return self.look(&path);
        }
        if mode.is_some() || modified.is_some() {
            self.dress(&path, mode, modified).map_err(failed)?;
            if let Some(draft) = &open {
                // It may have another etag now, although its content is the same.
                draft.rebase(&path, self.content(&path)?);
            }
        }
        self.shape(number)
    }

    /// Permissions and time of what is in the cloud. Stores that cannot change them get the file
    /// again.
    fn dress(&self, path: &PfsPath, mode: Option<u32>, at: Option<SystemTime>) -> Result<()> {
        let ms = at.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis());
        let ms = ms.and_then(|ms| u64::try_from(ms).ok());
        match self.remote.dress(path, mode.map(|mode| mode & 0o777), ms) {
            Err(error) if error.kind() == Kind::Unsupported => {
                let entry = self.remote.stat(path)?;
                let is_usual = mode.is_none_or(|mode| mode & 0o777 == DIRECTORY_MODE);
                match entry.kind {
                    EntryKind::File => {}
                    // It keeps nothing of directories: they have the usual permissions, and no time.
                    EntryKind::Directory if is_usual => return Ok(()),
                    _ => return Err(error),
                }
                let content = Arc::new(Content::new(path.clone(), entry));
                let draft = Draft::change(&self.scratch, content)
                    .map_err(|source| Error::io("cannot copy a file", source))?;
                draft.resend(&self.remote)?;
                draft.dress(mode, at);
                draft.publish(&self.remote, path)
            }
            dressed => dressed.map(|_| ()),
        }
    }

    pub(crate) fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handles(&self) -> MutexGuard<'_, HashMap<u64, Handle>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be changed of a file.
struct Wish {
    mode: Option<u32>,
    bytes: Option<u64>,
    modified: Option<SystemTime>,
}

impl Shape {
    fn is_directory(&self) -> bool {
        match self {
            Shape::Between => true,
            Shape::Entry(entry) => entry.is_directory(),
            Shape::Draft(_) => false,
        }
    }
}

/// Names of the cloud are UTF-8.
fn text(name: &OsStr) -> Answer<&str> {
    name.to_str().ok_or(Errno::EINVAL)
}

/// The process that a thread belongs to.
fn process(thread: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(thread)
}

/// Whether a thread ends because its process was killed by a signal. In a process that ends by itself
/// the kernel kills the other threads, too; the exit code is that of the process in both cases.
fn is_killed(thread: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    // The name of the program may have anything in it.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let field = |at: usize| fields.split_whitespace().nth(at)?.parse::<u32>().ok();
    let is_ending = field(6).is_some_and(|flags| flags & ENDING != 0);
    is_ending && field(49).is_some_and(|code| code & SIGNAL != 0)
}

/// `PF_EXITING` of the kernel's flags.
const ENDING: u32 = 0x4;
/// The signal in an exit code.
const SIGNAL: u32 = 0x7f;

fn is_alive(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}

const NEVER: Generation = Generation(0);
