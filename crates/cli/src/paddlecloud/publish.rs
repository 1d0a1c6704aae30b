//! `paddlecloud publish`: links by which everybody may download a file.

use crate::args::Globals;
use crate::cloud::connect;
use crate::pfs;
use crate::view::{Table, View};
use cli::output::Output;
use contract::api::file::Link;
use contract::{Error, Result};
use std::process::ExitCode;

/// Give away a link to a file
///
///   paddlecloud publish PFSPATH        make a link, by which anybody may download the file
///   paddlecloud publish [list]         list your links
///   paddlecloud publish revoke ID...   end links
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Give away a link to a file")]
pub(crate) struct Args {
    /// A file of your home, or list, or revoke with the numbers of links
    #[arg(value_name = "PATH|list|revoke")]
    words: Vec<String>,
    #[command(flatten)]
    view: View,
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    match &words[..] {
        [] | ["list"] => {
            let links = connect(globals)?.links()?;
            args.view.show(&links, |links| table(links))?;
        }
        ["revoke"] => {
            let message = "the link's ID is missing: write `paddlecloud publish revoke ID`, with \
                           an ID of `paddlecloud publish list`";
            return Err(Error::invalid(message));
        }
        ["revoke", ids @ ..] => {
            let client = connect(globals)?;
            let mut output = Output::open();
            for id in ids {
                client.revoke_link(id)?;
                output.line(format_args!("link {id} is revoked"))?;
            }
            output.close()?;
        }
        [path] => {
            let client = connect(globals)?;
            let link = client.publish(&client.pfs_path(path)?)?;
            args.view.tell(&link, |output| output.line(&link.url))?;
        }
        _ => return Err(Error::invalid("one file at a time: `paddlecloud publish PFSPATH`")),
    }
    Ok(ExitCode::SUCCESS)
}

fn table(links: &[Link]) -> Table {
    let row = |link: &Link| {
        vec![
            link.id.clone(),
            pfs::shown(&link.path),
            link.url.clone(),
            cli::time::moment(link.created_ms),
        ]
    };
    Table {
        header: &["ID", "PATH", "URL", "CREATED"],
        narrow: 4,
        rows: links.iter().map(row).collect(),
    }
}
