//! A model as files, each format in its own: the parameter file, the pass directory, the tar of
//! `paddle.v2`, and safetensors.
//!
//! All of them stream: a parameter goes in or out in pieces, from or to wherever it lives, so that
//! a table that does not fit in this process can still be saved and loaded. What is read is checked
//! against the model before it is believed. Of a tar nothing is set before all of it was checked; of
//! the other formats, values that were read before an error stay set.
//!
//! A sparse parameter of keys without a bound is written as two things: `<name>.keys`, and
//! `<name>` with the rows in the same order.

mod checksums;
mod config;
mod content;
mod directory;
mod parameter_file;
mod safetensors;
mod tar;

pub use directory::{
    Beside, Missing, WriteState, load_pass, open_state, pass_directory, save_directory, save_pass,
};
pub use safetensors::{init_from_safetensors, to_safetensors};
pub use tar::{from_tar, init_from_tar, to_tar};
