//! The verbs of `paddle_k8s`, in the original's spelling.

use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// The entry of a pod: finds the other pods of its job, waits for the parameter servers, and runs
/// the program with the environment of the contract.
///
/// What the manifest says wins: ranks and addresses that are in the environment are taken as they
/// are, also those of an Indexed Job and of Volcano's plugins `env` and `svc`. What is missing is
/// asked of the API server with the pod's service account, by the labels paddle-job (trainers),
/// paddle-job-pserver and paddle-job-master, whose value is PADDLE_JOB_NAME. Signals go to the
/// program, its exit code is that of the pod, and the reason of its end is in the termination log.
#[derive(Debug, Parser)]
#[command(name = "paddle_k8s", version, arg_required_else_help = true, verbatim_doc_comment)]
pub(crate) struct PaddleK8s {
    /// How long to wait for the other pods, such as 90, 10m or 1h30m
    #[arg(long, value_name = "TIME", default_value = "10m", global = true,
          value_parser = cli::duration::parse)]
    pub(crate) wait: Duration,
    /// Start a trainer's program again when it fails, up to this often
    #[arg(long, value_name = "N", default_value_t = 0, global = true)]
    pub(crate) restarts: u32,
    /// How often the whole job was started before: later ones restore what all servers have
    #[arg(long, value_name = "N", default_value_t = 0, global = true)]
    pub(crate) round: u32,
    /// Unpack the program from this archive (tar.gz) to TRAINER_PACKAGE first
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) unpack: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::enum_variant_names, reason = "the original's names of the verbs")]
#[command(rename_all = "snake_case")]
pub(crate) enum Verb {
    /// Be a parameter server
    #[command(alias = "start_new_pserver")]
    StartPserver(More),
    /// Be a trainer: wait for the servers, then train
    StartTrainer(Trainer),
    /// Be a trainer of a fault-tolerant job: as start_trainer v2, and wait for the master
    StartNewTrainer,
    /// Be what TRAINING_ROLE says, by the same ENTRY for servers and trainers
    StartFluid,
    /// Be the master, which deals data out to trainers
    StartMaster(More),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Trainer {
    /// v2 runs ENTRY, v1 trains the configuration TOPOLOGY
    #[arg(value_enum)]
    pub(crate) version: Version,
    #[command(flatten)]
    pub(crate) more: More,
}

#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct More {
    /// More flags for the server, or for `paddle train`; for v2 a program with its arguments, in
    /// place of ENTRY
    #[arg(last = true, value_name = "FLAGS")]
    pub(crate) flags: Vec<String>,
}

/// A generation of training programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Version {
    /// A configuration for `paddle train`.
    V1,
    /// A Python program.
    V2,
}
