//! The command `paddlecloud` from outside: what it says without a server, and what it does with a
//! real one that runs real jobs.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod paddlecloud {
    mod accounts;
    mod cloud;
    mod face;
    mod following;
    mod jobs;
    mod packages;
}
