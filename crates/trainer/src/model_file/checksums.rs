//! The checksums of a tar's members. They are its last member, `checksums.json`, which readers that
//! do not know it pass over: the original looks only for `<name>.protobuf` and `<name>`.
//!
//! Everything in the list is compared with the tar, so a changed byte in the list itself does not
//! go unnoticed either.

use contract::{Error, Kind, Result};
use crc32fast::Hasher;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};

/// The name of the member.
pub(super) const NAME: &str = "checksums.json";

/// The only version of the list so far.
const FORMAT: u32 = 1;

/// The members of a tar, in their order, without the list itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Checksums {
    format: u32,
    members: Vec<Sum>,
}

/// What is known of a member.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sum {
    name: String,
    bytes: u64,
    crc32: u32,
}

impl Checksums {
    pub(super) fn new() -> Checksums {
        Checksums { format: FORMAT, members: Vec::new() }
    }

    /// Adds the next member, of which all bytes have been read.
    pub(super) fn add<R>(&mut self, name: String, read: Summing<R>) {
        self.members.push(Sum { name, bytes: read.bytes, crc32: read.hasher.finalize() });
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|source| Error::invalid("cannot write the checksums").because(source))
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Checksums> {
        let list: Checksums = serde_json::from_slice(bytes).map_err(|source| {
            Error::new(Kind::Damaged, "the checksums cannot be read").because(source)
        })?;
        if list.format != FORMAT {
            return Err(Error::new(Kind::Unsupported, "the checksums are of a newer version")
                .with("format", list.format)
                .with("known", FORMAT));
        }
        Ok(list)
    }

    /// Compares what was found in a tar with the list that it carries.
    pub(super) fn check(&self, listed: &Checksums) -> Result<()> {
        for (found, listed) in self.members.iter().zip(&listed.members) {
            if found != listed {
                return Err(Error::new(
                    Kind::Damaged,
                    "the tar is damaged: a member is not what its checksum says",
                )
                .with("member", &listed.name));
            }
        }
        if self.members.len() != listed.members.len() {
            return Err(Error::new(
                Kind::Damaged,
                "the tar is damaged: it has another number of members than checksums",
            )
            .with("members", self.members.len())
            .with("checksums", listed.members.len()));
        }
        Ok(())
    }
}

/// Sums up what is read through it.
pub(super) struct Summing<R> {
    reader: R,
    hasher: Hasher,
    bytes: u64,
}

impl<R> Summing<R> {
    pub(super) fn new(reader: R) -> Self {
        Summing { reader, hasher: Hasher::new(), bytes: 0 }
    }

    /// Bytes so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes
    }
}

impl<R: Read> Read for Summing<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(out)?;
        self.hasher.update(&out[..count]);
        self.bytes += count as u64;
        Ok(count)
    }
}
