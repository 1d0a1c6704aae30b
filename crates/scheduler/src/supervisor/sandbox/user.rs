//! Another user than root: doing something with its rights, and becoming it for good.

use crate::submission::RunAs;
use rustix::process::{getegid, getgroups};
use rustix::thread::{
    CapabilitySet, remove_capability_from_bounding_set, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use rustix::{fs::Gid, fs::Uid};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// Does something with the rights of a user, on this thread: the kernel decides what that user may
/// open, whatever links it has prepared. Only the effective ids change, so that the user's own
/// processes can neither signal nor trace this one.
pub(in crate::supervisor) fn with_rights_of<T>(
    run_as: RunAs,
    work: impl FnOnce() -> T,
) -> rustix::io::Result<T> {
    let (group, groups) = (getegid(), getgroups()?);
    set_thread_groups(&[])?;
    set_thread_res_gid(None::<Gid>, Gid::from_raw(run_as.gid), None::<Gid>)?;
    set_thread_res_uid(None::<Uid>, Uid::from_raw(run_as.uid), None::<Uid>)?;
    let outcome = work();
    set_thread_res_uid(None::<Uid>, Uid::ROOT, None::<Uid>)?;
    set_thread_res_gid(None::<Gid>, group, None::<Gid>)?;
    set_thread_groups(&groups)?;
    Ok(outcome)
}

/// Takes from this thread, and from what it starts, every way to more rights than its user has:
/// programs with a setuid bit or capabilities are run without them.
pub(in crate::supervisor) fn give_up_privileges() -> rustix::io::Result<()> {
    set_no_new_privs(true)?;
    for bit in 0..u64::BITS {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)) {
            Ok(()) => {}
            // There are no more.
            Err(rustix::io::Errno::INVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Whether the user may enter a directory, by its owner, its group and its mode.
pub(super) fn may_enter(run_as: RunAs, directory: &Metadata) -> bool {
    let shift = if directory.uid() == run_as.uid {
        6
    } else if directory.gid() == run_as.gid {
        3
    } else {
        0
    };
    directory.mode() >> shift & 0o1 != 0
}
