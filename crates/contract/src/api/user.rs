//! Users, sessions and tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A name and a password, for a token.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The user's name.
    pub username: String,
    /// Their password.
    pub password: String,
}

/// What a login gives.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// Sent as `Authorization: Token …` with every call.
    pub token: String,
    /// When it ends, unless it is used before: use renews it.
    #[serde(default)]
    pub expires_ms: u64,
    /// Whose it is.
    #[serde(flatten)]
    pub user: User,
}

/// Whose token makes the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Whoami {
    /// The user.
    #[serde(flatten)]
    pub user: User,
    /// When the token ends.
    #[serde(default)]
    pub expires_ms: u64,
    /// The version of the server.
    #[serde(default)]
    pub server_version: String,
}

/// A user as others see them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// Their name, often an e-mail address.
    pub username: String,
    /// Whether they may manage users, quotas and public files.
    pub is_admin: bool,
    /// Whether they may log in.
    pub is_enabled: bool,
    /// When they were added.
    #[serde(default)]
    pub created_ms: u64,
}

/// A user to be added.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    /// Their name.
    pub username: String,
    /// Their first password; the server makes one if there is none, and returns it once.
    #[serde(default)]
    #[schema(min_length = 8, max_length = 1024)]
    pub password: Option<String>,
    /// Whether they may manage users.
    #[serde(default)]
    pub is_admin: bool,
}

/// A user that was added.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct AddedUser {
    /// The user.
    #[serde(flatten)]
    pub user: User,
    /// The password, if the server made it. It is not told again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

/// Changes of a user. What is absent stays. Users may change their own password; a change of
/// password, and disabling, revoke all tokens and end what is followed with them. Disabling also
/// ends the user's jobs, unless `keeps_jobs` says otherwise.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UserChange {
    /// A new password.
    pub password: Option<String>,
    /// The password until now, if somebody changes their own.
    pub old_password: Option<String>,
    /// Whether they may log in.
    pub is_enabled: Option<bool>,
    /// Whether they may manage users.
    pub is_admin: Option<bool>,
    /// With `is_enabled: false`: their jobs go on, and those that wait are started.
    pub keeps_jobs: bool,
}

/// A token for scripts, to be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// What it is for, for its owner to recognise it by.
    pub label: String,
    /// How long it is good for, at most ten years.
    #[schema(minimum = 1, maximum = 316224000)]
    pub ttl_seconds: u64,
}

/// A token as its owner sees it later: without the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// Its public number.
    pub id: String,
    /// What it is for.
    #[serde(default)]
    pub label: String,
    /// When it was made.
    #[serde(default)]
    pub created_ms: u64,
    /// When it ends.
    #[serde(default)]
    pub expires_ms: u64,
}

/// Who did what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// When.
    pub at_ms: u64,
    /// Who; empty for somebody who failed to log in.
    pub user: String,
    /// From which address.
    #[serde(default)]
    pub address: String,
    /// What, such as `job.submit`.
    pub action: String,
    /// To what.
    #[serde(default)]
    pub object: String,
    /// What became of it: `ok` or the kind of the error.
    #[serde(default)]
    pub outcome: String,
}
