//! Somebody at one datacenter: logs in, keeps the token, and makes calls with it.

use crate::body;
use crate::config::{Config, Datacenter, config_file};
use crate::edit;
use crate::retry::OUTAGE_MAX;
use crate::retry::Repeat;
use crate::tokens::{Held, Tokens, is_token};
use crate::transport::{Call, Content, Transport};
use contract::api::Page;
use contract::api::cluster;
use contract::api::path;
use contract::api::user::{Login, Session};
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use ureq::http::Method;

/// Who uses the cloud, and from where.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The home directory, whose `.paddle` has the configuration and tokens.
    pub home: PathBuf,
    /// Another configuration file.
    pub config: Option<PathBuf>,
    /// Another datacenter of the configuration than the current one.
    pub datacenter: Option<String>,
    /// A token to be used instead of a login.
    pub token: Option<Secret>,
    /// Is told, in a line, what is worth knowing and no error.
    pub notice: fn(&str),
}

impl Profile {
    /// The configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| config_file(&self.home))
    }
}

/// A user at one datacenter. Many threads may use it.
pub struct Client {
    pub(crate) transport: Transport,
    pub(crate) datacenter: Datacenter,
    pub(crate) notice: fn(&str),
    tokens: Tokens,
    /// A token that was given, which cannot be renewed.
    given: Option<Secret>,
    held: Mutex<Option<Held>>,
    /// How long a server that is away is waited for.
    pub(crate) patience: Duration,
}

/// What a list has.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Whether there are more than were asked for.
    pub has_more: bool,
    /// What the server says of the list, such as that a row cannot be read.
    pub notes: Vec<String>,
}

impl Client {
    /// Reads the configuration. Nothing is asked of the server yet.
    pub fn open(profile: &Profile) -> Result<Client> {
        let config = Config::load(&profile.config_file())?;
        let datacenter = config.choose(profile.datacenter.as_deref())?;
        Client::at(profile, datacenter)
    }

    /// A client of a datacenter that no configuration needs to have.
    pub fn at(profile: &Profile, datacenter: Datacenter) -> Result<Client> {
        if profile.token.as_ref().is_some_and(|token| !is_token(token.expose())) {
            let message = "the given token is none: it is letters, digits and punctuation";
            return Err(Error::invalid(message));
        }
        Ok(Client {
            transport: Transport::new(&datacenter, None)?,
            datacenter,
            notice: profile.notice,
            tokens: Tokens::below(&profile.home),
            given: profile.token.clone(),
            held: Mutex::new(None),
            patience: OUTAGE_MAX,
        })
    }

    /// Waits less long for a server that is away, or takes long to answer, than a command does.
    pub fn with_patience(self, patience: Duration) -> Result<Client> {
        let transport = Transport::new(&self.datacenter, Some(patience))?;
        Ok(Client { transport, patience, ..self })
    }

    /// The same user with connections and locks of its own. A process that was forked needs it: what
    /// it has of this client it shares with its parent, whose answers it would read.
    pub fn reopened(&self) -> Result<Client> {
        Ok(Client {
            transport: Transport::new(&self.datacenter, self.transport.patience)?,
            datacenter: self.datacenter.clone(),
            notice: self.notice,
            tokens: self.tokens.clone(),
            given: self.given.clone(),
            held: Mutex::new(None),
            patience: self.patience,
        })
    }

    /// The same user at another datacenter of the server.
    pub(crate) fn at_datacenter(self, datacenter: Datacenter) -> Client {
        let held =
            self.lock().take().map(|held| Held { datacenter: datacenter.name.clone(), ..held });
        Client { datacenter, held: Mutex::new(held), ..self }
    }

    /// The datacenter as the configuration describes it.
    pub fn datacenter(&self) -> &Datacenter {
        &self.datacenter
    }

    /// Whether a token was given, so that nobody needs to log in.
    pub fn has_given_token(&self) -> bool {
        self.given.is_some()
    }

    /// What the server calls the datacenter. Users may call it as they like, where a server has
    /// only one.
    pub fn datacenter_name(&self) -> Result<String> {
        Ok(self.hold()?.datacenter)
    }

    /// Logs in by a password, and keeps the token for later commands.
    pub fn login(&self, password: &Secret) -> Result<Session> {
        if self.datacenter.username.is_empty() {
            let message = "nobody to log in: give the datacenter a `username`";
            return Err(Error::invalid(message).with("datacenter", &self.datacenter.name));
        }
        let login = Login {
            username: self.datacenter.username.clone(),
            password: password.expose().to_owned(),
        };
        let call = Call {
            method: Method::POST,
            path: path::LOGIN.to_owned(),
            content: Content::Json(body::encode(&login)?),
            repeat: Repeat::Safe,
            what: "log in",
            answer: None,
        };
        let bytes = self.transport.call(&call, None).map_err(|error| self.explain_login(error))?;
        let session: Session = body::decode(&bytes, call.what)?;
        if !is_token(&session.token) {
            return Err(Error::new(Kind::Damaged, "the server gave a token that is none"));
        }
        let token = Secret::new(session.token.clone());
        let held = Held { datacenter: self.resolve(&token)?, token };
        if let Err(error) = self.tokens.store(&self.datacenter, &held) {
            (self.notice)(&format!("the login cannot be kept for later: {}", error.chain()));
        }
        *self.lock() = Some(held);
        Ok(session)
    }

    /// Revokes the token and forgets it; whether there was one.
    pub fn logout(&self) -> Result<bool> {
        let Some(held) = self.lock().take().or_else(|| self.tokens.load(&self.datacenter)) else {
            return Ok(false);
        };
        self.tokens.remove(&self.datacenter);
        let call = Call {
            method: Method::POST,
            path: path::LOGOUT.to_owned(),
            content: Content::Nothing,
            repeat: Repeat::Safe,
            what: "log out",
            answer: None,
        };
        match self.transport.call(&call, Some(&held.token)) {
            // It was revoked before.
            Err(error) if error.kind() == Kind::Unauthenticated => Ok(true),
            Err(error) => Err(error),
            Ok(_) => Ok(true),
        }
    }

    /// Writes a configuration of this datacenter where there is none yet.
    pub fn create_config(&self, file: &Path) -> Result<()> {
        edit::create(file, &self.datacenter)
    }

    /// A call whose answer is JSON.
    pub(crate) fn ask<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T> {
        body::decode(&self.call(call)?, call.what)
    }

    /// A call with the token, and once more with a new one if it is refused.
    pub(crate) fn call(&self, call: &Call<'_>) -> Result<Vec<u8>> {
        self.with_token(|token| self.transport.call(call, Some(token)))
    }

    pub(crate) fn with_token<T>(&self, make: impl Fn(&Secret) -> Result<T>) -> Result<T> {
        let token = self.hold()?.token;
        match make(&token) {
            Err(error) if error.kind() == Kind::Unauthenticated => {
                if self.given.is_some() {
                    let message = "the given token is not valid here, or no longer: make another \
                                   by `paddlecloud token create`";
                    return Err(Error::new(Kind::Unauthenticated, message)
                        .with("server", &self.transport.endpoint));
                }
                make(&self.renew(&token)?)
            }
            other => other,
        }
    }

    /// The path of a call that is about the datacenter.
    pub(crate) fn path(&self, path: &str, values: &[&str]) -> Result<String> {
        let datacenter = self.datacenter_name()?;
        let all: Vec<&str> = std::iter::once(&*datacenter).chain(values.iter().copied()).collect();
        Ok(path::fill(path, &all))
    }

    /// Every row of a list of pages, up to `rows_max`.
    pub(crate) fn rows<T: DeserializeOwned>(
        &self,
        path: &str,
        what: &'static str,
        rows_max: usize,
    ) -> Result<Rows<T>> {
        let (mut rows, mut notes) = (Vec::new(), Vec::new());
        let mut after: Option<String> = None;
        loop {
            let limit = (rows_max - rows.len()).min(contract::api::PAGE_ROWS_MAX as usize);
            let separator = if path.contains('?') { '&' } else { '?' };
            let mut page_path = format!("{path}{separator}limit={limit}");
            if let Some(after) = &after {
                page_path.push_str(&format!("&after={}", path::encode(after)));
            }
            let mut page: Page<T> = self.ask(&get(page_path, what))?;
            let is_empty = page.items.is_empty() && page.notes.is_empty();
            let is_stuck = is_empty || page.next == after;
            rows.append(&mut page.items);
            notes.append(&mut page.notes);
            rows.truncate(rows_max);
            match page.next {
                None => return Ok(Rows { rows, has_more: false, notes }),
                Some(_) if rows.len() >= rows_max => {
                    return Ok(Rows { rows, has_more: true, notes });
                }
                Some(_) if is_stuck => {
                    let message = format!("cannot {what}: the server's list does not end");
                    return Err(Error::new(Kind::Damaged, message));
                }
                next => after = next,
            }
        }
    }

    /// The token of this process, of an earlier command, or of a login now.
    fn hold(&self) -> Result<Held> {
        let mut held = self.lock();
        if let Some(held) = &*held {
            return Ok(held.clone());
        }
        if let Some(token) = &self.given {
            let datacenter = self.resolve(token).map_err(|error| match error.kind() {
                Kind::Unauthenticated => {
                    let message = "the given token is not valid here, or no longer: make another \
                                   by `paddlecloud token create`";
                    Error::new(Kind::Unauthenticated, message)
                        .with("server", &self.transport.endpoint)
                }
                _ => error,
            })?;
            let fresh = Held { token: token.clone(), datacenter };
            *held = Some(fresh.clone());
            return Ok(fresh);
        }
        if let Some(earlier) = self.tokens.load(&self.datacenter) {
            *held = Some(earlier.clone());
            return Ok(earlier);
        }
        drop(held);
        self.login_by_config("not logged in")?;
        self.held_now()
    }

    /// A new token, unless another thread has got one since `refused`.
    fn renew(&self, refused: &Secret) -> Result<Secret> {
        let current = self.lock().as_ref().map(|held| held.token.clone());
        match current {
            Some(current) if current != *refused => Ok(current),
            _ => {
                self.tokens.remove(&self.datacenter);
                *self.lock() = None;
                self.login_by_config("the login has ended, or was revoked")?;
                Ok(self.held_now()?.token)
            }
        }
    }

    fn login_by_config(&self, why: &str) -> Result<()> {
        match &self.datacenter.password {
            Some(password) => self.login(password).map(|_| ()),
            None => {
                let message = format!("{why}, and there is no password: use `paddlecloud login`");
                Err(Error::new(Kind::Unauthenticated, message)
                    .with("datacenter", &self.datacenter.name)
                    .with("username", &self.datacenter.username))
            }
        }
    }

    fn held_now(&self) -> Result<Held> {
        let gone = || Error::new(Kind::Unauthenticated, "logged out meanwhile");
        self.lock().clone().ok_or_else(gone)
    }

    /// The datacenter of the server that is meant.
    fn resolve(&self, token: &Secret) -> Result<String> {
        let call = get(path::DATACENTERS.to_owned(), "list datacenters");
        let bytes = self.transport.call(&call, Some(token))?;
        let all: Vec<cluster::Datacenter> = body::decode(&bytes, call.what)?;
        let name = &self.datacenter.name;
        match &all[..] {
            rows if rows.iter().any(|row| row.name == *name) => Ok(name.clone()),
            [only] => Ok(only.name.clone()),
            // Whoever names none means the server.
            [first, ..] if name.is_empty() => Ok(first.name.clone()),
            rows => {
                let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
                let message = "the server has no such datacenter: name one of its own in the \
                               configuration, or by -datacenter at the first login";
                Err(Error::new(Kind::NotFound, message)
                    .with("datacenter", name)
                    .with("there_are", names.join(", ")))
            }
        }
    }

    fn explain_login(&self, error: Error) -> Error {
        match error.kind() {
            Kind::Unsupported => {
                let message = "this is no cloud that this command can talk to, or a much older \
                               one: look at `endpoint`";
                Error::new(Kind::Unsupported, message)
                    .with("server", &self.transport.endpoint)
                    .because(error)
            }
            _ => error.with("datacenter", &self.datacenter.name),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question.
pub(crate) fn get(path: String, what: &'static str) -> Call<'static> {
    Call {
        method: Method::GET,
        path,
        content: Content::Nothing,
        repeat: Repeat::Safe,
        what,
        answer: None,
    }
}

/// A request with a body that may be made twice.
pub(crate) fn send(
    method: Method,
    path: String,
    value: &impl Serialize,
    what: &'static str,
) -> Result<Call<'static>> {
    let content = Content::Json(body::encode(value)?);
    Ok(Call { method, path, content, repeat: Repeat::Safe, what, answer: None })
}
