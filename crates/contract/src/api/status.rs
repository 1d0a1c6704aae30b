//! Error kind ↔ HTTP status.
//!
//! The server uses [`of`]; a client that got no body of ours, for example from a proxy in between,
//! uses [`kind`]. The two are not quite inverse, because HTTP has fewer words: both
//! [`Kind::AlreadyExists`] and [`Kind::Conflict`] are 409, and a server that is shutting down is,
//! to its clients, unavailable.

use crate::Kind;

/// The status that tells `kind`.
pub fn of(kind: Kind) -> u16 {
    match kind {
        Kind::Invalid => 400,
        Kind::Unauthenticated => 401,
        Kind::Forbidden => 403,
        Kind::NotFound => 404,
        Kind::AlreadyExists | Kind::Conflict => 409,
        // Not 429: that asks the client to try again, and a quota does not grow by asking.
        Kind::LimitExceeded => 413,
        Kind::Damaged => 422,
        Kind::Io => 500,
        Kind::Unsupported => 501,
        Kind::Unavailable | Kind::Interrupted => 503,
        Kind::Timeout => 504,
    }
}

/// What a status tells, `None` if it is not an error.
pub fn kind(status: u16) -> Option<Kind> {
    Some(match status {
        ..400 => return None,
        401 | 407 => Kind::Unauthenticated,
        403 => Kind::Forbidden,
        404 | 410 => Kind::NotFound,
        405 | 501 => Kind::Unsupported,
        408 | 504 => Kind::Timeout,
        409 | 412 | 423 => Kind::Conflict,
        413 | 507 => Kind::LimitExceeded,
        422 => Kind::Damaged,
        429 | 502 | 503 => Kind::Unavailable,
        400..=499 => Kind::Invalid,
        _ => Kind::Io,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_an_error_status_that_tells_it() {
        for sent in Kind::ALL {
            let told = match sent {
                Kind::AlreadyExists => Kind::Conflict,
                Kind::Interrupted => Kind::Unavailable,
                other => other,
            };
            assert_eq!(kind(of(sent)), Some(told), "{sent:?}");
        }
    }

    #[test]
    fn a_strange_status_still_says_whose_fault_it_is() {
        assert_eq!(kind(200), None);
        assert_eq!(kind(302), None);
        assert_eq!(kind(418), Some(Kind::Invalid));
        assert_eq!(kind(429), Some(Kind::Unavailable));
        assert_eq!(kind(599), Some(Kind::Io));
        assert_eq!(kind(u16::MAX), Some(Kind::Io));
    }
}
