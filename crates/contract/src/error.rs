//! The one error type of the project.
//!
//! Callers match on [`Kind`], never on text. What a kind means to the outside is decided where the
//! outside is met: exit codes in `cli`, HTTP statuses in [`crate::api::status`], exceptions in
//! `python`. `Display` prints the message and its context but not the source: the chain is printed
//! once, at the edge, by [`Error::chain`].

use std::fmt;

/// What went wrong, as far as a program can act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The caller asked for something that can never work as asked: fix the request.
    Invalid,
    /// The thing named does not exist.
    NotFound,
    /// The thing to be created is there already.
    AlreadyExists,
    /// The caller has not proved who it is.
    Unauthenticated,
    /// The caller is known, and may not do this.
    Forbidden,
    /// The thing is in a state that does not allow this now.
    Conflict,
    /// A limit (size, count, quota, memory) would be exceeded.
    LimitExceeded,
    /// Bytes from a disk or a peer are not what they claim to be.
    Damaged,
    /// Known, and deliberately or not yet supported.
    Unsupported,
    /// A peer or a resource cannot be reached now; trying again may help.
    Unavailable,
    /// It took longer than allowed; trying again may help.
    Timeout,
    /// Somebody asked to stop.
    Interrupted,
    /// The operating system refused for a reason that none of the others covers.
    Io,
}

impl Kind {
    /// Every kind, for tables that must be exhaustive.
    pub const ALL: [Kind; 13] = [
        Kind::Invalid,
        Kind::NotFound,
        Kind::AlreadyExists,
        Kind::Unauthenticated,
        Kind::Forbidden,
        Kind::Conflict,
        Kind::LimitExceeded,
        Kind::Damaged,
        Kind::Unsupported,
        Kind::Unavailable,
        Kind::Timeout,
        Kind::Interrupted,
        Kind::Io,
    ];

    /// The kind as programs write it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Invalid => "invalid",
            Kind::NotFound => "not_found",
            Kind::AlreadyExists => "already_exists",
            Kind::Unauthenticated => "unauthenticated",
            Kind::Forbidden => "forbidden",
            Kind::Conflict => "conflict",
            Kind::LimitExceeded => "limit_exceeded",
            Kind::Damaged => "damaged",
            Kind::Unsupported => "unsupported",
            Kind::Unavailable => "unavailable",
            Kind::Timeout => "timeout",
            Kind::Interrupted => "interrupted",
            Kind::Io => "io",
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(self) -> bool {
        matches!(self, Kind::Unavailable | Kind::Timeout)
    }
}

/// The project's result.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure: kind, message, context pairs, source.
pub struct Error(Box<Parts>);

// Boxed so that `Result<T>` stays small on the paths that never fail.
struct Parts {
    kind: Kind,
    message: String,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// A new error. Messages are lowercase, have no full stop, say what failed and, where we know
    /// it, what to do; values go into [`Error::with`].
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error(Box::new(Parts { kind, message: message.into(), context: Vec::new(), source: None }))
    }

    /// Shorthand for the most frequent kind.
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::new(Kind::Invalid, message)
    }

    /// An operating-system error, its kind taken from `source`.
    pub fn io(message: impl Into<String>, source: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let kind = match source.kind() {
            ErrorKind::NotFound => Kind::NotFound,
            ErrorKind::AlreadyExists => Kind::AlreadyExists,
            ErrorKind::PermissionDenied => Kind::Forbidden,
            ErrorKind::TimedOut => Kind::Timeout,
            ErrorKind::Interrupted => Kind::Interrupted,
            ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::NotConnected
            | ErrorKind::BrokenPipe
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable => Kind::Unavailable,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Kind::LimitExceeded
            }
            ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::InvalidInput => {
                Kind::Invalid
            }
            _ => Kind::Io,
        };
        Error::new(kind, message).because(source)
    }

    /// Adds a value that helps to find the place: `("file", path)`.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What went wrong, for a program.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// What went wrong, for a person, without the context.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The context pairs, in the order they were added.
    pub fn context(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.context.iter().map(|(key, value)| (*key, value.as_str()))
    }

    /// The error and all its causes on one line, for the edge of the program.
    pub fn chain(&self) -> String {
        let mut line = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            line.push_str(": ");
            line.push_str(&cause.to_string());
            source = cause.source();
        }
        line
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        let mut separator = " (";
        for (key, value) in &self.0.context {
            write!(f, "{separator}{key}: {value}")?;
            separator = ", ";
        }
        if self.0.context.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.kind, self.chain())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_shows_message_and_context_but_not_the_source() {
        let error = Error::io("cannot read chunk", std::io::Error::other("disk on fire"))
            .with("file", "a.recordio")
            .with("offset", 20);
        assert_eq!(error.to_string(), "cannot read chunk (file: a.recordio, offset: 20)");
        assert_eq!(error.chain(), "cannot read chunk (file: a.recordio, offset: 20): disk on fire");
    }

    #[test]
    fn io_errors_keep_the_kind_that_a_caller_can_act_on() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        assert_eq!(Error::io("cannot open", missing).kind(), Kind::NotFound);
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(Error::io("cannot connect", refused).kind().is_retryable());
    }
}
