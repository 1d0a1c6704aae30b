//! `paddlecloud token`: tokens for scripts.

use crate::args::Globals;
use crate::cloud::{TOKEN_VARIABLE, connect, say};
use crate::view::{Table, View};
use cli::output::Output;
use cli::time;
use contract::Result;
use contract::api::user::{NewToken, Token};
use std::process::ExitCode;

/// Make, list and revoke tokens for scripts
///
/// A script that has a token in PADDLECLOUD_TOKEN needs no password.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a token, which is printed once
    Create {
        /// What it is for
        #[arg(value_name = "LABEL")]
        label: String,
        /// How long it is good for
        #[arg(long, value_name = "TIME", default_value = "30d", value_parser = cli::duration::parse_seconds)]
        ttl: u64,
    },
    /// List the tokens that are good
    List {
        #[command(flatten)]
        view: View,
    },
    /// Revoke a token
    Delete {
        /// Its number, of the list
        #[arg(value_name = "ID")]
        id: String,
    },
}

pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
    let client = connect(globals)?;
    match &args.action {
        Action::Create { label, ttl } => {
            let token = NewToken { label: label.clone(), ttl_seconds: *ttl };
            let added = client.add_token(&token)?;
            let end = time::moment(added.expires_ms);
            say(&format!(
                "put this into {TOKEN_VARIABLE}; it is good until {end} and not told again:"
            ));
            print(&added.token)?;
        }
        Action::List { view } => view.show(&client.tokens()?, |tokens| table(tokens))?,
        Action::Delete { id } => {
            client.delete_token(id)?;
            print("revoked")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(line: &str) -> Result<()> {
    let mut output = Output::open();
    output.line(line)?;
    output.close()
}

fn table(tokens: &[Token]) -> Table {
    let row = |token: &Token| {
        let Token { id, label, created_ms, expires_ms } = token;
        vec![id.clone(), label.clone(), time::moment(*created_ms), time::moment(*expires_ms)]
    };
    Table {
        header: &["ID", "LABEL", "CREATED", "EXPIRES"],
        narrow: 4,
        rows: tokens.iter().map(row).collect(),
    }
}
