//! Jobs under MPI.
