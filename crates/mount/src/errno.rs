//! What a failure is called by the kernel: the one table.

use contract::{Error, Kind};
use fuser::Errno;
use rustix::io::Errno as Code;

/// The code of an error.
pub(crate) fn errno(error: &Error) -> Errno {
    of_kind(error.kind())
}

fn of_kind(kind: Kind) -> Errno {
    match kind {
        Kind::NotFound => Errno::ENOENT,
        Kind::AlreadyExists => Errno::EEXIST,
        Kind::Unauthenticated | Kind::Forbidden => Errno::EACCES,
        // The only states that refuse something here: a directory that has something in it, and a
        // content that is no longer the one that was opened, which `stale` tells apart.
        Kind::Conflict => Errno::ENOTEMPTY,
        Kind::LimitExceeded => code(Code::DQUOT),
        Kind::Unsupported => Errno::EOPNOTSUPP,
        Kind::Invalid => Errno::EINVAL,
        Kind::Interrupted => Errno::EINTR,
        _ => Errno::EIO,
    }
}

/// The code of a failed read: a file that was replaced has another content than was opened.
pub(crate) fn stale(error: &Error) -> Errno {
    match error.kind() {
        Kind::Conflict | Kind::NotFound => code(Code::STALE),
        kind => of_kind(kind),
    }
}

fn code(code: Code) -> Errno {
    Errno::from_i32(code.raw_os_error())
}

/// The code of a failure of this machine, such as a full disk.
pub(crate) fn local(error: &std::io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(Code::IO.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_code_that_programs_know() {
        let check = |kind, expect: Code| {
            assert_eq!(of_kind(kind).code(), expect.raw_os_error(), "{kind:?}");
        };
        check(Kind::NotFound, Code::NOENT);
        check(Kind::LimitExceeded, Code::DQUOT);
        check(Kind::Unavailable, Code::IO);
        check(Kind::Timeout, Code::IO);
        check(Kind::Forbidden, Code::ACCESS);
        let replaced = Error::new(Kind::Conflict, "the file was changed by somebody else");
        assert_eq!(stale(&replaced).code(), Code::STALE.raw_os_error());
        assert_eq!(errno(&replaced).code(), Code::NOTEMPTY.raw_os_error());
    }
}
