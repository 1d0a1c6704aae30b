//! Downloads of small files, many in one request.

use super::local::{dress, occupied, unwritable};
use super::receive::finish;
use super::{Item, Moving, at};
use crate::client::send;
use contract::api::pack::{Fetch, Header};
use contract::api::path;
use contract::checksum::{CHECKSUM_BYTES, Checksum};
use contract::{Error, Kind, Result};
use std::collections::VecDeque;
use std::io::{BufReader, Read, Write};
use std::path::Path;
use ureq::http::Method;

impl Moving<'_> {
    /// Fetches files in one request.
    pub(super) fn receive_pack(&self, items: Vec<Item>) {
        let mut left: VecDeque<Item> = items.into();
        let mut failures = 0;
        while let Some(first) = left.front() {
            let top = first.path.clone();
            let before = left.len();
            match self.fetch(&top, &mut left) {
                Ok(()) => {}
                Err(error) if error.kind().is_retryable() && failures < FAILURES_MAX => {
                    failures = if left.len() < before { 0 } else { failures + 1 };
                    std::thread::sleep(PAUSE);
                }
                Err(error) => {
                    let items: Vec<&Item> = left.iter().collect();
                    return self.all_failed(&items, &error);
                }
            }
        }
    }

    /// Takes files off the queue as they arrive.
    fn fetch(&self, top: &contract::path::PfsPath, left: &mut VecDeque<Item>) -> Result<()> {
        let paths = left.iter().map(|item| item.path.to_string()).collect();
        let call =
            send(Method::POST, at(path::FILE_FETCH, top), &Fetch { paths }, "download files")?;
        let client = self.client;
        let answer =
            client.with_token(|token| client.transport.exchange(&call, Some(token), &[]))?;
        let body = self.throttle.pace(answer.into_body().into_reader());
        let mut body = BufReader::with_capacity(256 << 10, body);
        while let Some(item) = left.front() {
            let (header, content) = read_one(&mut body)?;
            if header.path != item.path.to_string() {
                let message = "the server sent another file than was asked for";
                return Err(Error::new(Kind::Damaged, message).with("file", &item.path));
            }
            let result = match header.error {
                Some(error) => Err(error.into_error(500)),
                None => {
                    self.watcher.moved(content.len() as u64);
                    let write = || {
                        let mut file = partial(&item.local)?;
                        file.write_all(&content).map_err(unwritable(&item.local))?;
                        dress(file.as_file(), header.mode, header.modified_ms)
                            .map_err(unwritable(&item.local))?;
                        persist(file, &item.local, self.options.if_absent)
                    };
                    write().map(|()| content.len() as u64)
                }
            };
            self.told(item, result);
            left.pop_front();
        }
        finish(body);
        Ok(())
    }
}

/// How often nothing arrives before we give up.
const FAILURES_MAX: u32 = 60;
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

fn read_one(body: &mut impl Read) -> Result<(Header, Vec<u8>)> {
    let broken = |source| Error::new(Kind::Unavailable, "the download broke off").because(source);
    let ended = || {
        let source = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        broken(source)
    };
    let mut length = [0; 4];
    body.read_exact(&mut length).map_err(broken)?;
    let length = Header::length(length)?.ok_or_else(ended)?;
    let mut header = vec![0; length];
    body.read_exact(&mut header).map_err(broken)?;
    let header = Header::decode(&header)?;
    let mut content = vec![0; usize::try_from(header.bytes).unwrap_or(0)];
    body.read_exact(&mut content).map_err(broken)?;
    let mut sum = Checksum([0; CHECKSUM_BYTES]);
    body.read_exact(&mut sum.0).map_err(broken)?;
    match Checksum::of(&content) == sum {
        true => Ok((header, content)),
        // Another attempt may get it whole.
        false => Err(Error::new(Kind::Unavailable, "a file arrived damaged")),
    }
}

/// A file that will have a name when it is whole.
pub(super) fn partial(target: &Path) -> Result<tempfile::NamedTempFile> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(unwritable(folder))?;
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let short: String = name.chars().take(40).collect();
    let mut builder = tempfile::Builder::new();
    let prefix = format!(".{short}.");
    builder.prefix(&prefix).suffix(".partial");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder).map_err(unwritable(target))
}

/// Gives a whole file its name, unless that must be free and is not.
pub(super) fn persist(
    file: tempfile::NamedTempFile,
    target: &Path,
    must_be_absent: bool,
) -> Result<()> {
    if target.is_dir() {
        let message = "this is a directory, where a file is needed";
        return Err(Error::invalid(message).with("file", target.display()));
    }
    let persisted = match must_be_absent {
        true => file.persist_noclobber(target),
        false => file.persist(target),
    };
    persisted.map(|_| ()).map_err(|failed| match failed.error.kind() {
        std::io::ErrorKind::AlreadyExists => occupied(target),
        _ => unwritable(target)(failed.error),
    })
}
