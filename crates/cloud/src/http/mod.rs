//! What all handlers share: who calls, what was sent, and how an answer or a refusal is sent.

pub(crate) mod caller;
pub(crate) mod connection;
pub(crate) mod followers;
pub(crate) mod rate;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod stream;

pub(crate) use caller::{Address, Admin, Caller};
pub(crate) use reply::{Answer, Refusal};
pub(crate) use request::{Body, Parts, Question};
