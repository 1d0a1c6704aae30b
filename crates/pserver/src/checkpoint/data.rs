//! One data file → its parts, all of them checked.
//!
//! The file is not trusted beyond its checksums: anybody can compute those. Sizes are compared with
//! what the model allows before memory is asked for, which is one section at a time.

use super::manifest::ShardFacts;
use super::section::{FileHead, PartShape, SectionHead};
use crate::shard::{Part, TableFacts};
use bytemuck::{Pod, Zeroable};
use contract::{Error, Kind, Result};
use crc32fast::Hasher;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use table::model::{Model, Shape};
use table::placement::{BLOCK_ELEMENTS, blocks_of, bucket_of, name_hash};

/// What the parts of one parameter must be like.
#[derive(Debug, Clone)]
pub(super) struct Table {
    shape: Shape,
    columns: u32,
    counters: u32,
    name_hash: u64,
}

/// The parameters of a model by place; `None` for one that the file's shard does not hold.
pub(super) fn tables(model: &Model, facts: &[TableFacts]) -> Vec<Option<Table>> {
    let mut tables = vec![None; model.parameters.len()];
    for facts in facts {
        let parameter = &model.parameters[facts.parameter];
        tables[facts.parameter] = Some(Table {
            shape: parameter.shape,
            columns: facts.columns.len() as u32,
            counters: facts.counters.len() as u32,
            name_hash: name_hash(&parameter.name),
        });
    }
    tables
}

/// Gives every part of a shard's data file to `put`, with its parameter and its bucket.
///
/// # Errors
/// [`Kind::Damaged`] with file and offset; what `put` says; what the disk says.
pub(super) fn read(
    folder: &Path,
    shard: &ShardFacts,
    tables: &[Option<Table>],
    put: &mut dyn FnMut(usize, u32, Part<'_>) -> Result<()>,
) -> Result<()> {
    let path = folder.join(&shard.data.file);
    let mut reader = Reader { file: open(&path, shard.data.bytes)?, path: &path, offset: 0 };
    let head: FileHead = reader.read_head()?;
    // The manifest, whose checksum was right, is of our format, so its file must be too.
    if head != FileHead::ours() {
        return Err(reader.damaged("file does not begin as one of a checkpoint", 0));
    }
    let (mut sections, mut checksums, mut words) = (0, Hasher::new(), Vec::new());
    while reader.offset < shard.data.bytes {
        let offset = reader.offset;
        let head: SectionHead = reader.read_head()?;
        let table = check_head(&head, tables).map_err(|problem| reader.damaged(problem, offset))?;
        reader.read_words(head.bytes as usize, shard.data.bytes, &mut words)?;
        if head.checksum != head.checksum_of(&words) {
            return Err(reader.damaged("section does not have its checksum", offset));
        }
        checksums.update(&head.checksum.to_le_bytes());
        sections += 1;
        let buckets = shard.buckets.0..shard.buckets.1;
        for words in words.chunks_exact(head.shape.words()) {
            let part = head.shape.part(words);
            let bucket = table
                .check(&part, &buckets)
                .map_err(|problem| reader.damaged(problem, offset).with("key", part.key))?;
            put(head.parameter as usize, bucket, part).map_err(|error| match error.kind() {
                Kind::Damaged | Kind::AlreadyExists => {
                    reader.damaged(error.message(), offset).with("key", part.key)
                }
                _ => error,
            })?;
        }
    }
    if (sections, checksums.finalize()) != (shard.data.sections, shard.data.checksum) {
        return Err(reader.damaged("file is not the one that the manifest speaks of", 0));
    }
    Ok(())
}

/// Checks what a section claims to have, before anything is read on its word.
fn check_head<'a>(
    head: &SectionHead,
    tables: &'a [Option<Table>],
) -> std::result::Result<&'a Table, &'static str> {
    if head.mark != SectionHead::MARK {
        return Err("no section begins where one should");
    }
    let table = tables.get(head.parameter as usize).and_then(Option::as_ref);
    let table = table.ok_or("section is of a parameter that the shard does not hold")?;
    if !table.allows(&head.shape) {
        return Err("section has parts of another size than the model's");
    }
    // Sizes are the model's from here on, so they cannot overflow.
    let bytes = head.parts as usize * head.shape.words() * size_of::<u32>();
    if head.parts == 0 || bytes != head.bytes as usize || bytes > head.shape.section_bytes_max() {
        return Err("section does not have the size that its parts claim");
    }
    Ok(table)
}

impl Table {
    fn allows(&self, shape: &PartShape) -> bool {
        let is_value = match self.shape {
            Shape::Sparse { width, .. } => shape.value == width,
            Shape::Dense { .. } => (1..=BLOCK_ELEMENTS).contains(&(shape.value as usize)),
        };
        is_value
            && shape.value.checked_mul(self.columns) == Some(shape.state)
            && shape.counters == self.counters
    }

    /// The bucket of a part, if the part can be in a file of these buckets.
    fn check(
        &self,
        part: &Part<'_>,
        buckets: &Range<u32>,
    ) -> std::result::Result<u32, &'static str> {
        let is_possible = match self.shape {
            Shape::Sparse { rows, .. } => rows.is_none_or(|rows| part.key < rows),
            Shape::Dense { elements } => {
                part.key < blocks_of(elements) && {
                    let rest = elements - part.key * BLOCK_ELEMENTS as u64;
                    rest.min(BLOCK_ELEMENTS as u64) == part.value.len() as u64
                }
            }
        };
        let bucket = bucket_of(self.name_hash, part.key);
        match (is_possible, buckets.contains(&bucket)) {
            (true, true) => Ok(bucket),
            (true, false) => Err("section has a part of another shard"),
            (false, _) => Err("section has a block or row that the model does not have"),
        }
    }
}

/// A file that knows where it is.
struct Reader<'a> {
    file: File,
    path: &'a Path,
    offset: u64,
}

impl Reader<'_> {
    fn read_head<T: Pod + Zeroable>(&mut self) -> Result<T> {
        let mut head = T::zeroed();
        self.fill(bytemuck::bytes_of_mut(&mut head))?;
        Ok(head)
    }

    fn read_words(&mut self, bytes: usize, file_bytes: u64, words: &mut Vec<u32>) -> Result<()> {
        if bytes as u64 > file_bytes - self.offset.min(file_bytes) {
            return Err(self.damaged("file ends within a section", self.offset));
        }
        words.resize(bytes / size_of::<u32>(), 0);
        self.fill(bytemuck::cast_slice_mut(words))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact(bytes).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged("file ends too early", self.offset),
            _ => unreadable(source, self.path).with("offset", self.offset),
        })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn damaged(&self, message: &str, offset: u64) -> Error {
        Error::new(Kind::Damaged, message).with("file", self.path.display()).with("offset", offset)
    }
}

fn open(path: &Path, bytes: u64) -> Result<File> {
    let damaged = |message: &str, offset: u64| {
        Error::new(Kind::Damaged, message).with("file", path.display()).with("offset", offset)
    };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return Err(damaged("file is missing", 0));
        }
        Err(source) => return Err(unreadable(source, path)),
    };
    if !metadata.is_file() {
        return Err(damaged("file is not a regular file", 0));
    }
    if metadata.len() != bytes {
        let message = "file does not have the size that its manifest says";
        return Err(damaged(message, metadata.len().min(bytes))
            .with("bytes", metadata.len())
            .with("expected_bytes", bytes));
    }
    File::open(path).map_err(|source| unreadable(source, path))
}

fn unreadable(source: io::Error, path: &Path) -> Error {
    Error::io("cannot read checkpoint", source).with("file", path.display())
}
