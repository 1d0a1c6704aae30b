//! What a job on this machine consists of. Pure.
