//! Who did what. A change that somebody asks for leaves an entry, also when it is refused; writing to
//! files of one's own home leaves none.

mod store;

use crate::Cloud;
use crate::clock::now_ms;
use crate::files::place::parse;
use crate::http::request::page_rows;
use crate::http::{Admin, Answer, Caller, Question};
use axum::Json;
use axum::extract::State;
use contract::api::Page;
use contract::api::user::AuditEntry;
use contract::{Error, Result};
use serde::Deserialize;
use std::net::IpAddr;
use std::sync::Arc;

/// Something that somebody wanted to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deed<'a> {
    pub(crate) username: &'a str,
    pub(crate) address: IpAddr,
    pub(crate) action: &'static str,
    pub(crate) object: &'a str,
}

impl<'a> Deed<'a> {
    /// A deed of a caller.
    pub(crate) fn of(caller: &'a Caller, action: &'static str, object: &'a str) -> Self {
        Deed { username: &caller.username, address: caller.address, action, object }
    }

    /// A name and a password that somebody has sent.
    pub(crate) fn login(username: &'a str, address: IpAddr) -> Self {
        Deed { username, address, action: "login", object: "" }
    }
}

/// Longer texts are cut: they come from people who may not even be logged in.
const TEXT_CHARACTERS_MAX: usize = 300;

impl Cloud {
    /// Notes what became of a deed. A note that cannot be written does not undo it.
    pub(crate) async fn audit<T>(&self, deed: Deed<'_>, result: std::result::Result<T, &Error>) {
        let outcome = match &result {
            Ok(_) => "ok",
            Err(error) => error.kind().word(),
        };
        let cut = |text: &str| text.chars().take(TEXT_CHARACTERS_MAX).collect::<String>();
        let entry = AuditEntry {
            at_ms: now_ms(),
            user: cut(deed.username),
            address: deed.address.to_string(),
            action: deed.action.to_owned(),
            object: cut(deed.object),
            outcome: outcome.to_owned(),
        };
        tracing::info!(
            user = entry.user,
            address = entry.address,
            action = entry.action,
            object = entry.object,
            outcome,
            "audit"
        );
        if let Err(error) = self.write_audit(&entry).await {
            tracing::error!(error = error.chain(), "an audit entry was lost");
        }
    }

    /// As [`Cloud::audit`], for a change at a path of the file system that matters to others: only
    /// what is public does. What users write in their own homes is too much to note.
    pub(crate) async fn audit_public<T>(
        &self,
        deed: Deed<'_>,
        result: std::result::Result<T, &Error>,
    ) {
        if parse(self, deed.object).is_ok_and(|path| path.owner().is_none()) {
            self.audit(deed, result).await;
        }
    }

    async fn write_audit(&self, entry: &AuditEntry) -> Result<()> {
        let mut write = self.database.write().await?;
        store::add(&mut write, entry).await?;
        write.commit().await
    }

    /// Removes the oldest entries beyond the limit.
    pub(crate) async fn trim_audit(&self) -> Result<()> {
        let mut write = self.database.write().await?;
        store::trim(&mut write, self.config.limits.audit_entries).await?;
        write.commit().await
    }
}

/// Which entries are wanted.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// At most this many rows.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    after: Option<String>,
}

/// The entries, newest first.
pub(crate) async fn list(
    State(cloud): State<Arc<Cloud>>,
    Admin(_): Admin,
    Question(query): Question<AuditQuery>,
) -> Answer<Json<Page<AuditEntry>>> {
    let before = match &query.after {
        None => u64::MAX,
        Some(after) => after
            .parse()
            .map_err(|_| Error::invalid("after: use the `next` of a page").with("after", after))?,
    };
    let limit = page_rows(query.limit)?;
    Ok(Json(store::page(&cloud.database, before, limit).await?))
}
