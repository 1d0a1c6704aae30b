//! Downloads of small files, many in one request.

use super::local::{dress, occupied, unwritable};
use super::receive::finish;
use super::{Item, Moving, another_file, at};
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
        let mut grown = Vec::new();
        while !left.is_empty() {
            let before = left.len();
            let fetched = self.patiently(|| match self.fetch(&mut left, &mut grown) {
                // Something has arrived: the server is there.
                Err(error) if error.kind().is_retryable() && left.len() < before => Ok(()),
                fetched => fetched,
            });
            if let Err(error) = fetched {
                let items: Vec<&Item> = left.iter().collect();
                self.all_failed(&items, &error);
                break;
            }
        }
        for item in grown {
            self.told(&item, self.receive_grown(&item));
        }
    }

    /// Fetches a file that has become too large for a pack.
    fn receive_grown(&self, item: &Item) -> Result<u64> {
        let now =
            Item::down(&self.patiently(|| self.client.stat(&item.path))?, item.local.clone())?;
        self.receive_large(&now)
    }

    /// Takes files off the queue as they arrive.
    fn fetch(&self, left: &mut VecDeque<Item>, grown: &mut Vec<Item>) -> Result<()> {
        let Some(first) = left.front() else { return Ok(()) };
        let top = first.path.clone();
        let paths = left.iter().map(|item| item.path.to_string()).collect();
        let call =
            send(Method::POST, at(path::FILE_FETCH, &top), &Fetch { paths }, "download files")?;
        let client = self.client;
        let answer =
            client.with_token(|token| client.transport.exchange(&call, Some(token), &[]))?;
        let body = self.throttle.pace(answer.into_body().into_reader());
        let mut body = BufReader::with_capacity(256 << 10, body);
        while let Some(item) = left.front() {
            let (header, content) = read_one(&mut body)?;
            if header.path != item.path.to_string() {
                return Err(another_file(&item.path));
            }
            let result = match header.error.map(|error| error.into_error(500)) {
                Some(error) if error.kind() == Kind::LimitExceeded => {
                    grown.extend(left.pop_front());
                    continue;
                }
                Some(error) => Err(error),
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
