//! Users, for administrators, and tokens for scripts.

use crate::client::{Client, Rows, get, send};
use crate::jobs::delete;
use crate::retry::Repeat;
use contract::Result;
use contract::api::path;
use contract::api::user::{
    AddedUser, AuditEntry, NewToken, NewUser, Session, Token, User, UserChange, Whoami,
};
use ureq::http::Method;

impl Client {
    /// Whose token makes the calls.
    pub fn whoami(&self) -> Result<Whoami> {
        self.ask(&get(path::WHOAMI.to_owned(), "say who you are"))
    }

    /// The user's name: of the configuration, or of the token that was given.
    pub fn username(&self) -> Result<String> {
        match self.has_given_token() || self.datacenter.username.is_empty() {
            true => Ok(self.whoami()?.user.username),
            false => Ok(self.datacenter.username.clone()),
        }
    }

    /// Adds a user.
    pub fn add_user(&self, user: &NewUser) -> Result<AddedUser> {
        let mut call = send(Method::POST, path::USERS.to_owned(), user, "add a user")?;
        // The answer may have a password, which is told once.
        call.repeat = Repeat::Unsafe;
        self.ask(&call)
    }

    /// Every user.
    pub fn users(&self) -> Result<Vec<User>> {
        self.ask(&get(path::USERS.to_owned(), "list users"))
    }

    /// Changes a user.
    pub fn change_user(&self, user: &str, change: &UserChange) -> Result<User> {
        let path = path::fill(path::USER, &[user]);
        self.ask(&send(Method::PATCH, path, change, "change a user")?)
    }

    /// Makes a token for scripts.
    pub fn add_token(&self, token: &NewToken) -> Result<Session> {
        let mut call = send(Method::POST, path::TOKENS.to_owned(), token, "make a token")?;
        call.repeat = Repeat::Unsafe;
        self.ask(&call)
    }

    /// The tokens that are valid.
    pub fn tokens(&self) -> Result<Vec<Token>> {
        self.ask(&get(path::TOKENS.to_owned(), "list tokens"))
    }

    /// Revokes a token.
    pub fn delete_token(&self, id: &str) -> Result<()> {
        self.call(&delete(path::fill(path::TOKEN, &[id]), "revoke a token")).map(|_| ())
    }

    /// Who did what: the newest entries.
    pub fn audit(&self, rows_max: usize) -> Result<Rows<AuditEntry>> {
        self.rows(path::AUDIT, "read the audit log", rows_max)
    }
}
