//! The PID namespace of a job, and what has to be done so that its processes do not notice.

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

/// Puts the next child of this process, and all of its descendants, into a PID namespace of their
/// own. Whether that is permitted. This process cannot start threads afterwards.
pub(super) fn enter_with_next_child() -> bool {
    unshare(UnshareFlags::NEWPID)
}

pub(super) fn unshare(flags: UnshareFlags) -> bool {
    #[expect(unsafe_code, reason = "rustix marks the call because of another flag, FILES")]
    // SAFETY: no caller passes FILES, so that all threads keep one table of file descriptors.
    unsafe {
        rustix::thread::unshare_unsafe(flags).is_ok()
    }
}

/// The processes as the world outside numbers them.
pub(super) struct Outside(OwnedFd);

impl Outside {
    /// Called by the first process of the namespace: gives it a `/proc` of its own, in which
    /// programs find themselves, and keeps a view of the one outside.
    pub(super) fn leave() -> Option<Outside> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = openat(CWD, "/proc", flags, Mode::empty()).ok()?;
        // What is mounted outside later is seen here; what is mounted here is not seen outside.
        let propagation = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        let is_done = unshare(UnshareFlags::NEWNS)
            && mount_change("/", propagation).is_ok()
            && mount("proc", "/proc", "proc", flags, None).is_ok();
        if !is_done {
            tracing::warn!("no /proc of its own: programs that look themselves up there may fail");
        }
        Some(Outside(proc))
    }

    /// How a child of this thread is numbered outside.
    pub(super) fn pid(&self, child: u32) -> Option<u32> {
        let children = self.read("thread-self/children")?;
        children.split_whitespace().find_map(|pid| {
            let status = self.read(&format!("{pid}/status"))?;
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
            let inside: u32 = numbers.split_whitespace().next_back()?.parse().ok()?;
            (inside == child).then(|| pid.parse().ok())?
        })
    }

    fn read(&self, path: &str) -> Option<String> {
        let file = openat(&self.0, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = String::new();
        File::from(file).read_to_string(&mut text).ok()?;
        Some(text)
    }
}
