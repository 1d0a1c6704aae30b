//! Lines, one after the other: of text files, of gzip files, of RecordIO files whose records are
//! lines, or of whoever else has some. What a file is, its first bytes say.

use contract::{Error, Kind, Result};
use flate2::read::MultiGzDecoder;
use recordio::ReadOptions;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A line that is longer is refused.
pub const LINE_BYTES_MAX: usize = 16 << 20;

const READ_BYTES: usize = 256 << 10;
const RECORDIO_MAGIC: [u8; 4] = 0x0102_0304_u32.to_le_bytes();
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Where lines come from.
pub trait Lines: Send {
    /// Appends the next line, without its end, and says where it is; `None` at the end. After an
    /// error it is not asked again.
    fn read(&mut self, out: &mut Vec<u8>) -> Result<Option<LineOrigin>>;
}

/// Where a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineOrigin {
    /// The file, or whatever else it is in.
    pub source: Arc<str>,
    /// Of the line in it, from 1.
    pub number: u64,
}

/// The lines of files, in order.
pub(crate) struct FileLines {
    paths: std::vec::IntoIter<PathBuf>,
    open: Option<Open>,
}

struct Open {
    source: Arc<str>,
    number: u64,
    content: Content,
}

enum Content {
    Text(BufReader<File>),
    Gzip(Box<BufReader<MultiGzDecoder<BufReader<File>>>>),
    Records(Box<recordio::Reader>),
}

impl FileLines {
    pub(crate) fn new(paths: Vec<PathBuf>) -> FileLines {
        FileLines { paths: paths.into_iter(), open: None }
    }
}

impl Lines for FileLines {
    fn read(&mut self, out: &mut Vec<u8>) -> Result<Option<LineOrigin>> {
        loop {
            let open = match &mut self.open {
                Some(open) => open,
                None => match self.paths.next() {
                    Some(path) => self.open.insert(Open::new(&path)?),
                    None => return Ok(None),
                },
            };
            if open.read(out)? {
                open.number += 1;
                let source = Arc::clone(&open.source);
                return Ok(Some(LineOrigin { source, number: open.number }));
            }
            self.open = None;
        }
    }
}

impl Open {
    fn new(path: &Path) -> Result<Open> {
        let failed = |source: std::io::Error| {
            Error::io("cannot read a file of training data", source).with("file", path.display())
        };
        let mut file = File::open(path).map_err(failed)?;
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(4).read_to_end(&mut start).map_err(failed)?;
        let content = if start.starts_with(&RECORDIO_MAGIC) {
            drop(file);
            let reader = recordio::Reader::open(&[path.to_owned()], ReadOptions::default())?;
            Content::Records(Box::new(reader))
        } else {
            file.rewind().map_err(failed)?;
            let file = BufReader::with_capacity(READ_BYTES, file);
            match start.starts_with(&GZIP_MAGIC) {
                false => Content::Text(file),
                true => {
                    let text = BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(file));
                    Content::Gzip(Box::new(text))
                }
            }
        };
        Ok(Open { source: path.display().to_string().into(), number: 0, content })
    }

    /// Appends the next line; false at the end.
    fn read(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let before = out.len();
        let read = match &mut self.content {
            Content::Text(text) => read_line(text, out),
            Content::Gzip(text) => read_line(&mut **text, out),
            Content::Records(records) => match records.read()? {
                None => Ok(false),
                Some(record) => append_record(record, out).map(|()| true),
            },
        };
        let is_read = read.map_err(|error| {
            error.with("file", &self.source).with(self.content.unit(), self.number + 1)
        })?;
        if is_read && out[before..].last() == Some(&b'\r') {
            out.pop();
        }
        Ok(is_read)
    }
}

impl Content {
    fn unit(&self) -> &'static str {
        match self {
            Content::Text(_) | Content::Gzip(_) => "line",
            Content::Records(_) => "record",
        }
    }
}

/// Appends the line that a record is, without its end.
///
/// # Errors
/// If it is several lines, or too long.
pub fn append_record(record: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let line = record.strip_suffix(b"\n").unwrap_or(record);
    if memchr::memchr(b'\n', line).is_some() {
        let message = format!("a record must be one line, but has several{}", pickle_hint(record));
        return Err(Error::new(Kind::Damaged, message));
    }
    if line.len() > LINE_BYTES_MAX {
        return Err(too_long());
    }
    out.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
    Ok(())
}

/// What to do about bytes that should be a line but are a pickle, as `dataset.convert` writes them.
pub(crate) fn pickle_hint(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x80, 2..=5, ..] => {
            "; it is a pickle, as dataset.convert writes: read it by paddle.reader.creator.recordio, \
             or write records that are lines"
        }
        _ => "",
    }
}

fn read_line(text: &mut impl BufRead, out: &mut Vec<u8>) -> Result<bool> {
    let before = out.len();
    loop {
        let buffer = match text.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error)
                if error.kind() == std::io::ErrorKind::InvalidInput
                    || error.kind() == std::io::ErrorKind::UnexpectedEof =>
            {
                return Err(Error::new(Kind::Damaged, "the compressed file is damaged or cut off")
                    .because(error));
            }
            Err(error) => return Err(Error::io("cannot read a file of training data", error)),
        };
        if buffer.is_empty() {
            // The last line may have no end.
            return Ok(out.len() > before);
        }
        let (end, used) = match memchr::memchr(b'\n', buffer) {
            Some(end) => (end, end + 1),
            None => (buffer.len(), buffer.len()),
        };
        if out.len() - before + end > LINE_BYTES_MAX {
            return Err(too_long());
        }
        out.extend_from_slice(&buffer[..end]);
        let is_whole = used > end;
        text.consume(used);
        if is_whole {
            return Ok(true);
        }
    }
}

fn too_long() -> Error {
    Error::new(Kind::LimitExceeded, "a line has more than 16 MiB; is this a text of lines?")
}
