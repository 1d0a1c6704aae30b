//! `paddle launch` on Kubernetes: flags → a namespace, an image and volumes; the job is submitted
//! and followed to its end.

use super::args::{Args as LaunchArgs, Shown};
use super::submission::{Built, Counts, Refusal, refuse_given, spec, submission, workspace};
use super::{COMMAND, trainer};
use crate::attach::follow::{Followed, Hold, follow, runtime};
use crate::attach::view::{Look, View};
use crate::attach::{code, places, signals};
use crate::jobs::everywhere;
use cli::output::{Format, Output};
use cli::program;
use contract::job::JobSpec;
use contract::port::Ports;
use contract::quantity::Quantity;
use contract::state::JobState;
use contract::{Error, Result};
use kube::config::Kubeconfig;
use scheduler::Backend;
use scheduler::kubernetes::{Kubernetes, LEFT, plan};
use scheduler::ssh::package::Manifest;
use scheduler::submission::{
    KubernetesPlace, Package, Place, RunAs, Submission, Volume, VolumeSource,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The namespace of a pod with a service account.
const NAMESPACE_OF_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "On Kubernetes")]
#[group(skip)] // Its name is also that of the flags around it.
pub(crate) struct Args {
    /// Image of the pods: it has this package installed, and what the program needs
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Namespace of the job [default: that of the kubeconfig's context, else default]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// The cluster [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Mount a volume into every pod: /dir:/path for a directory of the nodes, pvc://claim:/path,
    /// nfs://server/dir:/path, cephfs://user:secret@monitor,monitor/dir:/path; with :ro behind it,
    /// read-only; repeatable
    #[arg(long, value_name = "SOURCE:PATH")]
    volume: Vec<String>,
    /// Secret of the namespace with which the image is fetched; repeatable
    #[arg(long = "pull_secret", alias = "pull-secret", value_name = "NAME")]
    pull_secret: Vec<String>,
    /// User and group of the pods' programs, as a namespace that allows no root needs them [default:
    /// those of the image; without a GID the same number]
    #[arg(long = "run_as", alias = "run-as", value_name = "UID[:GID]", value_parser = run_as)]
    run_as: Option<RunAs>,
    /// Run in this directory of the image or of a volume, instead of sending the workspace along
    #[arg(long = "remote_workspace", alias = "remote-workspace", value_name = "DIR")]
    remote_workspace: Option<String>,
    /// Queue of Volcano [default: default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Start all pods together by Volcano, or, without it, as a StatefulSet and an Indexed Job
    /// [default: yes if the cluster has Volcano; --dry-run does not ask, and shows yes]
    #[arg(long, value_name = "YES|NO", value_enum)]
    volcano: Option<Volcano>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Volcano {
    Yes,
    No,
}

/// Refuses what only means something on Kubernetes, elsewhere.
pub(super) fn refuse_flags(args: &LaunchArgs) -> Result<()> {
    let own = &args.kubernetes;
    let given = [
        ("--image", own.image.is_some()),
        ("--namespace", own.namespace.is_some()),
        ("--kubeconfig", own.kubeconfig.is_some()),
        ("--context", own.context.is_some()),
        ("--volume", !own.volume.is_empty()),
        ("--pull_secret", !own.pull_secret.is_empty()),
        ("--run_as", own.run_as.is_some()),
        ("--remote_workspace", own.remote_workspace.is_some()),
        ("--queue", own.queue.is_some()),
        ("--volcano", own.volcano.is_some()),
        ("-o yaml", args.output == Shown::Yaml),
    ];
    refuse_given(&given, "this flag is for Kubernetes: use --backend kubernetes too")
}

pub(super) fn build(args: &LaunchArgs) -> std::result::Result<Built, Refusal> {
    super::mpi::refuse_flags(args)?;
    super::ssh::refuse_flags(args)?;
    super::ssh::refuse_nics(args)?;
    super::ssh::refuse_remote_paddle(args)?;
    super::submission::refuse_visible_processes(args)?;
    super::slurm::refuse_own_flags(args)?;
    if args.output == Shown::Yaml && !args.dry_run {
        return Err(Error::invalid("-o yaml prints manifests: use --dry-run too").into());
    }
    let own = &args.kubernetes;
    let here = workspace(args)?;
    let trainers = args.trainers.unwrap_or(1);
    let pservers = u32::from(trainers > 1);
    let counts = Counts { trainers, pservers, ports: Ports::default() };
    let mut spec = spec(args, &here, &counts)?;
    spec.queue = own.queue.clone().unwrap_or_default();
    spec.priority = args.slurm.priority();
    spec.resources.trainer.gpu = gpus(args, &spec)?;
    trainer::set_elsewhere(&mut spec, args)?;
    let (package, source) = match &own.remote_workspace {
        Some(path) => (Package::Present(path.clone()), None),
        None => {
            let place = program::Whereabouts { workspace: &here, search_path: None };
            program::check(&spec.program, place)?;
            // Logs and models of earlier jobs stay here.
            let earlier = [args.log_dir.as_str(), &args.output_dir];
            (Package::Dispatch(Manifest::scan(&here, &earlier)?), Some(here))
        }
    };
    let kubeconfig = kubeconfig(own)?;
    let (context, namespace) = whereabouts(own, kubeconfig.as_deref());
    let place = Place::Kubernetes(KubernetesPlace {
        context,
        kubeconfig,
        namespace,
        image: own.image.clone().unwrap_or_default(),
        pull_secrets: own.pull_secret.clone(),
        volumes: own.volume.iter().map(|text| volume(text)).collect::<Result<_>>()?,
        tenant: None,
        volcano: own.volcano.map(|volcano| volcano == Volcano::Yes),
    });
    let submission = Submission { run_as: own.run_as, ..submission(spec, place, package)? };
    Ok(Built { submission, package: source })
}

/// The devices of each trainer: as many as it uses, unless somebody says otherwise.
fn gpus(args: &LaunchArgs, spec: &JobSpec) -> Result<Quantity> {
    match args.slurm.gpus()? {
        (kind, count) if !kind.is_empty() => {
            let message = "a kind of GPU can be chosen on Slurm alone: use --gpus N";
            Err(Error::invalid(message).with("gpus", format!("{kind}:{count}")))
        }
        (_, Quantity::ZERO) if spec.uses_gpu() => Ok(Quantity::whole(spec.trainer_count())),
        (_, count) => Ok(count),
    }
}

fn run_as(text: &str) -> std::result::Result<RunAs, String> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, text));
    let number = |text: &str| {
        text.parse::<u32>().map_err(|_| "not a user: use numbers, as UID or UID:GID".to_owned())
    };
    Ok(RunAs { uid: number(uid)?, gid: number(gid)? })
}

/// The path as it means the same to a process that runs elsewhere, and after `KUBECONFIG` has changed.
fn kubeconfig(args: &Args) -> Result<Option<PathBuf>> {
    let Some(path) = &args.kubeconfig else {
        let named = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
        let named: Vec<PathBuf> = match &named {
            Some(paths) => std::env::split_paths(paths).collect(),
            None => {
                std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect()
            }
        };
        // Of several files the context is noted alone. One that is not there is told later, or this
        // is a pod, which has an account of its own.
        let [path] = named.as_slice() else { return Ok(None) };
        return Ok(path.canonicalize().ok());
    };
    let refused =
        |source| Error::io("cannot read the kubeconfig", source).with("kubeconfig", path.display());
    path.canonicalize().map(Some).map_err(refused)
}

/// The context and the namespace, as `kubectl` chooses them. Both are noted, so that the job is found
/// again when another context is the current one.
fn whereabouts(own: &Args, kubeconfig: Option<&Path>) -> (String, String) {
    let read = match kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    // One that cannot be read is told when it is used; or this is a pod, which has a namespace.
    let of_pod = match read.is_err() {
        true => std::fs::read_to_string(NAMESPACE_OF_POD).ok(),
        false => None,
    };
    let config = read.unwrap_or_default();
    let context = own.context.clone().or(config.current_context).unwrap_or_default();
    let of_context = config.contexts.into_iter().find(|one| one.name == context);
    let of_context = of_context.and_then(|one| one.context?.namespace);
    let of_place = of_context.or(of_pod).map(|name| name.trim().to_owned());
    let namespace = own.namespace.clone().or(of_place.filter(|name| !name.is_empty()));
    (context, namespace.unwrap_or_else(|| "default".to_owned()))
}

fn volume(text: &str) -> Result<Volume> {
    let refuse = || {
        let message = "not a volume: use /dir:/path, pvc://claim:/path, nfs://server/dir:/path or \
                       cephfs://user:secret@monitor/dir:/path, with :ro behind it for one that is \
                       only read";
        Error::invalid(message).with("volume", text)
    };
    let (rest, is_read_only) = match text.strip_suffix(":ro") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let (source, path) = rest.rsplit_once(":/").ok_or_else(refuse)?;
    let source = if let Some(claim) = source.strip_prefix("pvc://") {
        VolumeSource::Claim { claim: claim.to_owned() }
    } else if let Some(export) = source.strip_prefix("nfs://") {
        let (server, path) = export.split_once('/').ok_or_else(refuse)?;
        VolumeSource::Nfs { server: server.to_owned(), path: format!("/{path}") }
    } else if let Some(rest) = source.strip_prefix("cephfs://") {
        let (account, place) = rest.split_once('@').ok_or_else(refuse)?;
        let (user, secret) = account.split_once(':').ok_or_else(refuse)?;
        let (monitors, path) = place.split_once('/').ok_or_else(refuse)?;
        VolumeSource::Cephfs {
            monitors: monitors.split(',').map(str::to_owned).collect(),
            path: format!("/{path}"),
            user: user.to_owned(),
            secret: secret.to_owned(),
        }
    } else if Path::new(source).is_absolute() {
        VolumeSource::HostPath { path: source.to_owned() }
    } else {
        return Err(refuse());
    };
    let path = format!("/{path}");
    Ok(Volume { source, path, sub_path: String::new(), is_read_only, here: None })
}

pub(super) fn run(args: &LaunchArgs, built: &Built, place: &KubernetesPlace) -> Result<ExitCode> {
    cli::logging::start(None, "")?;
    let backend = Kubernetes::of(place);
    backend.check(&built.submission)?;
    if args.dry_run {
        return print(args, built);
    }
    runtime()?.block_on(async {
        if args.detach {
            return detach(args, &backend, built, place).await;
        }
        attached(args, &backend, built, place).await
    })
}

fn print(args: &LaunchArgs, built: &Built) -> Result<ExitCode> {
    let manifests = Kubernetes::manifests(&built.submission)?;
    let mut output = Output::open();
    match args.output.format() {
        Format::Json => output.json(&manifests)?,
        Format::Text => {
            for manifest in &manifests {
                let text = serde_yaml_ng::to_string(manifest)
                    .map_err(|source| Error::invalid("cannot render YAML").because(source))?;
                output.line("---")?;
                output.bytes(text.as_bytes())?;
            }
        }
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}

async fn detach(
    args: &LaunchArgs,
    backend: &Kubernetes,
    built: &Built,
    place: &KubernetesPlace,
) -> Result<ExitCode> {
    let id = &built.submission.id;
    submit(backend, built, place).await?;
    let mut output = Output::open();
    match args.output.format() {
        Format::Json => output.json(&backend.observe(id).await?)?,
        Format::Text => output.line(id)?,
    }
    output.close()?;
    if !args.quiet {
        let (name, namespace) = (plan::name(id), &place.namespace);
        let hint = format!(
            "{COMMAND}: the job runs on without this command\n  \
             follow it    paddle attach {id}\n  \
             its output   paddle logs {id}\n  \
             end it       paddle kill {id}\n  \
             its pods     kubectl -n {namespace} get pods -l paddlecloud/job={name}\n"
        );
        // Where not even this can be written, there is nobody to tell.
        let _ = std::io::stderr().write_all(hint.as_bytes());
    }
    Ok(ExitCode::SUCCESS)
}

/// Notes where a job will be, and submits it.
async fn submit(backend: &Kubernetes, built: &Built, place: &KubernetesPlace) -> Result<()> {
    let id = &built.submission.id;
    // Where a cluster cannot be looked at, nothing is submitted, and there is nothing to be noted.
    backend.reach().await?;
    // If this process is killed the job goes on, and `paddle jobs` has to find it.
    everywhere::remember(id, place)?;
    let submitted = backend.submit(&built.submission, built.package.as_deref()).await;
    submitted.map(drop).map_err(|error| {
        // An answer that did not come says nothing: the job may be there, and has to be found.
        let is_left = error.context().any(|(key, _)| key == LEFT);
        if is_left || error.kind().is_retryable() {
            return error
                .with("it may be there all the same: end it with", format!("paddle kill {id}"));
        }
        everywhere::let_go(id);
        error
    })
}

async fn attached(
    args: &LaunchArgs,
    backend: &Kubernetes,
    built: &Built,
    place: &KubernetesPlace,
) -> Result<ExitCode> {
    let submission = &built.submission;
    let id = &submission.id;
    // A signal that comes meanwhile waits: what was begun is ended like any other job.
    let mut stops = signals::listen()?;
    submit(backend, built, place).await?;
    let mut view = View::new(Look {
        command: COMMAND,
        is_quiet: args.quiet,
        format: args.output.format(),
        may_use_terminal: true,
    });
    let followed = follow(backend, id, &mut view, &mut stops, Hold::Ours).await?;
    let Followed::Ended(mut record, stop) = followed else {
        return Ok(ExitCode::FAILURE);
    };
    if let Some(stop) = stop.filter(|_| record.state == JobState::Killed) {
        record.exit_code = Some(stop.exit_code);
    }
    view.finish(&record, &places::of(submission, &record))?;
    match backend.forget(id).await {
        Ok(()) => everywhere::let_go(id),
        Err(error) => cli::exit::report(COMMAND, &error.with("forget", id)),
    }
    Ok(code(&record))
}
