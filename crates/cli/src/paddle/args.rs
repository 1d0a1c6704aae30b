//! The verbs of `paddle`. Their own arguments are beside their code.

use crate::{
    agent, attach, cluster_node, cluster_train, completions, conduct, jobs, kill, launch, logs,
    master, pserver, python, rank, recordio, scale, supervise, version,
};
use clap::{Arg, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;

/// Distributed training with parameter servers: run and inspect the parts of a job.
#[derive(Debug, Parser)]
#[command(name = "paddle", version, arg_required_else_help = true)]
pub(crate) struct Paddle {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

impl Verb {
    /// Reads the command line of this process.
    pub(crate) fn read() -> Verb {
        let arguments: Vec<OsString> = std::env::args_os().collect();
        match arguments.get(1).and_then(|verb| verb.to_str()) {
            // Jobs start these. To describe all verbs to the parser takes longer than all else that
            // they do before they are at work.
            Some(verb @ "supervise") => Verb::Supervise(alone(verb, &arguments)),
            Some(verb @ "pserver") => Verb::Pserver(Box::new(alone(verb, &arguments))),
            _ => {
                let arguments = cli::flags::mark(arguments, Paddle::command);
                let matches =
                    Paddle::command().mut_subcommands(below_zero).get_matches_from(arguments);
                Paddle::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()).verb
            }
        }
    }
}

/// Lets numbers below zero be values of flags, which say what is wrong with them. Else they are
/// taken for flags that nobody knows.
fn below_zero(verb: Command) -> Command {
    verb.mut_args(|argument: Arg| {
        let takes_number = !argument.is_positional() && argument.get_action().takes_values();
        argument.allow_negative_numbers(takes_number)
    })
}

/// Reads the arguments of one verb.
fn alone<A: clap::Args>(verb: &str, arguments: &[OsString]) -> A {
    let command = Command::new("paddle").bin_name(format!("paddle {verb}")).no_binary_name(true);
    let matches = A::augment_args(command).get_matches_from(&arguments[2..]);
    A::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Print the version and what this build contains
    Version(version::Args),
    /// Train a V1 configuration: paddle train --config=trainer_config.py
    Train(python::Args),
    /// Send a V1 training with its data to a cluster: --help lists its flags
    #[command(name = "cluster_train")]
    ClusterTrain(cluster_train::TrainArgs),
    /// Print how a training of cluster_train is
    #[command(name = "cluster_status")]
    ClusterStatus(cluster_train::JobArgs),
    /// Print what the nodes of a training print, or the files that they have sent
    #[command(name = "cluster_log")]
    ClusterLog(cluster_train::LogArgs),
    /// End a training of cluster_train
    #[command(name = "cluster_kill")]
    ClusterKill(cluster_train::KillArgs),
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
    /// Accepted without effect, as scripts of the original end with it
    #[command(hide = true)]
    Usage(python::Args),
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
    /// Be a trainer of a job of cluster_train (started by conductors)
    #[command(hide = true, name = "cluster_node")]
    ClusterNode(cluster_node::Args),
    /// Print what a configuration asks of cluster_train (started by receivers, in a sandbox)
    #[command(hide = true, name = "cluster_config")]
    ClusterConfig(python::Args),
    /// Be one rank of a job under MPI (started by mpirun)
    #[command(hide = true)]
    Rank(rank::Args),
    /// Run a job's part on a node of its Slurm allocation (started by srun)
    #[command(hide = true)]
    Agent(agent::Args),
}
