//! Proof that a message comes from another process of the same job, unaltered and in order.
//!
//! Rank 0 tells the others what to run, so whoever could speak in its place would run programs as
//! their user. Both sides have a key that nobody else has; each proves it once, and from then on
//! every line carries an HMAC-SHA-256 over its number and its text. Lines can be read by others on
//! the network, so no secret is ever in them.

use contract::secret::Secret;
use contract::{Error, Kind, Result};
use ring::hmac;

/// Bytes of a nonce.
const NONCE_BYTES: usize = 32;

/// What two sides agree on before they speak: both nonces and the rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Agreement {
    pub(super) client_nonce: String,
    pub(super) server_nonce: String,
    pub(super) rank: u32,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Server,
    Client,
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Side::Server => "server",
            Side::Client => "client",
        }
    }
}

impl Agreement {
    /// The proof that `side` has the key.
    pub(super) fn proof(&self, key: &Secret, side: Side) -> String {
        hexadecimal(self.tag(key, "proof", side).as_ref())
    }

    /// Whether the other side has the key.
    pub(super) fn check(&self, key: &Secret, side: Side, proof: &str) -> Result<()> {
        let expected = Secret::new(self.proof(key, side));
        if expected == Secret::new(proof) {
            return Ok(());
        }
        let message = "a process that does not belong to this job answered: choose another \
                       --mpi_port, or give all ranks the same PADDLE_JOB_TOKEN";
        Err(Error::new(Kind::Forbidden, message).with("rank", self.rank))
    }

    /// What seals, or opens, the lines of `side`.
    pub(super) fn seal(&self, key: &Secret, side: Side) -> Seal {
        let tag = self.tag(key, "lines", side);
        Seal { key: hmac::Key::new(hmac::HMAC_SHA256, tag.as_ref()), count: 0 }
    }

    fn tag(&self, key: &Secret, purpose: &str, side: Side) -> hmac::Tag {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.expose().as_bytes());
        let Agreement { client_nonce, server_nonce, rank } = self;
        // Nonces have one length, and none of the parts has a space.
        let text = format!("{purpose} {} {client_nonce} {server_nonce} {rank}", side.word());
        hmac::sign(&key, text.as_bytes())
    }
}

/// Numbers and signs the lines of one direction.
pub(super) struct Seal {
    key: hmac::Key,
    count: u64,
}

impl Seal {
    /// A line without its end → a line with its tag in front, without its end.
    pub(super) fn close(&mut self, line: &str) -> String {
        let tag = self.next(line);
        format!("{} {line}", hexadecimal(tag.as_ref()))
    }

    /// The line inside, if it is the next one of the other side.
    pub(super) fn open<'a>(&mut self, sealed: &'a str) -> Result<&'a str> {
        let (tag, line) = sealed.split_once(' ').unwrap_or_default();
        let expected = Secret::new(hexadecimal(self.next(line).as_ref()));
        if expected == Secret::new(tag) {
            return Ok(line);
        }
        Err(Error::new(Kind::Damaged, "a message was altered or lost on its way"))
    }

    fn next(&mut self, line: &str) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&self.count.to_le_bytes());
        context.update(line.as_bytes());
        self.count += 1;
        context.sign()
    }
}

/// A number that is used once.
pub(super) fn nonce() -> Result<String> {
    use ring::rand::SecureRandom;
    let mut bytes = [0; NONCE_BYTES];
    ring::rand::SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::new(Kind::Io, "no random numbers"))?;
    Ok(hexadecimal(&bytes))
}

/// Whether a text could be a nonce, and so nothing else.
pub(super) fn is_nonce(text: &str) -> bool {
    text.len() == 2 * NONCE_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The secret of a job whose ranks share `key`: the same for all, and of no help to find the key.
pub fn token(key: &Secret) -> Secret {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.expose().as_bytes());
    Secret::new(hexadecimal(hmac::sign(&key, b"token").as_ref()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agreement() -> Agreement {
        Agreement { client_nonce: nonce().unwrap(), server_nonce: nonce().unwrap(), rank: 1 }
    }

    #[test]
    fn only_who_has_the_key_can_prove_it_and_only_as_itself() {
        let (agreement, key) = (agreement(), Secret::new("key"));
        let proof = agreement.proof(&key, Side::Server);
        agreement.check(&key, Side::Server, &proof).unwrap();
        let kind = |result: Result<()>| result.unwrap_err().kind();
        assert_eq!(kind(agreement.check(&key, Side::Client, &proof)), Kind::Forbidden);
        assert_eq!(kind(agreement.check(&Secret::new("?"), Side::Server, &proof)), Kind::Forbidden);
        let other = Agreement { rank: 2, ..agreement };
        assert_eq!(kind(other.check(&key, Side::Server, &proof)), Kind::Forbidden);
    }

    #[test]
    fn lines_open_in_order_and_unaltered_only() {
        let (agreement, key) = (agreement(), Secret::new("key"));
        let mut ours = agreement.seal(&key, Side::Client);
        let lines = ["{\"a\": 1}", "", "two words"].map(|line| (line, ours.close(line)));
        let mut theirs = agreement.seal(&key, Side::Client);
        for (line, sealed) in &lines {
            assert_eq!(theirs.open(sealed).unwrap(), *line);
        }
        let theirs = || agreement.seal(&key, Side::Client);
        assert!(theirs().open(&lines[1].1).is_err(), "out of order");
        assert!(theirs().open(&lines[0].1.replace('1', "2")).is_err(), "altered");
        assert!(agreement.seal(&key, Side::Server).open(&lines[0].1).is_err(), "sent back");
        assert!(theirs().open("").is_err());
    }
}
