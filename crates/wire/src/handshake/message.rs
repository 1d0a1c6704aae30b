//! The messages of the handshake, as bytes, and the rules about them. Pure: no I/O.
//!
//! All have a fixed size, so nothing is allocated at a stranger's word. The first 16 bytes of a
//! hello are the same in every version of the protocol, so that any two versions can name each
//! other.
//!
//! | offset | hello, 72 bytes | |
//! |---|---|---|
//! | 0 | magic | the bytes `PDLWIRE` and 0 |
//! | 8 | wire version, u16 | [`VERSION`] |
//! | 10 | service version, u16 | the application's |
//! | 12 | flags, u32 | bit 0: has a job token |
//! | 16 | service | ASCII, padded with 0 to 8 bytes |
//! | 24 | nonce | 32 random bytes |
//! | 56 | incarnation, u64 | |
//! | 64 | frame bytes max, u32 | the largest body that this side accepts |
//! | 68 | reserved, u32 | 0; not looked at |
//!
//! A proof is the 32 bytes of HMAC-SHA256, keyed by the token, of 18 bytes of label
//! (`paddle-wire-client` or `paddle-wire-server`), the client's hello and the server's hello; zeros
//! without a token. A verdict is a reason (u32, 0 = welcome), a reserved u32, and the server's
//! proof, zeros if it refuses.

use contract::secret::Secret;
use contract::{Error, Kind, Result};
use ring::hmac;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The version of handshake and frames.
pub const VERSION: u16 = 1;

pub(super) const MAGIC: [u8; 8] = *b"PDLWIRE\0";
const HAS_TOKEN: u32 = 1 << 0;

/// The part of a hello that no version changes.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct Opening {
    pub(super) magic: [u8; 8],
    pub(super) version: U16,
    pub(super) service_version: U16,
    pub(super) flags: U32,
}

/// What a side says of itself.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct Hello {
    pub(super) opening: Opening,
    pub(super) service: [u8; 8],
    pub(super) nonce: [u8; 32],
    pub(super) incarnation: U64,
    pub(super) frame_bytes_max: U32,
    pub(super) reserved: U32,
}

/// Shows that a side has the token.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct Proof(pub(super) [u8; 32]);

/// The server's last word.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
pub(super) struct Verdict {
    pub(super) reason: U32,
    pub(super) reserved: U32,
    pub(super) proof: Proof,
}

/// Who proves.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Client,
    Server,
}

/// Why a peer is refused. The numbers travel; they are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    NotThisProtocol = 1,
    Version = 2,
    Service = 3,
    ServiceVersion = 4,
    TokenMissing = 5,
    TokenUnexpected = 6,
    TokenWrong = 7,
}

impl Hello {
    pub(super) fn new(service: [u8; 8], service_version: u16, has_token: bool) -> Self {
        let flags = if has_token { HAS_TOKEN } else { 0 };
        Hello {
            opening: Opening {
                magic: MAGIC,
                version: VERSION.into(),
                service_version: service_version.into(),
                flags: flags.into(),
            },
            service,
            nonce: [0; 32],
            incarnation: 0.into(),
            frame_bytes_max: 0.into(),
            reserved: 0.into(),
        }
    }
}

impl Opening {
    pub(super) fn has_token(&self) -> bool {
        self.flags.get() & HAS_TOKEN != 0
    }

    /// Why the rest of the hello cannot be read, if so.
    pub(super) fn objection(&self) -> Option<Reason> {
        if self.magic != MAGIC {
            return Some(Reason::NotThisProtocol);
        }
        (self.version.get() != VERSION).then_some(Reason::Version)
    }
}

/// Why these two may not talk, as far as it shows before any proof. Both come to the same answer.
pub(super) fn objection(client: &Hello, server: &Hello) -> Option<Reason> {
    if client.service != server.service {
        return Some(Reason::Service);
    }
    if client.opening.service_version != server.opening.service_version {
        return Some(Reason::ServiceVersion);
    }
    match (client.opening.has_token(), server.opening.has_token()) {
        (false, true) => Some(Reason::TokenMissing),
        (true, false) => Some(Reason::TokenUnexpected),
        _ => None,
    }
}

impl Proof {
    pub(super) const NONE: Proof = Proof([0; 32]);

    /// The proof of `role`, over everything both have said.
    pub(super) fn new(token: &Secret, role: Role, client: &Hello, server: &Hello) -> Proof {
        let tag = hmac::sign(&key(token), &statement(role, client, server));
        let mut proof = Proof::NONE;
        proof.0.copy_from_slice(tag.as_ref());
        proof
    }

    /// Is this the proof of `role`? Takes the same time wherever it is wrong.
    pub(super) fn holds(&self, token: &Secret, role: Role, client: &Hello, server: &Hello) -> bool {
        hmac::verify(&key(token), &statement(role, client, server), &self.0).is_ok()
    }
}

fn key(token: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, token.expose().as_bytes())
}

fn statement(role: Role, client: &Hello, server: &Hello) -> Vec<u8> {
    // The label keeps a side from being answered with its own proof.
    let label: &[u8; 18] = match role {
        Role::Client => b"paddle-wire-client",
        Role::Server => b"paddle-wire-server",
    };
    [label, client.as_bytes(), server.as_bytes()].concat()
}

impl Reason {
    const ALL: [Reason; 7] = [
        Reason::NotThisProtocol,
        Reason::Version,
        Reason::Service,
        Reason::ServiceVersion,
        Reason::TokenMissing,
        Reason::TokenUnexpected,
        Reason::TokenWrong,
    ];

    /// The reason of a verdict; `None` is a welcome.
    pub(super) fn decode(code: u32) -> Result<Option<Reason>> {
        if code == 0 {
            return Ok(None);
        }
        let known = Reason::ALL.into_iter().find(|reason| *reason as u32 == code);
        known.map(Some).ok_or_else(|| {
            Error::new(Kind::Damaged, "server refused for an unknown reason").with("code", code)
        })
    }

    /// The error both sides end with.
    pub(super) fn error(self) -> Error {
        let (kind, message) = match self {
            Reason::NotThisProtocol => (Kind::Damaged, "peer does not speak this protocol"),
            Reason::Version => {
                (Kind::Unsupported, "peers speak different protocol versions; use one release")
            }
            Reason::Service => {
                (Kind::Unsupported, "client reached another service; check the address")
            }
            Reason::ServiceVersion => {
                (Kind::Unsupported, "peers speak different service versions; use one release")
            }
            Reason::TokenMissing => {
                (Kind::Unauthenticated, "server asks for a job token and the client has none")
            }
            Reason::TokenUnexpected => {
                (Kind::Unauthenticated, "client has a job token and the server cannot prove it")
            }
            Reason::TokenWrong => {
                (Kind::Unauthenticated, "client and server have different job tokens")
            }
        };
        Error::new(kind, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(has_token: bool, nonce: u8) -> Hello {
        Hello { nonce: [nonce; 32], ..Hello::new(*b"test\0\0\0\0", 3, has_token) }
    }

    #[test]
    fn the_messages_have_the_documented_bytes() {
        let hello = Hello {
            incarnation: 0x0102.into(),
            frame_bytes_max: 0x0304.into(),
            ..hello(true, 0xaa)
        };
        let expect = [
            &b"PDLWIRE\0\x01\x00\x03\x00\x01\x00\x00\x00test\0\0\0\0"[..],
            &[0xaa; 32],
            &[2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(hello.as_bytes(), expect);
        assert_eq!((size_of::<Hello>(), size_of::<Opening>()), (72, 16));
        assert_eq!((size_of::<Proof>(), size_of::<Verdict>()), (32, 40));
    }

    #[test]
    fn a_proof_is_bound_to_token_role_and_both_hellos() {
        let (client, server, token) = (hello(true, 1), hello(true, 2), Secret::new("a"));
        let proof = Proof::new(&token, Role::Client, &client, &server);
        assert!(proof.holds(&token, Role::Client, &client, &server));
        assert!(!proof.holds(&Secret::new("b"), Role::Client, &client, &server));
        assert!(!proof.holds(&token, Role::Server, &client, &server));
        assert!(!proof.holds(&token, Role::Client, &server, &client));
        let restarted = Hello { incarnation: 9.into(), ..server };
        assert!(!proof.holds(&token, Role::Client, &client, &restarted));
        assert!(!Proof::NONE.holds(&token, Role::Client, &client, &server));
    }

    #[test]
    fn who_may_talk_is_decided_by_service_and_tokens() {
        let check = |client: Hello, server: Hello, expect| {
            assert_eq!(objection(&client, &server), expect);
        };
        let plain = hello(false, 0);
        check(plain, plain, None);
        check(hello(true, 0), hello(true, 0), None);
        check(hello(true, 0), plain, Some(Reason::TokenUnexpected));
        check(plain, hello(true, 0), Some(Reason::TokenMissing));
        check(plain, Hello { service: *b"master\0\0", ..plain }, Some(Reason::Service));
        check(plain, Hello::new(plain.service, 4, false), Some(Reason::ServiceVersion));
    }

    #[test]
    fn reasons_survive_the_journey() {
        for reason in Reason::ALL {
            assert_eq!(Reason::decode(reason as u32).unwrap(), Some(reason));
        }
        assert_eq!(Reason::decode(0).unwrap(), None);
        assert_eq!(Reason::decode(8).unwrap_err().kind(), Kind::Damaged);
    }
}
