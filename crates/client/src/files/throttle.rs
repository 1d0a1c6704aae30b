//! Keeps many threads together below a rate.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A rate that all threads share.
pub(crate) struct Throttle {
    bytes_per_second: u64,
    /// When everything that was let through will have been sent at this rate.
    due: Mutex<Instant>,
}

impl Throttle {
    /// So many bytes per second; 0 for no limit.
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Throttle { bytes_per_second, due: Mutex::new(Instant::now()) }
    }

    /// Waits until these bytes may be sent.
    pub(crate) fn take(&self, bytes: u64) {
        let wait = self.wait_at(bytes, Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
    }

    /// A reader at this rate.
    pub(crate) fn pace(self: &Arc<Self>, content: impl Read + 'static) -> Box<dyn Read> {
        match self.bytes_per_second {
            0 => Box::new(content),
            _ => Box::new(Paced { content, throttle: Arc::clone(self) }),
        }
    }

    fn wait_at(&self, bytes: u64, now: Instant) -> Duration {
        if self.bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = (*due).max(now);
        *due = begin + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        begin.saturating_duration_since(now)
    }
}

/// A reader that is held up.
struct Paced<T> {
    content: T,
    throttle: Arc<Throttle>,
}

/// What is let through at once. Small, so that the rate holds within a file, too.
const PIECE_BYTES: usize = 64 << 10;

impl<T: Read> Read for Paced<T> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        // Four times a second at least, so that nobody takes it for a broken connection.
        let quarter = usize::try_from(self.throttle.bytes_per_second / 4).unwrap_or(PIECE_BYTES);
        let length = buffer.len().min(quarter.clamp(1, PIECE_BYTES));
        let count = self.content.read(&mut buffer[..length])?;
        self.throttle.take(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_reader_gives_the_same_bytes_in_pieces() {
        let throttle = Arc::new(Throttle::new(u64::MAX));
        let content: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
        let mut paced = throttle.pace(std::io::Cursor::new(content.clone()));
        let mut first = vec![0; 150_000];
        assert_eq!(paced.read(&mut first).unwrap(), PIECE_BYTES);
        let mut rest = Vec::new();
        paced.read_to_end(&mut rest).unwrap();
        assert_eq!([&first[..PIECE_BYTES], &rest].concat(), content);
    }

    #[test]
    fn a_rate_is_kept_and_what_was_not_used_is_not_saved_up() {
        let throttle = Throttle::new(1000);
        let begin = Instant::now();
        assert_eq!(throttle.wait_at(500, begin), Duration::ZERO);
        assert_eq!(throttle.wait_at(500, begin), Duration::from_millis(500));
        assert_eq!(throttle.wait_at(1, begin), Duration::from_secs(1));
        let later = begin + Duration::from_secs(100);
        assert_eq!(throttle.wait_at(1000, later), Duration::ZERO);
        assert_eq!(throttle.wait_at(1, later), Duration::from_secs(1));
        assert_eq!(Throttle::new(0).wait_at(u64::MAX, begin), Duration::ZERO);
    }
}
