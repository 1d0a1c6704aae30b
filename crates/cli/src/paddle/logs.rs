//! `paddle logs`: what the replicas of a job have printed.

use crate::attach::follow::{Patience, runtime};
use crate::jobs::{everywhere, find};
use cli::output::Output;
use cli::prefix;
use contract::state::State;
use contract::{Error, Kind, Result};
use scheduler::backend::Cursor;
use scheduler::lines::Lines;
use scheduler::{Backend, JobRecord, ReplicaId};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Print what the replicas of a job have printed
///
/// Each line has its replica in front. With --replica the bytes of that one, as they are.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The job: its id, the beginning of it, or its name for the newest of that name
    #[arg(value_name = "JOB")]
    job: String,
    /// Go on until the job has ended
    #[arg(long, short)]
    follow: bool,
    /// Begin with the last lines of each replica
    #[arg(long, short = 'n', value_name = "N", value_parser = cli::number::parse::<u32>)]
    lines: Option<u32>,
    /// Only this replica, such as trainer-0
    #[arg(long, short, value_name = "REPLICA")]
    replica: Option<ReplicaId>,
}

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let jobs = everywhere::open()?;
    runtime()?.block_on(async {
        let id = find::find(&jobs, &args.job).await?.id;
        let mut streams: BTreeMap<ReplicaId, Stream> = BTreeMap::new();
        let mut output = Output::open();
        let mut patience = Patience::new();
        loop {
            let printed = print(&jobs, &id, args, &mut streams, &mut output).await;
            output.flush()?;
            match printed {
                // It ended before its launcher's eyes, which has removed it.
                Err(error) if error.kind() == Kind::NotFound && !streams.is_empty() => break,
                Err(error) if args.follow => patience.failed(error)?.iter().for_each(|s| say(s)),
                printed => {
                    let is_all = printed?;
                    patience.answered().iter().for_each(|words| say(words));
                    if is_all || !args.follow {
                        break;
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        for stream in streams.values_mut() {
            stream.finish(&mut output)?;
        }
        output.close()?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints what is new of all replicas; whether that was all there will be.
async fn print(
    jobs: &dyn Backend,
    id: &str,
    args: &Args,
    streams: &mut BTreeMap<ReplicaId, Stream>,
    output: &mut Output,
) -> Result<bool> {
    let record = jobs.observe(id).await?;
    let width = prefix::width(record.replicas.iter().map(|replica| replica.replica));
    let mut moved = false;
    for replica in chosen(&record, args)? {
        let stream = streams.entry(replica).or_insert_with(|| Stream::new(replica, args));
        moved |= stream.print(jobs, id, output, width).await?;
    }
    Ok(record.state.is_final() && !moved)
}

/// Says something that is no output of the job.
fn say(words: &str) {
    // Where not even this can be written, there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "paddle logs: {words}");
}

/// The replicas to show. Before its machines are reached a job has none.
fn chosen(record: &JobRecord, args: &Args) -> Result<Vec<ReplicaId>> {
    let all = record.replicas.iter().map(|replica| replica.replica);
    let Some(wanted) = args.replica else { return Ok(all.collect()) };
    let known: Vec<String> = all.clone().map(|replica| replica.to_string()).collect();
    match all.into_iter().find(|replica| *replica == wanted) {
        Some(replica) => Ok(vec![replica]),
        None if known.is_empty() && !record.state.is_final() => Ok(Vec::new()),
        None => Err(Error::new(Kind::NotFound, "the job has no such replica")
            .with("replica", wanted)
            .with("there_are", known.join(", "))),
    }
}

/// The output of one replica, as far as it was printed.
struct Stream {
    replica: ReplicaId,
    cursor: Cursor,
    lines: Lines,
    /// Bytes as they are, without names in front.
    is_raw: bool,
    /// How many of the first lines are kept back until all that is there has been read.
    last: Option<usize>,
    prefix: String,
}

impl Stream {
    fn new(replica: ReplicaId, args: &Args) -> Stream {
        Stream {
            replica,
            cursor: Cursor::default(),
            lines: Lines::default(),
            is_raw: args.replica.is_some(),
            last: args.lines.map(|count| count as usize),
            prefix: String::new(),
        }
    }

    /// Prints everything that is there; whether there was anything.
    async fn print(
        &mut self,
        jobs: &dyn Backend,
        id: &str,
        output: &mut Output,
        width: usize,
    ) -> Result<bool> {
        self.prefix = prefix::prefix(self.replica, width, prefix::wants_colour(&std::io::stdout()));
        let (mut tail, begin) = (self.last.map(Tail::new), self.cursor.clone());
        let mut moved = false;
        loop {
            let piece = match jobs.logs(id, self.replica, &self.cursor).await {
                // What was kept back is read again.
                Err(error) if tail.is_some() => {
                    self.cursor = begin;
                    return Err(error);
                }
                piece => piece?,
            };
            if piece.bytes.is_empty() && piece.next == self.cursor {
                break;
            }
            moved = true;
            self.cursor = piece.next;
            if piece.skipped_bytes > 0 {
                self.skip(piece.skipped_bytes, output)?;
            }
            match &mut tail {
                Some(tail) => tail.take(&piece.bytes),
                None => self.show(&piece.bytes, output)?,
            }
        }
        if let Some(tail) = tail {
            self.last = None;
            self.show(&tail.bytes(), output)?;
        }
        Ok(moved)
    }

    fn show(&mut self, bytes: &[u8], output: &mut Output) -> Result<()> {
        if self.is_raw {
            return output.bytes(bytes);
        }
        let mut result = Ok(());
        let (lines, prefix) = (&mut self.lines, &self.prefix);
        lines.feed(bytes, |line| {
            if result.is_ok() {
                result = output.line(format_args!("{prefix}{line}"));
            }
        });
        result
    }

    /// Tells a gap: what comes next does not go on where the last line ended.
    fn skip(&mut self, bytes: u64, output: &mut Output) -> Result<()> {
        self.finish(output)?;
        output.flush()?;
        say(&format!("{}: {bytes} bytes are no longer kept", self.replica));
        Ok(())
    }

    fn finish(&mut self, output: &mut Output) -> Result<()> {
        let mut result = Ok(());
        let (lines, prefix) = (&mut self.lines, &self.prefix);
        lines.finish(|line| result = output.line(format_args!("{prefix}{line}")));
        result
    }
}

/// The last lines of what it is given.
struct Tail {
    count: usize,
    /// Each with its end; the last may have none yet.
    lines: VecDeque<Vec<u8>>,
}

impl Tail {
    fn new(count: usize) -> Tail {
        Tail { count, lines: VecDeque::new() }
    }

    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match self.lines.back_mut() {
                Some(line) if line.last() != Some(&b'\n') => line.extend_from_slice(piece),
                _ => self.lines.push_back(piece.to_vec()),
            }
            if self.lines.len() > self.count {
                self.lines.pop_front();
            }
        }
    }

    fn bytes(self) -> Vec<u8> {
        self.lines.into_iter().flatten().collect()
    }
}
