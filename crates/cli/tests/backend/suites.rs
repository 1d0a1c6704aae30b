//! The trials on every place.

use super::places::{Local, Mpi, Ssh};

mod local {
    crate::backend::trials::suite!(super::Local { isolates: true });
}

mod local_without_namespace {
    crate::backend::trials::suite!(super::Local { isolates: false });
}

mod ssh {
    crate::backend::trials::suite!(match super::Ssh::find() {
        Some(ssh) => ssh,
        None => return,
    });
}

mod mpi {
    crate::backend::trials::suite!(match super::Mpi::find() {
        Some(mpi) => mpi,
        None => return,
    });
}
