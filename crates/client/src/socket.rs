//! A server that is reached by a socket of this machine instead of the network. Whoever may use it
//! is decided by who may enter its directory, so nobody can put a server of theirs in its place.
#![cfg(unix)]

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// The file of a socket.
#[derive(Debug)]
pub(crate) struct Socket(pub(crate) PathBuf);

impl Connector for Socket {
    type Out = Stream;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Stream>, Error> {
        let stream = UnixStream::connect(&self.0).map_err(|error| match error.kind() {
            // It is made anew by the next server.
            ErrorKind::NotFound => ErrorKind::ConnectionRefused.into(),
            _ => error,
        })?;
        let config = &details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Stream { stream, buffers }))
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Stream {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for Stream {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.stream.set_write_timeout(timeout.not_zero().map(|limit| *limit))?;
        let sent = self.stream.write_all(&self.buffers.output()[..amount]);
        sent.map_err(|error| late(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        self.stream.set_read_timeout(timeout.not_zero().map(|limit| *limit))?;
        let input = self.buffers.input_append_buf();
        let amount = loop {
            match self.stream.read(input) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.map_err(|error| late(error, &timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        let is_quiet = |mut stream: &UnixStream| {
            stream.set_nonblocking(true)?;
            // Nothing was asked for, so there is nothing to read, and no end.
            let read = stream.read(&mut [0]);
            stream.set_nonblocking(false)?;
            Ok::<_, std::io::Error>(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock))
        };
        is_quiet(&self.stream).unwrap_or(false)
    }
}

/// That a limit is over is told like this by the system.
fn late(error: std::io::Error, timeout: &NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}
