//! What the kernel asks, one function each, and the answers.

use super::{
    Answer, Cloud, FRAGMENT_BYTES, Handle, NEVER, REQUEST_BYTES, Shape, UNLIMITED_BYTES, Wish, text,
};
use crate::draft::Draft;
use crate::errno::{errno, local, stale};
use crate::remote::FRESH;
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::SystemTime;

impl Filesystem for Cloud {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = [
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
        ];
        for capability in wanted {
            // Without one of them it is slower, and works.
            let _ = config.add_capabilities(capability);
        }
        let _ = config.set_max_write(REQUEST_BYTES);
        if let Err(most) = config.set_max_readahead(REQUEST_BYTES) {
            let _ = config.set_max_readahead(most);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent.0, name) {
            Ok(attributes) => reply.entry(&FRESH, &attributes, NEVER),
            Err(code) => reply.error(code),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.tree().forget(number.0, lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.shape(number.0) {
            Ok(shape) => reply.attr(&FRESH, &self.attributes(number.0, &shape)),
            Err(code) => reply.error(code),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        bytes: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Everything belongs to one user; nobody can be given anything.
        let is_other = |wanted: Option<u32>, own| wanted.is_some_and(|wanted| wanted != own);
        if is_other(uid, self.owner.0) || is_other(gid, self.owner.1) {
            return reply.error(Errno::EPERM);
        }
        let modified = modified.map(|time| match time {
            TimeOrNow::SpecificTime(time) => time,
            TimeOrNow::Now => SystemTime::now(),
        });
        let mode = mode.map(|mode| mode & 0o7777);
        match self.change(number.0, &Wish { mode, bytes, modified }) {
            Ok(shape) => reply.attr(&FRESH, &self.attributes(number.0, &shape)),
            Err(code) => reply.error(code),
        }
    }

    fn readlink(&self, _: &Request, _: INodeNo, reply: ReplyData) {
        // Links that a job has made are shown and removed, never followed.
        reply.error(Errno::EACCES);
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.writable(parent.0, name).and_then(|path| {
            let entry = self.remote.make_directory(&path).map_err(|error| self.told(&error))?;
            let wanted = mode & !umask & 0o777;
            // The home's own rules say what a directory may be; a store may have none.
            let entry = match entry.mode != 0 && entry.mode != wanted {
                true => self.remote.dress(&path, Some(wanted), None).unwrap_or(entry),
                false => entry,
            };
            Ok(self.enter(parent.0, text(name)?, &Shape::Entry(entry)))
        });
        match made {
            Ok(attributes) => reply.entry(&FRESH, &attributes, NEVER),
            Err(code) => reply.error(code),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.unlink_name(parent.0, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(reply, self.remove_directory(parent.0, name));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.move_name((parent.0, name), (new_parent.0, new_name), flags));
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.open_file(number.0, flags, request.pid()) {
            Ok((key, how)) => reply.opened(FileHandle(key), how),
            Err(code) => reply.error(code),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created = self.writable(parent.0, name).and_then(|path| {
            let flags = OFlags::from_bits_retain(flags.cast_unsigned());
            if flags.contains(OFlags::EXCL) && self.remote.stat(&path).is_ok() {
                return Err(Errno::EEXIST);
            }
            let draft = Draft::create(&self.scratch, mode & !umask & 0o777);
            let draft = Arc::new(draft.map_err(|error| local(&error))?);
            let shape = Shape::Draft(draft.facts());
            let attributes = self.enter(parent.0, text(name)?, &shape);
            let (key, _) = self.hold_draft(attributes.ino.0, draft, request.pid());
            Ok((attributes, key))
        });
        match created {
            Ok((attributes, key)) => {
                reply.created(&FRESH, &attributes, NEVER, FileHandle(key), FopenFlags::empty());
            }
            Err(code) => reply.error(code),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        key: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let draft = self.tree().node(number.0).and_then(|node| node.draft.clone());
        let bytes = self.handle(key).and_then(|handle| match (handle, draft) {
            (Handle::Write { draft, .. } | Handle::Peek { draft, .. }, _)
            | (Handle::Read { .. }, Some(draft)) => {
                draft.read(&self.blocks, offset, u64::from(size)).map_err(|error| stale(&error))
            }
            (Handle::Read { content, .. }, None) => {
                let read = self.blocks.read(&content, offset, u64::from(size));
                read.map_err(|error| self.told_of_content(&error))
            }
            (Handle::Directory(_), _) => Err(Errno::EISDIR),
        });
        match bytes {
            Ok(bytes) => reply.data(&bytes),
            Err(code) => reply.error(code),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        key: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.handle(key).and_then(|handle| match handle {
            Handle::Write { draft, .. } => {
                let written = draft.write(&self.remote, offset, bytes);
                written.map_err(|error| self.told_of_content(&error))
            }
            Handle::Read { .. } | Handle::Peek { .. } | Handle::Directory(_) => Err(Errno::EBADF),
        });
        match written {
            Ok(()) => reply.written(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
            Err(code) => reply.error(code),
        }
    }

    fn flush(
        &self,
        request: &Request,
        _: INodeNo,
        key: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        answer(reply, self.close(key, request.pid()));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        key: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.let_go(key);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, key: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.handle(key).and_then(|handle| match handle {
            Handle::Write { number, draft, .. } => {
                self.publish(number, &draft).map_err(|error| self.told(&error))
            }
            Handle::Read { .. } | Handle::Peek { .. } | Handle::Directory(_) => Ok(()),
        });
        answer(reply, synced);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // What is changed in a directory is changed in the cloud at once.
        reply.ok();
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(number.0) {
            Ok(shapes) => {
                let key = self.hold(Handle::Directory(Arc::new(shapes)));
                reply.opened(FileHandle(key), FopenFlags::empty());
            }
            Err(code) => reply.error(code),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        key: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Ok(Handle::Directory(shapes)) = self.handle(key) else {
            return reply.error(Errno::EBADF);
        };
        for (at, (name, shape)) in rows(&shapes, offset) {
            let known = self.tree().child(number.0, name).unwrap_or(u64::MAX);
            let kind = self.attributes(known, shape).kind;
            if reply.add(INodeNo(known), at, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        key: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let Ok(Handle::Directory(shapes)) = self.handle(key) else {
            return reply.error(Errno::EBADF);
        };
        for (at, (name, shape)) in rows(&shapes, offset) {
            let attributes = self.enter(number.0, name, shape);
            if reply.add(attributes.ino, at, name, &FRESH, &attributes, NEVER) {
                self.tree().forget(attributes.ino.0, 1);
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        key: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.let_go(key);
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let quota = match self.remote.quota() {
            Ok(quota) => quota,
            Err(error) => return reply.error(errno(&error)),
        };
        let used = quota.used.disk_bytes;
        let most =
            quota.limits.disk.map_or(used.saturating_add(UNLIMITED_BYTES), |most| most.bytes());
        let blocks = |bytes: u64| bytes / u64::from(FRAGMENT_BYTES);
        let free = blocks(most.saturating_sub(used));
        reply.statfs(blocks(most), free, free, 0, 0, FRAGMENT_BYTES, 255, FRAGMENT_BYTES);
    }
}

/// The rows of a directory behind an offset, each with its own. Programs do without `.` and `..`.
fn rows(shapes: &[(String, Shape)], offset: u64) -> impl Iterator<Item = (u64, &(String, Shape))> {
    (1..).zip(shapes).skip(usize::try_from(offset).unwrap_or(usize::MAX))
}

fn answer(reply: ReplyEmpty, done: Answer<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(code) => reply.error(code),
    }
}
