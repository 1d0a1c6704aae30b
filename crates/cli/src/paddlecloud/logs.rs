//! `paddlecloud logs`: what the workers of a job printed.

use crate::args::Globals;
use crate::cloud::{connect, say};
use crate::view::{Form, View};
use cli::output::Output;
use cli::prefix;
use client::{Client, Seen};
use contract::api::log::{LogPiece, LogQuery, TAIL_LINES};
use contract::role::Role;
use contract::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// Print logs of the job.
///
/// The last lines of every worker, below its name. With -f everything that comes until the job has
/// ended, each line with its worker in front; the log goes on when the server was restarted.
/// With -w the lines of that worker as they are.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Print logs of the job.")]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "JOB")]
    job: String,
    /// How many lines of each worker
    #[arg(short, long = "lines", value_name = "N", default_value_t = TAIL_LINES, value_parser = cli::number::parse::<u32>)]
    n: u32,
    /// Everything that is kept
    #[arg(long, short, conflicts_with = "n")]
    all: bool,
    /// Only this worker, such as my-job-trainer-0, or trainer-0
    #[arg(short, long = "worker", value_name = "WORKER")]
    w: Option<String>,
    /// Only workers of this role: trainer, pserver or master
    #[arg(long, value_name = "ROLE")]
    role: Option<Role>,
    /// Go on until the job has ended
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    view: View,
}

/// A line that has no end yet is printed when it is so long.
const LINE_BYTES_MAX: usize = 64 << 10;

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    let query = LogQuery {
        tail: (!args.all).then_some(args.n),
        worker: args.w.clone(),
        role: args.role,
        ..LogQuery::default()
    };
    let mut output = Output::open();
    let style = match (args.view.form, &args.w) {
        (Form::Json, _) => Style::Json,
        (Form::Yaml, _) => {
            return Err(Error::invalid("a log has no end to wait for: use -o json"));
        }
        (_, Some(_)) => Style::Plain,
        (_, None) if args.follow => Style::Named,
        (_, None) => Style::Headed,
    };
    let mut printer = Printer::new(style);
    match args.follow {
        false => client.logs(&args.job, &query, |piece| printer.print(&piece, &mut output))?,
        true => follow(&client, &args.job, &query, &mut printer, &mut output)?,
    }
    printer.finish(&mut output)?;
    output.close()?;
    if !args.follow {
        printer.say_if_empty(&args.job);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints all that every worker of a job prints, until it has ended.
pub(crate) fn follow_all(client: &Client, job: &str) -> Result<()> {
    let mut output = Output::open();
    let mut printer = Printer::new(Style::Named);
    follow(client, job, &LogQuery::default(), &mut printer, &mut output)?;
    printer.finish(&mut output)?;
    output.close()
}

fn follow(
    client: &Client,
    job: &str,
    query: &LogQuery,
    printer: &mut Printer,
    output: &mut Output,
) -> Result<()> {
    let mut follow = client.follow(job, query)?;
    while let Some(seen) = follow.see()? {
        match seen {
            Seen::Piece(piece) => {
                printer.print(&piece, output)?;
                output.flush()?;
            }
            Seen::Lost(why) => say(&format!("{why}; trying again")),
            Seen::Back => say("the server is back"),
            Seen::Quiet => printer.say_if_empty(job),
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// One piece per line, as the server sent it.
    Json,
    /// As it was printed.
    Plain,
    /// The lines of each worker below its name, as the original prints them.
    Headed,
    /// Each line with its worker in front.
    Named,
}

struct Printer {
    style: Style,
    has_colour: bool,
    /// Whether anything was printed, or that was said.
    is_empty: bool,
    /// The worker whose lines come now.
    current: Option<String>,
    is_line_open: bool,
    /// The workers whose names were printed.
    seen: BTreeSet<String>,
    /// The beginning of a line of each worker.
    open: BTreeMap<String, String>,
    width: usize,
}

impl Printer {
    fn new(style: Style) -> Printer {
        Printer {
            style,
            has_colour: prefix::wants_colour(&std::io::stdout()),
            is_empty: true,
            current: None,
            is_line_open: false,
            seen: BTreeSet::new(),
            open: BTreeMap::new(),
            width: 0,
        }
    }

    fn print(&mut self, piece: &LogPiece, output: &mut Output) -> Result<()> {
        self.is_empty &= piece.text.is_empty() && piece.skipped_bytes == 0;
        if piece.skipped_bytes > 0 && self.style != Style::Json {
            let LogPiece { worker, skipped_bytes, .. } = piece;
            say(&format!("{worker}: {skipped_bytes} bytes before this are no longer kept"));
        }
        match self.style {
            Style::Json => output.json_line(piece),
            Style::Plain => self.text(&piece.text, output),
            Style::Headed => {
                // The last piece of a log may be empty: its worker's name is not printed again.
                let is_new = self.seen.insert(piece.worker.clone()) || !piece.text.is_empty();
                if is_new && self.current.as_deref() != Some(&piece.worker) {
                    self.end_line(output)?;
                    let bar = "=".repeat(26);
                    output.line(format_args!("{bar}{}{bar}", piece.worker))?;
                    self.current = Some(piece.worker.clone());
                }
                self.text(&piece.text, output)
            }
            Style::Named => self.named(piece, output),
        }
    }

    /// Says, once, that there is nothing to see yet.
    fn say_if_empty(&mut self, job: &str) {
        if std::mem::take(&mut self.is_empty) {
            say(&format!("nothing was printed so far: `paddlecloud why {job}` says why"));
        }
    }

    fn text(&mut self, text: &str, output: &mut Output) -> Result<()> {
        if !text.is_empty() {
            self.is_line_open = !text.ends_with('\n');
        }
        output.bytes(text.as_bytes())
    }

    fn named(&mut self, piece: &LogPiece, output: &mut Output) -> Result<()> {
        self.width = self.width.max(piece.worker.len());
        let who = role_and_rank(&piece.worker);
        let prefix = prefix::named(&piece.worker, who, self.width, self.has_colour);
        let text = self.open.remove(&piece.worker).unwrap_or_default() + &piece.text;
        let mut rest = "";
        for line in text.split_inclusive('\n') {
            match line.strip_suffix('\n') {
                Some(line) => {
                    output.line(format_args!("{prefix}{}", line.trim_end_matches('\r')))?;
                }
                None => rest = line,
            }
        }
        if rest.len() > LINE_BYTES_MAX || (piece.is_last && !rest.is_empty()) {
            return output.line(format_args!("{prefix}{rest}"));
        }
        if !rest.is_empty() {
            self.open.insert(piece.worker.clone(), rest.to_owned());
        }
        Ok(())
    }

    fn end_line(&mut self, output: &mut Output) -> Result<()> {
        match std::mem::take(&mut self.is_line_open) {
            true => output.line(""),
            false => Ok(()),
        }
    }

    fn finish(&mut self, output: &mut Output) -> Result<()> {
        for (worker, rest) in std::mem::take(&mut self.open) {
            let prefix =
                prefix::named(&worker, role_and_rank(&worker), self.width, self.has_colour);
            output.line(format_args!("{prefix}{rest}"))?;
        }
        match self.style {
            Style::Headed => self.end_line(output),
            _ => Ok(()),
        }
    }
}

/// Of `ctr-trainer-3`; for colours, so a guess will do.
fn role_and_rank(worker: &str) -> (Role, u32) {
    let mut parts = worker.rsplit('-');
    let rank = parts.next().and_then(|rank| rank.parse().ok()).unwrap_or(0);
    let role = parts.next().and_then(|role| role.parse().ok()).unwrap_or(Role::Trainer);
    (role, rank)
}
