//! A file and its pieces, and how to halve a piece. The only place of a dataset that reads files.

use super::{PIECES_MAX, Part, SourceFile, Split, text};
use crate::task::{Format, RecordRange};
use contract::{Error, Kind, Result};
use recordio::Index;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What is looked at to tell a file's format.
const SNIFFED_BYTES: u64 = 4096;
const RECORDIO_MAGIC: [u8; 4] = 0x0102_0304_u32.to_le_bytes();
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Adds a file, and its pieces as they lie in it.
pub(super) fn add(
    path: &Path,
    split: &Split,
    files: &mut Vec<SourceFile>,
    parts: &mut Vec<Part>,
) -> Result<()> {
    let placed = |error: Error| error.with("file", path.display());
    let unreadable = |source| placed(Error::io("cannot read data file", source));
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let name = absolute
        .to_str()
        .ok_or_else(|| placed(Error::invalid("name of a data file is not UTF-8; rename it")))?;
    // Before it is opened: a pipe would wait for somebody to write.
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err(placed(Error::invalid("is no file; name the files of a directory")));
    }
    let mut file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let format = sniff(&mut file).map_err(placed)?;
    let number = u32::try_from(files.len())
        .map_err(|_| Error::new(Kind::LimitExceeded, "dataset has too many files"))?;
    files.push(SourceFile { path: name.to_owned(), format, bytes });
    let whole = Part { file: number, number: 0, offset: 0, bytes, records: None };
    match format {
        Format::RecordIo => parts.extend(chunks(path, whole)?),
        Format::Gzip => parts.push(whole),
        Format::Text => {
            let ranges = text::cut(&mut file, bytes, split.text_piece_bytes).map_err(placed)?;
            parts.extend(ranges.into_iter().zip(0..).map(|((offset, bytes), number)| Part {
                number,
                offset,
                bytes,
                ..whole
            }));
        }
    }
    if parts.len() > PIECES_MAX {
        return Err(Error::new(
            Kind::LimitExceeded,
            "dataset has too many chunks; write larger ones, or raise --chunk_bytes",
        )
        .with("chunks_max", PIECES_MAX));
    }
    Ok(())
}

/// Halves pieces.
pub(super) struct Divider<'a> {
    files: &'a [SourceFile],
    /// The text that was halved last: its other pieces follow.
    open: Option<(u32, File)>,
}

impl<'a> Divider<'a> {
    pub(super) fn new(files: &'a [SourceFile]) -> Self {
        Divider { files, open: None }
    }

    fn halve_text(&mut self, part: &Part) -> Result<Option<(Part, Part)>> {
        let path = &self.files[part.file as usize].path;
        let placed = |error: Error| error.with("file", path);
        let mut file = match self.open.take() {
            Some((number, file)) if number == part.file => file,
            _ => File::open(path)
                .map_err(|source| placed(Error::io("cannot read data file", source)))?,
        };
        let middle = text::middle(&mut file, part.offset, part.bytes).map_err(placed)?;
        self.open = Some((part.file, file));
        Ok(middle.map(|middle| {
            let bytes = middle - part.offset;
            let rest = Part { offset: middle, bytes: part.bytes - bytes, ..*part };
            (Part { bytes, ..*part }, rest)
        }))
    }
}

impl super::tasks::Divide for Divider<'_> {
    fn halve(&mut self, part: &Part) -> Result<Option<(Part, Part)>> {
        match self.files[part.file as usize].format {
            Format::RecordIo => Ok(halve_chunk(part)),
            Format::Text => self.halve_text(part),
            Format::Gzip => Ok(None),
        }
    }
}

fn halve_chunk(part: &Part) -> Option<(Part, Part)> {
    let range = part.records.filter(|range| range.count > 1)?;
    let count = range.count / 2;
    // Records have no sizes before they are read.
    let bytes = (u128::from(part.bytes) * u128::from(count) / u128::from(range.count)) as u64;
    let first = RecordRange { count, ..range };
    let rest = RecordRange { first: range.first + count, count: range.count - count, ..range };
    let begin = Part { bytes, records: Some(first), ..*part };
    Some((begin, Part { bytes: part.bytes - bytes, records: Some(rest), ..*part }))
}

/// The format of a file, by its first bytes. What is neither is taken for text only if it can be:
/// a damaged RecordIO file must not pass for lines.
fn sniff(file: &mut File) -> Result<Format> {
    let mut start = Vec::new();
    file.take(SNIFFED_BYTES)
        .read_to_end(&mut start)
        .map_err(|source| Error::io("cannot read data file", source))?;
    if start.starts_with(&RECORDIO_MAGIC) {
        return Ok(Format::RecordIo);
    }
    if start.starts_with(&GZIP_MAGIC) {
        return Ok(Format::Gzip);
    }
    match start.contains(&0) {
        true => Err(Error::new(Kind::Damaged, "file is neither RecordIO nor gzip nor text")),
        false => Ok(Format::Text),
    }
}

fn chunks(path: &Path, file: Part) -> Result<Vec<Part>> {
    let index = Index::open(path)?;
    let part = |(number, chunk): (u64, &recordio::ChunkEntry)| {
        let range = RecordRange { first: 0, count: chunk.records, of: chunk.records };
        let records = Some(range).filter(RecordRange::is_sound);
        Part { number, offset: chunk.offset, bytes: chunk.bytes, records, ..file }
    };
    Ok((0..).zip(index.chunks()).map(part).collect())
}
