//! Elastic jobs: carries shard 0's decisions about trainers to the other shards, which do not know
//! each other.

use super::link::Link;
use super::plan::Request;
use crate::message::{EntryHead, Head, Verb};
use contract::Result;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;

/// Waits for changes of the members on shard 0 and tells all others, until it is aborted. That
/// something cannot be told is met by the next step of this trainer, and said there.
pub(super) async fn carry(links: Vec<Arc<Link>>, pause: Duration) {
    let Some((first, others)) = links.split_first() else { return };
    let mut known = 0;
    loop {
        match ask(first, known, &[]).await {
            Ok((changes, released)) => {
                known = changes;
                let told = others.iter().map(|link| ask(link, changes, &released));
                for (link, outcome) in others.iter().zip(join_all(told).await) {
                    if let Err(error) = outcome {
                        let error = link.placed(error);
                        tracing::debug!(error = %error.chain(), "cannot tell of released trainers");
                    }
                }
            }
            Err(_) if first.progress().has_left => return,
            Err(error) => {
                tracing::debug!(error = %error.chain(), "cannot hear of released trainers");
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// The newest change that a shard knows of, and whom it has released: ranks and incarnations.
async fn ask(link: &Link, changes: u64, released: &[u64]) -> Result<(u64, Vec<u64>)> {
    let head = Head { version: changes, ..Head::default() };
    let mut request = Request::of(Verb::Members, head);
    request.entries.push(EntryHead { keys: released.len() as u32, ..EntryHead::default() });
    request.keys.push(released);
    let mut answer = (changes, Vec::new());
    let mut take = |_, body| {
        let reply = link.read(body)?;
        let keys = reply.entries.first().map(|entry| reply.keys(entry).to_vec());
        answer = (reply.head.version, keys.unwrap_or_default());
        Ok(())
    };
    link.exchange(&[request], &mut take).await?;
    Ok(answer)
}
