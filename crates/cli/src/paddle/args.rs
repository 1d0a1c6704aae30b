//! The verbs of `paddle`. Their own arguments are beside their code.

use crate::{
    attach, completions, conduct, jobs, kill, launch, logs, master, pserver, python, rank,
    recordio, scale, supervise, version,
};
use clap::{Parser, Subcommand};

/// Distributed training with parameter servers: run and inspect the parts of a job.
#[derive(Debug, Parser)]
#[command(name = "paddle", version, arg_required_else_help = true)]
pub(crate) struct Paddle {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Print the version and what this build contains
    Version(version::Args),
    /// Train a V1 configuration: paddle train --config=trainer_config.py
    Train(python::Args),
    Launch(Box<launch::Args>),
    Jobs(jobs::Args),
    Attach(attach::Args),
    Logs(logs::Args),
    Kill(kill::Args),
    Scale(scale::Args),
    Pserver(Box<pserver::Args>),
    Master(Box<master::Args>),
    /// Inspect, print, check and convert RecordIO files
    #[command(subcommand)]
    Recordio(recordio::Verb),
    /// Print what a V1 configuration describes
    #[command(name = "dump_config")]
    DumpConfig(python::Args),
    /// Draw the network of a V1 configuration
    #[command(name = "make_diagram")]
    MakeDiagram(python::Args),
    /// Put a V1 configuration and a saved model into one file
    #[command(name = "merge_model")]
    MergeModel(python::Args),
    /// Draw costs and figures from the log of a training
    Plotcurve(python::Args),
    Completions(completions::Args),
    /// Run a submitted job to its end (started when one is submitted)
    #[command(hide = true)]
    Conduct(conduct::Args),
    /// Keep the processes of a job on this host (started by conductors)
    #[command(hide = true)]
    Supervise(supervise::Args),
    /// Make this host ready for a job, and send its results (started by conductors, over ssh)
    #[command(hide = true)]
    Node,
    /// Be one rank of a job under MPI (started by mpirun)
    #[command(hide = true)]
    Rank(rank::Args),
}
