//! How many answers that go on there may be at once, and how many of them one user may have: the
//! rest is for others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Those who follow logs and watch lists.
#[derive(Debug)]
pub(crate) struct Followers {
    all: u32,
    /// By user.
    seats: Mutex<HashMap<String, u32>>,
}

/// The part of all that one user may have.
const PART_OF_USER: u32 = 4;

/// Why nobody else can follow now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// This user does too often.
    OfUser,
    /// All users together do.
    OfAll,
}

impl Followers {
    /// So many at once.
    pub(crate) fn new(all: u32) -> Self {
        Followers { all, seats: Mutex::default() }
    }

    /// Counts a follower until the seat is dropped.
    pub(crate) fn sit(self: &Arc<Self>, username: &str) -> Result<Seat, Full> {
        let mut seats = self.lock();
        let own = seats.get(username).copied().unwrap_or(0);
        if own >= self.all.div_ceil(PART_OF_USER) {
            return Err(Full::OfUser);
        }
        if seats.values().sum::<u32>() >= self.all {
            return Err(Full::OfAll);
        }
        seats.insert(username.to_owned(), own + 1);
        drop(seats);
        Ok(Seat { followers: Arc::clone(self), username: username.to_owned() })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.lock().values().sum()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one follower.
#[derive(Debug)]
pub(crate) struct Seat {
    followers: Arc<Followers>,
    username: String,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut seats = self.followers.lock();
        match seats.get_mut(&self.username) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                seats.remove(&self.username);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_room_for_others() {
        let followers = Arc::new(Followers::new(8));
        let sit = |user: &str| followers.sit(user);
        let mut wu: Vec<Seat> = (0..2).map(|_| sit("wu").unwrap()).collect();
        assert_eq!(sit("wu").unwrap_err(), Full::OfUser);
        let others: Vec<Seat> =
            ["a", "a", "b", "b", "c", "c"].into_iter().map(|user| sit(user).unwrap()).collect();
        assert_eq!((followers.count(), sit("d").unwrap_err()), (8, Full::OfAll));
        wu.pop();
        assert!(sit("wu").is_ok());
        drop((wu, others));
        assert_eq!(followers.count(), 0);
        assert!(followers.lock().is_empty());
    }
}
