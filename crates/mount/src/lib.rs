//! The users' files of a cloud as a file system of this machine, by FUSE: the same
//! `/pfs/<datacenter>/home/<user>` and `/pfs/<datacenter>/public`, below any directory.
//!
//! A file is written to this machine first and appears in the cloud whole, when it is closed or
//! synced; that it could not is what `close` and `fsync` say. What is read was opened: of a file
//! that is replaced meanwhile a reader gets the rest of the old content or an error, never a mix.
//! A server that is away is waited for within the client's patience, then there is an error.
//!
//! It knows the cloud by the `client` alone, and neither the environment nor the terminal.
#![cfg(target_os = "linux")]

mod blocks;
mod content;
mod draft;
mod errno;
mod filesystem;
mod place;
mod remote;
mod tree;

use blocks::Blocks;
use client::Client;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use filesystem::Cloud;
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use place::Top;
use remote::Remote;
use rustix::mount::{UnmountFlags, unmount};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tree::Tree;

/// What is mounted where.
#[derive(Debug, Clone)]
pub struct Options {
    /// An empty directory.
    pub directory: PathBuf,
    /// Only this directory of the cloud; absent for everything that the user sees.
    pub part: Option<PfsPath>,
    /// The user and group that everything seems to belong to.
    pub owner: (u32, u32),
    /// Whether other users of this machine may use it, as far as permissions of files let them.
    pub allow_other: bool,
    /// Whether nothing may be changed.
    pub is_read_only: bool,
    /// The most bytes of contents that are kept in memory.
    pub cache_bytes: u64,
    /// A directory for files that are being written.
    pub scratch: PathBuf,
    /// Is told what no program can be told: files that were lost, and why something failed.
    pub notice: fn(&str),
}

/// A file system that is there.
pub struct Mounted {
    session: Session<Cloud>,
    unmounter: SessionUnmounter,
    directory: PathBuf,
    tree: Arc<Mutex<Tree>>,
    notice: fn(&str),
}

/// Requests that are answered at the same time. One that sends a large file takes a while.
const THREADS: usize = 16;
/// How long programs that have files open may take to close them when it is unmounted.
const LEAVE: Duration = Duration::from_secs(30);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Mounts the files of a user.
///
/// # Errors
/// The server cannot be asked, the directory cannot be used, or this machine has no FUSE.
pub fn mount(client: Client, options: Options) -> Result<Mounted> {
    check_directory(&options.directory)?;
    let directory = options.directory.canonicalize().map_err(unusable(&options.directory))?;
    let top = match &options.part {
        Some(part) => {
            if !client.stat(part)?.is_directory() {
                let message = "only a directory can be mounted";
                return Err(Error::invalid(message).with("path", part));
            }
            Top::Part(part.clone())
        }
        None => Top::Whole {
            home: client.home()?,
            public: PfsPath::public(&client.datacenter_name()?)?,
        },
    };
    let is_admin = client.whoami()?.user.is_admin;
    let name = format!("paddlecloud:{}", client.datacenter_name()?);
    let remote = Arc::new(Remote::new(client));
    let tree = Arc::new(Mutex::new(Tree::new()));
    let cloud = Cloud {
        blocks: Blocks::new(Arc::clone(&remote), options.cache_bytes),
        remote,
        top,
        owner: options.owner,
        is_admin,
        scratch: options.scratch,
        directory: directory.clone(),
        notice: options.notice,
        tree: Arc::clone(&tree),
        handles: Mutex::new(HashMap::new()),
        next_handle: AtomicU64::new(Cloud::TOP),
    };
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(name),
        MountOption::Subtype("paddlecloud".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
    ];
    if options.is_read_only {
        config.mount_options.push(MountOption::RO);
    }
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    let mut session = Session::new(cloud, &directory, &config).map_err(refused(&directory))?;
    let unmounter = session.unmount_callable();
    Ok(Mounted { session, unmounter, directory, tree, notice: options.notice })
}

impl Mounted {
    /// Answers the kernel until somebody unmounts it, or a signal asks for the end (interrupt,
    /// terminate, hang up).
    ///
    /// # Errors
    /// Files were not closed when it had to end: they are lost, and whoever writes to them is told.
    pub fn run(self) -> Result<()> {
        let Mounted { session, mut unmounter, directory, tree, notice } = self;
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|source| Error::io("signals cannot be waited for", source))?;
        let (sender, receiver) = channel();
        let ended = sender.clone();
        std::thread::spawn(move || {
            let _ = ended.send(Event::Ended(session.run()));
        });
        std::thread::spawn(move || {
            for _ in signals.forever() {
                if sender.send(Event::Signal).is_err() {
                    return;
                }
            }
        });
        let broken = |source| Error::io("the file system broke", source);
        match receiver.recv() {
            Ok(Event::Ended(result)) => return result.map_err(broken),
            Ok(Event::Signal) | Err(_) => {}
        }
        // Nothing new is opened from here on; what is open may still be closed.
        if unmounter.unmount().is_err() && unmount(&directory, UnmountFlags::DETACH).is_err() {
            notice(&format!("cannot unmount {}", directory.display()));
        }
        let asked = Instant::now();
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(Event::Ended(result)) => return result.map_err(broken),
                Ok(Event::Signal) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if asked.elapsed() >= LEAVE => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        match tree.lock().unwrap_or_else(PoisonError::into_inner).has_drafts() {
            true => {
                let message = "files were still written to when it was unmounted: they are lost";
                Err(Error::new(Kind::Conflict, message).with("directory", directory.display()))
            }
            false => Ok(()),
        }
    }
}

enum Event {
    Ended(std::io::Result<()>),
    Signal,
}

fn check_directory(directory: &Path) -> Result<()> {
    let mut entries = std::fs::read_dir(directory).map_err(|source| match source.kind() {
        ErrorKind::NotConnected => {
            let message = "an earlier mount is still there, without a server: unmount it first by \
                           `umount -l` or `fusermount3 -uz`";
            Error::new(Kind::Conflict, message).with("directory", directory.display())
        }
        ErrorKind::NotADirectory => {
            Error::invalid("this is no directory").with("directory", directory.display())
        }
        _ => unusable(directory)(source),
    })?;
    match entries.next() {
        None => Ok(()),
        Some(_) => {
            let message = "the directory is not empty: what is in it would be hidden";
            Err(Error::new(Kind::Conflict, message).with("directory", directory.display()))
        }
    }
}

fn unusable(directory: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| {
        Error::io("the directory cannot be used", source).with("directory", directory.display())
    }
}

fn refused(directory: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| {
        let message = match source.kind() {
            ErrorKind::NotFound => {
                "this machine has no FUSE: it needs /dev/fuse, and fusermount3 (package fuse3) for \
                 users other than root"
            }
            ErrorKind::PermissionDenied => {
                "not permitted: without root it needs fusermount3 (package fuse3); --allow-other \
                 needs user_allow_other in /etc/fuse.conf"
            }
            _ => "it cannot be mounted",
        };
        Error::io(message, source).with("directory", directory.display())
    }
}
