//! Records of files, one after the other: the face of reading.

use crate::CHUNK_BYTES_LIMIT;
use crate::chunk::Chunk;
use crate::prefetch::Prefetch;
use crate::stream::{ChunkFile, Stream};
use contract::{Error, Kind, Result};
use std::path::{Path, PathBuf};

/// What to read, and with how much memory.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Number of the first record, counted over all files.
    pub start: u64,
    /// How many records at most; `None` is all.
    pub count: Option<u64>,
    /// Chunks that another thread reads and decodes ahead; 0 reads on the caller's thread.
    pub prefetch_chunks: usize,
    /// A chunk that is larger than this when uncompressed is refused.
    pub chunk_bytes_max: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            start: 0,
            count: None,
            prefetch_chunks: 0,
            chunk_bytes_max: CHUNK_BYTES_LIMIT,
        }
    }
}

/// Reads records in order. Records are lent, not copied: they lie in the current chunk.
pub struct Reader {
    paths: Vec<PathBuf>,
    options: ReadOptions,
    chunks: Chunks,
    chunk: Chunk,
    // Damage stays damage: a caller that reads on after an error must not see an end.
    failure: Option<(Kind, String)>,
}

enum Chunks {
    Here(Stream),
    Ahead(Prefetch),
}

impl Reader {
    /// Reads the files as one, in the order given; see [`crate::expand`] for globs.
    pub fn open(paths: &[PathBuf], options: ReadOptions) -> Result<Reader> {
        let paths = paths.to_vec();
        // Opening the first file now gives the common mistakes their error at the right line.
        if let Some(first) = paths.first() {
            ChunkFile::open(first.clone())?;
        }
        let chunks = start(&paths, &options, options.start)?;
        Ok(Reader { paths, options, chunks, chunk: Chunk::default(), failure: None })
    }

    /// Reads the one chunk with this number that begins at `offset`, as an [`crate::Index`] tells it.
    pub fn open_chunk(
        path: &Path,
        number: u64,
        offset: u64,
        chunk_bytes_max: u64,
    ) -> Result<Reader> {
        let mut file = ChunkFile::open(path.to_path_buf())?;
        file.seek(number, offset)?;
        let header = file.next_header()?.ok_or_else(|| {
            Error::invalid("no chunk begins at the end of the file")
                .with("file", path.display())
                .with("offset", offset)
        })?;
        let mut chunk = Chunk::default();
        file.read_payload(&header, &mut chunk, chunk_bytes_max)?;
        let options = ReadOptions { chunk_bytes_max, ..ReadOptions::default() };
        let chunks = Chunks::Here(Stream::new(Vec::new(), 0, None, chunk_bytes_max));
        Ok(Reader { paths: vec![path.to_path_buf()], options, chunks, chunk, failure: None })
    }

    /// About how much memory the chunk in memory takes.
    pub fn memory_bytes(&self) -> u64 {
        (self.chunk.payload.capacity() + self.chunk.stored.capacity()) as u64
    }

    /// Records that [`Reader::read`] answers from memory at once.
    pub fn ready(&self) -> u32 {
        self.chunk.unread()
    }

    /// Leaves out all records of the chunk in memory but `count` of them, from number `first` on.
    ///
    /// `Invalid` if the chunk has no such records.
    pub fn keep(&mut self, first: u32, count: u32) -> Result<()> {
        let unread = self.chunk.unread();
        if u64::from(first) + u64::from(count) > u64::from(unread) {
            return Err(Error::invalid("chunk has no such records")
                .with("first", first)
                .with("count", count)
                .with("records", unread));
        }
        self.chunk.skip(first)?;
        self.chunk.keep(count.into());
        Ok(())
    }

    /// The next record, `None` at the end. After an error every further call fails too.
    #[inline]
    pub fn read(&mut self) -> Result<Option<&[u8]>> {
        if !self.is_ready() && !self.fill()? {
            return Ok(None);
        }
        match self.chunk.read() {
            Ok(record) => Ok(Some(record)),
            Err(error) => {
                self.failure = Some((error.kind(), error.chain()));
                Err(error)
            }
        }
    }

    /// Whether the next [`Reader::read`] is answered from memory at once.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.chunk.unread() > 0
    }

    /// Gets the next record into memory, waiting for the disk if need be; false at the end.
    pub fn fill(&mut self) -> Result<bool> {
        while !self.is_ready() {
            if !self.load()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Continues with this record, counted over all files; the end of the range stays.
    pub fn seek(&mut self, record: u64) -> Result<()> {
        self.chunks = start(&self.paths, &self.options, record)?;
        self.chunk = Chunk::default();
        self.failure = None;
        Ok(())
    }

    fn load(&mut self) -> Result<bool> {
        if let Some((kind, message)) = &self.failure {
            return Err(Error::new(*kind, message.clone()));
        }
        let loaded = match &mut self.chunks {
            Chunks::Here(stream) => stream.next(&mut self.chunk),
            Chunks::Ahead(prefetch) => prefetch.next(&mut self.chunk),
        };
        loaded.inspect_err(|error| self.failure = Some((error.kind(), error.chain())))
    }
}

fn start(paths: &[PathBuf], options: &ReadOptions, first: u64) -> Result<Chunks> {
    let count =
        options.count.map(|count| options.start.saturating_add(count).saturating_sub(first));
    let stream = Stream::new(paths.to_vec(), first, count, options.chunk_bytes_max);
    Ok(match options.prefetch_chunks {
        0 => Chunks::Here(stream),
        chunks_ahead => Chunks::Ahead(Prefetch::start(stream, chunks_ahead)?),
    })
}
