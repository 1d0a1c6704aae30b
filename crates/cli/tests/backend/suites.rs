//! The trials on every place.

use super::places::{Local, Mpi, Sandboxed, Slurm, Ssh};

mod local {
    crate::backend::trials::suite!(super::Local { isolates: true });
}

mod local_without_namespace {
    crate::backend::trials::suite!(super::Local { isolates: false });
}

mod sandboxed {
    crate::backend::trials::suite!(match super::Sandboxed::find() {
        Some(sandboxed) => sandboxed,
        None => return,
    });
}

mod ssh {
    crate::backend::trials::suite!(match super::Ssh::find() {
        Some(ssh) => ssh,
        None => return,
    });
}

/// Servers that behave badly take the place of `paddle` on the machines, which only ssh lets us
/// choose.
mod bad_servers {
    crate::backend::trials::suite! {
        match super::Ssh::find() {
            Some(ssh) => ssh,
            None => return,
        };
        servers::a_slow_server_is_waited_for;
        servers::a_silent_server_is_named_after_its_time;
        servers::a_server_that_ends_before_it_is_ready_fails_the_job;
        servers::a_server_that_is_killed_while_it_starts_is_a_fault_like_any_other;
        servers::noise_before_the_readiness_line_is_passed_over;
    }
}

mod mpi {
    crate::backend::trials::suite!(match super::Mpi::find() {
        Some(mpi) => mpi,
        None => return,
    });
}

mod slurm {
    crate::backend::trials::suite!(match super::Slurm::find() {
        Some(slurm) => slurm,
        None => return,
    });
}
