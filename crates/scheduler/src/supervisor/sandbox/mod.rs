//! A root of its own for one replica: what it sees of the machine, and how that is made.
//!
//! It is made on a thread, which must end after the replica was started from it. The thread leaves
//! the mount namespace of its process; what it mounts is seen by itself and the replica alone, and
//! goes with the last process of the replica, however that ends. The replica's user may write to
//! the whole root: what it writes there is kept in memory, up to a limit, and counts as the
//! replica's. So nothing is left on disk, and no disk can be filled.
//!
//! Paths in the new root are resolved as the replica would resolve them, links included; nothing
//! outside of it is reached through a link.

mod layout;
mod user;

pub(super) use user::{give_up_privileges, with_rights_of};

use super::message::Root;
use super::namespace::unshare;
use crate::submission::{RunAs, Sandbox};
use layout::{Kind, Step, Wish};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, StatVfsMountFlags, Uid, chmodat, chownat,
    fstatvfs, mkdirat, openat, openat2,
};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change,
    mount_remount, unmount,
};
use rustix::process::{chdir, fchdir, pivot_root};
use rustix::thread::UnshareFlags;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Gives this thread a root of its own, as `root` describes it, and returns it. `directory` is an
/// empty one to mount things on; nothing of it is seen outside. `bytes_max` is the most that can be
/// written to the root.
///
/// # Errors
/// What cannot be had, in a sentence. The thread must not be used any further then.
pub(super) fn enter(
    root: &Root,
    run_as: RunAs,
    directory: &Path,
    bytes_max: u64,
) -> Result<OwnedFd, String> {
    if !unshare(UnshareFlags::NEWNS | UnshareFlags::NEWIPC) {
        return Err("it cannot have a mount namespace of its own".to_owned());
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(|errno| failed("make its mounts private", errno))?;
    let builder = Builder::open(directory, run_as, bytes_max)?;
    builder.fill(root)?;
    builder.finish()
}

/// Makes a root on a thread that is thrown away, to find out whether that is permitted here.
pub(crate) fn try_out(root: &Root, run_as: RunAs, directory: &Path) -> Result<(), String> {
    const BYTES_MAX: u64 = 1 << 20;
    let tried = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(root, run_as, directory, BYTES_MAX)?;
            match unshare(UnshareFlags::NEWPID) {
                true => Ok(()),
                false => Err("it cannot have a PID namespace of its own".to_owned()),
            }
        });
        thread.join()
    });
    tried.unwrap_or_else(|_| Err("its thread was lost".to_owned()))
}

/// A sentence about something that could not be done.
fn failed(what: impl AsRef<str>, why: impl std::fmt::Display) -> String {
    format!("its sandbox cannot be made: cannot {}: {why}", what.as_ref())
}

/// A root that is being made. The current directory is the file system that holds what is written
/// to it.
struct Builder {
    root: OwnedFd,
    run_as: RunAs,
}

/// Devices that every program may use. There is no terminal among them: whoever can write to the
/// one of its launcher can type commands there.
const DEVICES: [&str; 5] = ["full", "null", "random", "urandom", "zero"];
/// As udev makes them.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];
/// For everybody, each removing only what is theirs.
const SHARED: u32 = 0o1777;
/// To be read by everybody.
const READABLE: u32 = 0o755;

impl Builder {
    fn open(directory: &Path, run_as: RunAs, bytes_max: u64) -> Result<Builder, String> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let scratch = format!("mode=755,size={bytes_max}");
        let scratch = CString::new(scratch).map_err(|error| failed("limit it", error))?;
        mount("scratch", directory, "tmpfs", flags, scratch.as_c_str())
            .map_err(|errno| failed("have memory for its files", errno))?;
        chdir(directory).map_err(|errno| failed("use its directory", errno))?;
        make_directory("upper", READABLE, Some(run_as))?;
        for name in ["work", "root", "empty"] {
            make_directory(name, READABLE, None)?;
        }
        // Relative paths have none of the characters that would end an option.
        let layers = c"lowerdir=/,upperdir=upper,workdir=work";
        mount("overlay", "root", "overlay", flags, layers)
            .map_err(|errno| failed("lay an overlay over /", errno))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, "root", flags, Mode::empty())
            .map_err(|errno| failed("open its root", errno))?;
        Ok(Builder { root, run_as })
    }

    fn fill(&self, root: &Root) -> Result<(), String> {
        let text = fs::read_to_string("/proc/self/mountinfo")
            .map_err(|error| failed("read the machine's mounts", error))?;
        let wish = Wish {
            exposed: &exposed(&root.sandbox)?,
            hidden: &root.sandbox.hidden,
            mounts: &root.mounts,
            kept: &root.kept,
            machine: &layout::mount_points(&text),
        };
        let may_enter = |path: &Path| match fs::metadata(path) {
            Ok(directory) => user::may_enter(self.run_as, &directory),
            Err(_) => false,
        };
        self.make_private(&root.devices)?;
        for (number, step) in layout::layout(&wish, may_enter).iter().enumerate() {
            let done = self.take(step, number);
            // What the machine has mounted besides may be of any kind; it is missing then.
            if step.kind != Kind::Machine {
                done?;
            }
        }
        for (path, text) in &root.files {
            self.write(path, text)
                .map_err(|why| failed(format!("write {}", path.display()), why))?;
        }
        Ok(())
    }

    /// What is not the machine's: processes, devices, temporary files.
    fn make_private(&self, devices: &[PathBuf]) -> Result<(), String> {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        mount("proc", name_of(&self.directory(Path::new("/proc"))?), "proc", flags, c"hidepid=2")
            .map_err(|errno| failed("mount its /proc", errno))?;
        self.bind(Path::new("/sys"), Path::new("/sys"), true)?;
        self.bind(&make_directory("run", READABLE, Some(self.run_as))?, Path::new("/run"), false)?;
        self.bind(&make_directory("tmp", SHARED, None)?, Path::new("/tmp"), false)?;
        self.bind(&make_directory("var", SHARED, None)?, Path::new("/var/tmp"), false)?;
        let devices: Vec<PathBuf> = DEVICES
            .iter()
            .map(|name| Path::new("/dev").join(name))
            .chain(devices.to_vec())
            .collect();
        self.bind(&make_devices(&devices)?, Path::new("/dev"), false)?;
        for device in devices {
            let fail = |errno| failed(format!("show {}", device.display()), errno);
            // The only mounts on which devices work, each of one file.
            mount_bind(&device, name_of(&self.resolve(&device).map_err(fail)?)).map_err(fail)?;
        }
        Ok(())
    }

    fn take(&self, step: &Step, number: usize) -> Result<(), String> {
        let source = match &step.source {
            Some(source) => source.clone(),
            None => make_directory(&format!("empty/{number}"), READABLE, None)?,
        };
        self.bind(&source, &step.target, step.is_read_only && step.source.is_some())
    }

    /// Shows a directory or a file at a path of the root.
    fn bind(&self, source: &Path, target: &Path, is_read_only: bool) -> Result<(), String> {
        let fail =
            |why: Errno| failed(format!("show {} at {}", source.display(), target.display()), why);
        // No link is followed: a directory that a job writes to may have been replaced by one.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let from =
            openat2(CWD, source, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).map_err(fail)?;
        let at = match fs::metadata(name_of(&from)).is_ok_and(|source| source.is_dir()) {
            true => self.directory(target)?,
            false => self.resolve(target).map_err(fail)?,
        };
        mount_bind(name_of(&from), name_of(&at)).map_err(fail)?;
        // The mount is found only by looking again.
        let mounted = self.resolve(target).map_err(fail)?;
        let inherited = fstatvfs(&mounted).map_err(fail)?.f_flag;
        let mut flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
        if is_read_only || inherited.contains(StatVfsMountFlags::RDONLY) {
            flags |= MountFlags::RDONLY;
        }
        if inherited.contains(StatVfsMountFlags::NOEXEC) {
            flags |= MountFlags::NOEXEC;
        }
        mount_remount(name_of(&mounted), flags, c"").map_err(fail)
    }

    /// A path as the replica will resolve it.
    fn resolve(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        openat2(&self.root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)
    }

    /// A directory of the root, which is made if it is missing.
    fn directory(&self, path: &Path) -> Result<OwnedFd, String> {
        let fail = |errno| failed(format!("make {} in its root", path.display()), errno);
        let mut so_far = PathBuf::from("/");
        let mut parent = self.resolve(&so_far).map_err(fail)?;
        for part in path.components() {
            let Component::Normal(name) = part else { continue };
            so_far.push(name);
            parent = match self.resolve(&so_far) {
                Err(Errno::NOENT) => {
                    mkdirat(&parent, name, Mode::from_raw_mode(READABLE)).map_err(fail)?;
                    chmodat(&parent, name, Mode::from_raw_mode(READABLE), AtFlags::empty())
                        .map_err(fail)?;
                    self.resolve(&so_far).map_err(fail)?
                }
                found => found.map_err(fail)?,
            };
        }
        Ok(parent)
    }

    /// A file at the top of the root, which belongs to the replica's user.
    fn write(&self, path: &Path, text: &str) -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let file = openat2(&self.root, path, flags, mode, ResolveFlags::IN_ROOT)?;
        rustix::fs::fchown(&file, owner(self.run_as), group(self.run_as))?;
        std::io::Write::write_all(&mut fs::File::from(file), text.as_bytes())
    }

    /// Makes it the root of this thread. Nothing of the machine's own is left then.
    fn finish(self) -> Result<OwnedFd, String> {
        let fail = |errno| failed("change to its root", errno);
        fchdir(&self.root).map_err(fail)?;
        // Both roots are mounted at one place for a moment, the old one on top.
        pivot_root(".", ".").map_err(fail)?;
        unmount(".", UnmountFlags::DETACH).map_err(fail)?;
        chdir("/").map_err(fail)?;
        Ok(self.root)
    }
}

fn owner(run_as: RunAs) -> Option<Uid> {
    Some(Uid::from_raw(run_as.uid))
}

fn group(run_as: RunAs) -> Option<Gid> {
    Some(Gid::from_raw(run_as.gid))
}

/// A directory in the current one, whatever the umask. Its path from the root comes back: the
/// current directory is no link.
fn make_directory(name: &str, mode: u32, user: Option<RunAs>) -> Result<PathBuf, String> {
    let fail = |errno| failed(format!("make {name}"), errno);
    mkdirat(CWD, name, Mode::from_raw_mode(0o700)).map_err(fail)?;
    chmodat(CWD, name, Mode::from_raw_mode(mode), AtFlags::empty()).map_err(fail)?;
    if let Some(run_as) = user {
        chownat(CWD, name, owner(run_as), group(run_as), AtFlags::empty()).map_err(fail)?;
    }
    Ok(PathBuf::from(name))
}

/// A `/dev` with places for these devices.
fn make_devices(devices: &[PathBuf]) -> Result<PathBuf, String> {
    let directory = make_directory("dev", READABLE, None)?;
    make_directory("dev/shm", SHARED, None)?;
    for device in devices {
        let name = device.file_name().unwrap_or_default();
        fs::write(directory.join(name), "")
            .map_err(|error| failed(format!("make {}", device.display()), error))?;
    }
    for (name, target) in DEVICE_LINKS {
        std::os::unix::fs::symlink(target, directory.join(name))
            .map_err(|error| failed(format!("make /dev/{name}"), error))?;
    }
    Ok(directory)
}

/// The directories to expose, each with the path at which it is seen: its own, and the one under
/// which it is known if a link leads there.
fn exposed(sandbox: &Sandbox) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let mut exposed = Vec::new();
    for path in &sandbox.exposed {
        let real = path
            .canonicalize()
            .map_err(|error| failed(format!("expose {}", path.display()), error))?;
        if real != *path {
            exposed.push((real.clone(), path.clone()));
        }
        exposed.push((real.clone(), real));
    }
    Ok(exposed)
}

/// The name by which the kernel finds an open file again.
fn name_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
