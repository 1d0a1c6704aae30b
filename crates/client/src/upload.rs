//! Sends the files of a package that the server does not have yet, several at a time.

use crate::client::{Client, send};
use crate::package::{Package, digest};
use crate::retry::Repeat;
use crate::transport::{Call, Content};
use contract::api::package::Missing;
use contract::api::path;
use contract::{Error, Kind, Result};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use ureq::http::Method;

/// Files on their way at the same time.
const AT_ONCE: usize = 4;
/// How often the server may find, after everything was sent, that something is missing.
const ROUNDS_MAX: u32 = 3;

/// Is told how an upload goes.
pub trait Progress: Send + Sync {
    /// What has to be sent.
    fn begin(&self, files: usize, bytes: u64);
    /// So much more was sent.
    fn sent(&self, bytes: u64);
}

impl Client {
    /// The digest of the package, which the server then has.
    pub fn upload(&self, package: &Package, progress: &Arc<dyn Progress>) -> Result<String> {
        for _ in 0..ROUNDS_MAX {
            let path = path::PACKAGES.to_owned();
            let what = "upload a package";
            let answer: Missing = self.ask(&send(Method::POST, path, &package.manifest, what)?)?;
            if answer.missing.is_empty() {
                return Ok(answer.digest);
            }
            self.send_missing(package, answer.missing, progress)?;
        }
        let message = "the server still lacks files of the package after they were sent";
        Err(Error::new(Kind::Unavailable, message))
    }

    fn send_missing(
        &self,
        package: &Package,
        missing: Vec<String>,
        progress: &Arc<dyn Progress>,
    ) -> Result<()> {
        let files = missing.into_iter().map(|sha256| {
            let unknown =
                || Error::new(Kind::Damaged, "the server asks for a file that is not ours");
            let file = package.contents.get(&sha256).ok_or_else(unknown)?;
            Ok((sha256, file.as_path(), length(file)?))
        });
        let mut files: Vec<_> = files.collect::<Result<_>>()?;
        progress.begin(files.len(), files.iter().map(|(.., bytes)| bytes).sum());
        // The largest first, so that none is left alone at the end.
        files.sort_by_key(|(.., bytes)| *bytes);
        let queue = Mutex::new(files);
        let is_over = AtomicBool::new(false);
        let next = || match is_over.load(Ordering::Relaxed) {
            true => None,
            false => queue.lock().unwrap_or_else(PoisonError::into_inner).pop(),
        };
        let work = || -> Result<()> {
            while let Some((sha256, file, bytes)) = next() {
                self.send_blob(&sha256, file, bytes, progress)
                    .inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
            let crashed = |_| Err(Error::new(Kind::Io, "an upload crashed"));
            let results: Vec<_> =
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(crashed)).collect();
            results.into_iter().collect()
        })
    }

    fn send_blob(
        &self,
        sha256: &str,
        file: &Path,
        bytes: u64,
        progress: &Arc<dyn Progress>,
    ) -> Result<()> {
        let open = || {
            let opened = File::open(file).map_err(unreadable(file))?;
            Ok(Box::new(Counted { file: opened, progress: progress.clone() }) as Box<dyn Read>)
        };
        let call = Call {
            method: Method::PUT,
            path: path::fill(path::BLOB, &[sha256]),
            content: Content::Stream(bytes, &open),
            repeat: Repeat::Safe,
            what: "upload a file",
            answer: None,
        };
        let sent = self.call(&call);
        sent.map(|_| ()).map_err(|error| match File::open(file).and_then(|mut f| digest(&mut f)) {
            Ok((now, _)) if now == sha256 => error.with("file", file.display()),
            _ => {
                let message = "a file of the package changed while it was sent: submit again";
                Error::new(Kind::Conflict, message).with("file", file.display())
            }
        })
    }
}

fn length(file: &Path) -> Result<u64> {
    std::fs::metadata(file).map(|metadata| metadata.len()).map_err(unreadable(file))
}

fn unreadable(file: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::io("cannot read a file", source).with("file", file.display())
}

/// A file that tells how much of it was read.
struct Counted {
    file: File,
    progress: Arc<dyn Progress>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.progress.sent(read as u64);
        Ok(read)
    }
}
