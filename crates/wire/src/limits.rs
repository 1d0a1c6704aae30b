//! What a connection may cost: bytes and time. Every limit is set by us, none by the peer.

use contract::{Error, Result};
use std::time::Duration;

/// Limits of one connection. `None` as a timeout waits for ever.
///
/// Timeouts other than [`Limits::handshake_timeout`] bound the time *without progress*, not the
/// time a whole frame takes, so that they need not know how large frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest body that is accepted from the peer, in bytes. Told to the peer in the handshake,
    /// whose sender then refuses larger ones. Default 256 MiB.
    pub frame_bytes_max: u32,
    /// Size of the buffer that small frames are read through, in bytes; a frame that fits costs one
    /// read together with its neighbours, larger ones are read straight into their body.
    /// Default 64 KiB.
    pub read_buffer_bytes: usize,
    /// Size of the buffer that collects fed frames, in bytes; larger frames are never copied.
    /// Default 64 KiB.
    pub write_buffer_bytes: usize,
    /// Number of free body buffers kept for reuse. Default 32.
    pub pooled_buffers_max: usize,
    /// Bytes of free body buffers kept for reuse. Default 128 MiB.
    pub pooled_bytes_max: usize,
    /// Time for dialling, TLS and handshake together. Default 10 s.
    pub handshake_timeout: Option<Duration>,
    /// Time to wait for the first byte of a frame. Default `None`: silence is no fault.
    pub idle_timeout: Option<Duration>,
    /// Time to wait for more bytes of a frame that has begun. Default 30 s.
    pub read_timeout: Option<Duration>,
    /// Time to wait for the peer to take more bytes. Default 30 s.
    pub write_timeout: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            frame_bytes_max: 256 << 20,
            read_buffer_bytes: 64 << 10,
            write_buffer_bytes: 64 << 10,
            pooled_buffers_max: 32,
            pooled_bytes_max: 128 << 20,
            handshake_timeout: Some(Duration::from_secs(10)),
            idle_timeout: None,
            read_timeout: Some(Duration::from_secs(30)),
            write_timeout: Some(Duration::from_secs(30)),
        }
    }
}

impl Limits {
    /// Smallest read and write buffer.
    pub const BUFFER_BYTES_MIN: usize = 256;
    /// Largest read and write buffer.
    pub const BUFFER_BYTES_MAX: usize = 16 << 20;

    /// Refuses limits that could never work.
    pub fn check(&self) -> Result<()> {
        if self.frame_bytes_max == 0 {
            return Err(Error::invalid("frame_bytes_max must be at least 1"));
        }
        for (field, bytes) in [
            ("read_buffer_bytes", self.read_buffer_bytes),
            ("write_buffer_bytes", self.write_buffer_bytes),
        ] {
            if !(Self::BUFFER_BYTES_MIN..=Self::BUFFER_BYTES_MAX).contains(&bytes) {
                return Err(Error::invalid(format!("{field} is out of range"))
                    .with("value", bytes)
                    .with("min", Self::BUFFER_BYTES_MIN)
                    .with("max", Self::BUFFER_BYTES_MAX));
            }
        }
        for (field, timeout) in [
            ("handshake_timeout", self.handshake_timeout),
            ("idle_timeout", self.idle_timeout),
            ("read_timeout", self.read_timeout),
            ("write_timeout", self.write_timeout),
        ] {
            if timeout == Some(Duration::ZERO) {
                return Err(Error::invalid(format!("{field} must not be zero; unset it to wait")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_their_own_check() {
        Limits::default().check().unwrap();
    }

    #[test]
    fn a_limit_that_cannot_work_is_named() {
        let check = |limits: Limits, field: &str| {
            let error = limits.check().unwrap_err();
            assert!(error.message().starts_with(field), "{error}");
        };
        let good = Limits::default();
        check(Limits { frame_bytes_max: 0, ..good }, "frame_bytes_max");
        check(Limits { read_buffer_bytes: 32, ..good }, "read_buffer_bytes");
        check(Limits { write_buffer_bytes: 1 << 30, ..good }, "write_buffer_bytes");
        check(Limits { read_timeout: Some(Duration::ZERO), ..good }, "read_timeout");
    }
}
