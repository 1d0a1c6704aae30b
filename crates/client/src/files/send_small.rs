//! Uploads of small files, many in one request.

use super::local::{modified_ms, unreadable};
use super::send::{Shared, changed};
use super::{Item, Moving, at};
use crate::retry::Repeat;
use crate::transport::{Call, Content};
use contract::api::pack::{self, Header, Packed};
use contract::api::path;
use contract::checksum::Checksum;
use contract::{Error, Kind, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read};
use std::sync::Arc;
use ureq::http::Method;

/// Contents of one request. Less than is allowed, so that there is something for every thread.
const PACK_BYTES: u64 = 4 << 20;
const PACK_FILES: usize = 250;

/// Puts files together that go in one request: of one home or area.
pub(super) fn packs(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut open: BTreeMap<(String, Option<String>), (Vec<Item>, u64)> = BTreeMap::new();
    let mut done = Vec::new();
    for item in items {
        let key = (item.path.datacenter().to_owned(), item.path.owner().map(str::to_owned));
        let (files, bytes) = open.entry(key).or_default();
        *bytes += item.bytes;
        files.push(item);
        if files.len() >= PACK_FILES || *bytes >= PACK_BYTES {
            *bytes = 0;
            done.push(std::mem::take(files));
        }
    }
    done.extend(open.into_values().map(|(files, _)| files).filter(|files| !files.is_empty()));
    done
}

impl Moving<'_> {
    /// Sends files in one request.
    pub(super) fn send_pack(&self, items: &[Item]) {
        let mut body = Vec::new();
        let mut sent = Vec::new();
        for item in items {
            match add(&mut body, item) {
                Ok(()) => sent.push(item),
                Err(error) => self.told(item, Err(error)),
            }
        }
        let Some(first) = sent.first() else { return };
        body.extend_from_slice(&pack::END);
        let results = match self.post(at(path::FILE_PACK, &first.path), &Arc::new(body)) {
            Ok(results) if results.len() == sent.len() => results,
            Ok(_) => {
                let message = "the server's answer is about other files than were sent";
                return self.all_failed(&sent, &Error::new(Kind::Damaged, message));
            }
            Err(error) => return self.all_failed(&sent, &error),
        };
        for (item, packed) in sent.into_iter().zip(results) {
            self.watcher.moved(item.bytes);
            let result = match packed.error {
                None => Ok(item.bytes),
                Some(body) => Err(body.into_error(500)),
            };
            self.told(item, result);
        }
    }

    fn post(&self, to: String, body: &Arc<Vec<u8>>) -> Result<Vec<Packed>> {
        let open = || Ok(self.throttle.pace(Cursor::new(Shared(Arc::clone(body)))));
        let call = Call {
            method: Method::POST,
            path: to,
            content: Content::Stream(body.len() as u64, &open),
            repeat: Repeat::Safe,
            what: "upload files",
            answer: None,
        };
        self.patiently(|| self.client.ask(&call))
    }

    /// One reason for many files.
    pub(super) fn all_failed(&self, items: &[&Item], error: &Error) {
        for item in items {
            self.told(item, Err(Error::new(error.kind(), error.to_string())));
        }
    }
}

fn add(body: &mut Vec<u8>, item: &Item) -> Result<()> {
    let refused = unreadable(&item.local);
    let mut file = File::open(&item.local).map_err(&refused)?;
    let mut content = Vec::new();
    (&mut file).take(pack::FILE_BYTES_MAX + 1).read_to_end(&mut content).map_err(&refused)?;
    let now = file.metadata().map_err(&refused)?;
    let is_same = content.len() as u64 == item.bytes
        && (item.modified_ms.is_none() || modified_ms(&now) == item.modified_ms);
    if !is_same {
        return Err(changed(item));
    }
    let header = Header {
        path: item.path.to_string(),
        bytes: item.bytes,
        mode: item.mode,
        modified_ms: item.modified_ms,
        error: None,
    };
    body.extend(header.encode()?);
    body.extend_from_slice(&content);
    body.extend_from_slice(&Checksum::of(&content).0);
    Ok(())
}
