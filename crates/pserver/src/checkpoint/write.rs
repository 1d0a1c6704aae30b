//! One shard's pieces of a cut → its data file → its manifest.
//!
//! Everything blocks: a writer lives on a thread of its own and is fed through a bounded channel,
//! so that a slow disk slows the cut down and never the shard.

use super::FORMAT;
use super::manifest::{DataFacts, Manifest, ShardFacts};
use super::names::{Layout, ShardName, cut_folder};
use super::section::{FileHead, PartShape, SECTION_BYTES, SectionHead, put_part};
use super::sweep::sweep;
use crate::message::Join;
use crate::shard::{CutFacts, Part, Saved, TableFacts};
use contract::{Error, Result};
use crc32fast::Hasher;
use disk::{Access, PendingFile, sync_folder};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use table::model::Model;

/// Writes the checkpoints of one shard, one after the other.
#[derive(Debug)]
pub struct Writer {
    folder: PathBuf,
    keep: u32,
    name: ShardName,
    layout: Layout,
    model: Model,
    state: State,
}

/// A shard's part of a cut that is on disk for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// The number of the cut.
    pub cut: u64,
    /// Bytes written.
    pub bytes: u64,
}

#[derive(Debug)]
enum State {
    Idle,
    Writing(Box<Draft>),
    /// Its error has been returned; the rest of the cut is of no use.
    Failed,
}

/// A cut under way.
#[derive(Debug)]
struct Draft {
    folder: PathBuf,
    facts: CutFacts,
    tables: Vec<TableFacts>,
    data: DataWriter,
}

impl Writer {
    /// Writes the cuts of the shard that `join` was sent to into `folder`, which a cut creates if
    /// need be, and keeps the files of the newest `keep` complete cuts.
    ///
    /// # Errors
    /// [`contract::Kind::Invalid`] when nothing is to be kept.
    pub fn new(folder: &Path, keep: u32, join: &Join) -> Result<Writer> {
        if keep == 0 {
            return Err(Error::invalid("at least 1 checkpoint must be kept"));
        }
        Ok(Writer {
            folder: folder.to_path_buf(),
            keep,
            name: ShardName::of(join)?,
            layout: Layout::of(join)?,
            model: join.model.clone(),
            state: State::Idle,
        })
    }

    /// Takes the next piece. The last one of a cut publishes it, removes what is not kept any more,
    /// and says so. A new beginning abandons a cut that was not ended.
    ///
    /// # Errors
    /// Whatever the disk says, once per cut: it then has no manifest and never will, and its later
    /// pieces are ignored.
    pub fn write(&mut self, piece: Saved) -> Result<Option<Completed>> {
        let outcome = self.take(piece);
        if outcome.is_err() {
            self.state = State::Failed;
        }
        outcome
    }

    /// Gives the cut under way up; its later pieces are ignored.
    pub fn abandon(&mut self) {
        self.state = State::Failed;
    }

    fn take(&mut self, piece: Saved) -> Result<Option<Completed>> {
        match piece {
            Saved::Begin { facts, tables } => {
                // What an abandoned cut has written goes before the next begins.
                self.state = State::Idle;
                self.state = State::Writing(Box::new(self.begin(facts, tables)?));
            }
            Saved::Rows { parameter, rows } => {
                let Some(draft) = self.draft()? else { return Ok(None) };
                for (key, row) in rows.iter() {
                    let (value, state, counters) = (row.value, row.state, row.counters);
                    draft.data.put(parameter, &Part { key, value, state, counters })?;
                }
            }
            Saved::Block { parameter, block } => {
                let Some(draft) = self.draft()? else { return Ok(None) };
                let (value, state, counters) = (&block.value, &block.state, &block.counters);
                draft.data.put(parameter, &Part { key: block.number, value, state, counters })?;
            }
            Saved::End => {
                self.draft()?;
                if let State::Writing(draft) = std::mem::replace(&mut self.state, State::Idle) {
                    return self.end(*draft).map(Some);
                }
            }
        }
        Ok(None)
    }

    /// The cut under way; `None` if it has failed.
    fn draft(&mut self) -> Result<Option<&mut Draft>> {
        match &mut self.state {
            State::Writing(draft) => Ok(Some(draft)),
            State::Failed => Ok(None),
            State::Idle => Err(Error::invalid("a piece of a checkpoint came before its beginning")),
        }
    }

    fn begin(&self, facts: CutFacts, tables: Vec<TableFacts>) -> Result<Draft> {
        let folder = self.folder.join(cut_folder(facts.cut));
        // The folder that it lies in is not ours, and may be one that we must not read.
        if !self.folder.is_dir() {
            create_folder(&self.folder)?;
        }
        create_folder(&folder)?;
        // Should the number have been used before, no manifest may speak of the data to come.
        let manifest = folder.join(self.name.manifest());
        match fs::remove_file(&manifest) {
            Ok(()) => sync_folder(&folder)?,
            Err(source) if source.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(unwritable(source, &manifest)),
        }
        let data = DataWriter::create(&folder, self.name)?;
        Ok(Draft { folder, facts, tables, data })
    }

    fn end(&self, draft: Draft) -> Result<Completed> {
        let Draft { folder, facts, tables, data } = draft;
        let cut = facts.cut;
        let (file, data) = data.finish(self.name)?;
        file.publish()?;

        let data_bytes = data.bytes;
        let buckets = self.name.buckets();
        let shard = ShardFacts {
            name: self.name,
            layout: self.layout,
            buckets: (buckets.start, buckets.end),
            cut: facts,
            data,
        };
        let manifest = Manifest { format: FORMAT, shard, tables, model: self.model.clone() };
        let manifest = manifest.encode()?;
        let path = folder.join(self.name.manifest());
        disk::publish(&path, Access::Ordinary, &manifest)?;

        if let Err(error) = sweep(&self.folder, self.keep, self.name, self.layout) {
            let error = error.chain();
            tracing::warn!(cut, %error, "cannot remove old checkpoints; they take up space");
        }
        Ok(Completed { cut, bytes: data_bytes + manifest.len() as u64 })
    }
}

/// A data file under way.
#[derive(Debug)]
struct DataWriter {
    file: PendingFile,
    parameter: usize,
    shape: PartShape,
    /// The parts of the open section.
    parts: u32,
    words: Vec<u32>,
    bytes: u64,
    sections: u64,
    checksums: Hasher,
}

impl DataWriter {
    fn create(folder: &Path, name: ShardName) -> Result<DataWriter> {
        let mut data = DataWriter {
            file: PendingFile::create(&folder.join(name.data()), Access::Ordinary)?,
            parameter: 0,
            shape: PartShape::default(),
            parts: 0,
            words: Vec::with_capacity(SECTION_BYTES / size_of::<u32>()),
            bytes: 0,
            sections: 0,
            checksums: Hasher::new(),
        };
        data.append(bytemuck::bytes_of(&FileHead::ours()))?;
        Ok(data)
    }

    fn put(&mut self, parameter: usize, part: &Part<'_>) -> Result<()> {
        let shape = PartShape::of(part);
        let grown_bytes = (self.words.len() + shape.words()) * size_of::<u32>();
        if (parameter, shape) != (self.parameter, self.shape) || grown_bytes > SECTION_BYTES {
            self.close_section()?;
            (self.parameter, self.shape) = (parameter, shape);
        }
        put_part(part, &mut self.words);
        self.parts += 1;
        Ok(())
    }

    fn finish(mut self, name: ShardName) -> Result<(PendingFile, DataFacts)> {
        self.close_section()?;
        let facts = DataFacts {
            file: name.data(),
            bytes: self.bytes,
            sections: self.sections,
            checksum: self.checksums.finalize(),
        };
        Ok((self.file, facts))
    }

    fn close_section(&mut self) -> Result<()> {
        if self.parts == 0 {
            return Ok(());
        }
        let mut words = std::mem::take(&mut self.words);
        let mut head = SectionHead {
            mark: SectionHead::MARK,
            parameter: self.parameter as u32,
            parts: self.parts,
            shape: self.shape,
            bytes: size_of_val(&words[..]) as u32,
            checksum: 0,
        };
        head.checksum = head.checksum_of(&words);
        self.append(bytemuck::bytes_of(&head))?;
        self.append(bytemuck::cast_slice(&words))?;
        self.checksums.update(&head.checksum.to_le_bytes());
        self.sections += 1;
        self.parts = 0;
        words.clear();
        self.words = words;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(|source| unwritable(source, self.file.path()))
    }
}

fn create_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|source| unwritable(source, folder))?;
    match folder.parent() {
        Some(parent) if parent != Path::new("") => sync_folder(parent),
        _ => Ok(()),
    }
}

fn unwritable(source: io::Error, path: &Path) -> Error {
    Error::io("cannot write checkpoint", source).with("file", path.display())
}
