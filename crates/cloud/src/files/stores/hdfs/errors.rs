//! What HDFS says, in our words. It names the Java class of what went wrong.

use super::super::{OUTSIDE, disk_full, file_on_the_way, missing, not_empty};
use contract::path::PfsPath;
use contract::{Error, Kind};
use hdfs_native::HdfsError;

/// A question about a file or directory was refused.
pub(super) fn refused(error: HdfsError, path: &PfsPath) -> Error {
    let (class, text) = parts(&error);
    let is = |name: &str| class.ends_with(name);
    match &error {
        HdfsError::FileNotFound(_) => return missing(path),
        HdfsError::AlreadyExists(_) => return already(path),
        _ => {}
    }
    if is("FileNotFoundException") {
        return missing(path);
    }
    // Going through a file is told as a lack of permission.
    if is("ParentNotDirectoryException") || text.contains("is not a directory") {
        return file_on_the_way(path);
    }
    // A file and a directory cannot take each other's place.
    if is("FileAlreadyExistsException") || text.contains("must both be directories") {
        return already(path);
    }
    if is("PathIsNotEmptyDirectoryException") || text.contains("is not empty") {
        return not_empty(path);
    }
    if is("InvalidPathException") || is("PathComponentTooLongException") {
        let message = "HDFS cannot keep this name: it may not be too long, and not have a colon";
        return Error::invalid(message).with("path", path).because(error);
    }
    if is("AccessControlException") && path.datacenter() == OUTSIDE {
        let message = "HDFS does not let this user do that: look at fs_ugi, and at who may read and \
                       write there";
        return Error::new(Kind::Forbidden, message).with("path", path).because(error);
    }
    trouble(error).with("path", path)
}

/// HDFS refuses, and it is not about one file.
pub(super) fn trouble(error: HdfsError) -> Error {
    let (class, text) = parts(&error);
    if class.contains("QuotaExceeded") || text.contains("could only be written to 0 of") {
        return disk_full(std::io::Error::other(error.to_string()));
    }
    let (kind, message) = match class.as_str() {
        class if class.ends_with("AccessControlException") => {
            (Kind::Unavailable, "HDFS refuses the server's user: ask an administrator")
        }
        class if class.ends_with("SafeModeException") => {
            (Kind::Unavailable, "HDFS is in safe mode and takes no changes: try again later")
        }
        class if class.ends_with("StandbyException") => {
            (Kind::Unavailable, "HDFS changes its name node: try again")
        }
        _ => match &error {
            HdfsError::IOError(_) | HdfsError::DataTransferError(_) => {
                (Kind::Unavailable, "HDFS cannot be reached: try again")
            }
            _ => (Kind::Io, "HDFS refuses"),
        },
    };
    Error::new(kind, message).because(error)
}

/// What an administrator has to mend.
pub(super) fn told(error: HdfsError, user: &str) -> Error {
    let (class, _) = parts(&error);
    let (kind, message) = match &error {
        HdfsError::FileNotFound(_) => {
            (Kind::NotFound, "HDFS has no such directory: make it, or name another one in `files:`")
        }
        _ if class.ends_with("FileNotFoundException") => {
            (Kind::NotFound, "HDFS has no such directory: make it, or name another one in `files:`")
        }
        _ if class.ends_with("AccessControlException") => {
            (Kind::Forbidden, "the user of `store.user` may not write there")
        }
        HdfsError::NoSASLMechanism | HdfsError::SASLError(_) | HdfsError::GSSAPIError(..) => {
            (Kind::Unauthenticated, "HDFS wants a proof of who we are: Kerberos is not supported")
        }
        HdfsError::IOError(_) => {
            (Kind::Unavailable, "the name node cannot be reached: look at the URL of `files:`")
        }
        _ => (Kind::Io, "HDFS cannot be used"),
    };
    Error::new(kind, message).with("user", user).because(error)
}

/// A read broke off, and the file is still the same one.
pub(super) fn broken(error: HdfsError) -> Error {
    match &error {
        HdfsError::ChecksumError => {
            Error::new(Kind::Damaged, "HDFS has only damaged copies of a block").because(error)
        }
        HdfsError::DataTransferError(_) | HdfsError::BlocksNotFound(_) => {
            let message = "no data node gives a block of the file: try again";
            Error::new(Kind::Unavailable, message).because(error)
        }
        _ => trouble(error),
    }
}

fn already(path: &PfsPath) -> Error {
    Error::new(Kind::AlreadyExists, "there is something already").with("path", path)
}

/// The Java class, and what it says.
fn parts(error: &HdfsError) -> (String, String) {
    match error {
        HdfsError::RPCError(class, text) | HdfsError::FatalRPCError(class, text) => {
            (class.clone(), text.clone())
        }
        other => (String::new(), other.to_string()),
    }
}
