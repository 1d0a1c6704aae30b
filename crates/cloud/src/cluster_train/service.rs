//! The rules of `paddle cluster_train`: from a request to a job whose data is known.

use super::evaluate::{Evaluated, evaluate};
use super::node;
use super::plan::{self, INIT_MODEL, Part, Plan};
use super::source::SourceName;
use super::wish::{self, Output, Wish};
use crate::config::{BackendKind, DatacenterConfig, QueueConfig};
use crate::datacenters::Datacenter;
use crate::http::Caller;
use crate::jobs::row::JobRow;
use crate::jobs::service::{self as jobs, FrontDoor};
use crate::{Cloud, packages, users};
use contract::api::cluster::NodeKind;
use contract::api::cluster_train::{Accepted, ClusterTrain, NODES_MAX};
use contract::api::job::Submit;
use contract::job::JobSpec;
use contract::name;
use contract::quantity::Quantity;
use contract::{Error, Kind, Result};
use serde_json::{Map, Value};
use std::sync::Arc;

/// How long nodes have to send their results when they are told to end.
const GRACE_SECONDS: u64 = 60;

/// How often a directory for results is looked for again.
const ATTEMPTS_MAX: u32 = 3;

/// Accepts a training: when this returns it is on disk, with the list of its data.
pub(super) async fn accept(
    cloud: &Arc<Cloud>,
    caller: &Caller,
    asked: ClusterTrain,
) -> Result<Accepted> {
    name::check_job(&asked.job_name).map_err(|error| error.with("field", "job_name"))?;
    check_submitter(caller, &asked.submitter)?;
    if asked.num_nodes == 0 || asked.num_nodes > NODES_MAX {
        let message = format!("num_nodes: use 1 to {NODES_MAX}");
        return Err(Error::invalid(message).with("num_nodes", asked.num_nodes));
    }
    let (place, queue) = place(cloud, &asked)?;
    check_place(&place.config)?;
    // Asked again: the answer was lost, and the data may look different by now.
    if let Some(row) = jobs::known(cloud, caller, &place.name, &asked.request).await? {
        return accepted(cloud, row).await;
    }
    check_isolation(cloud.is_isolated, cloud.config.trusts_configurations)?;
    let mut spec = describe(&asked, queue)?;
    if let Some(queue) = queue {
        // Before anything takes long.
        queue.admit(&spec)?;
    }
    let manifest = packages::service::find(cloud, &caller.username, &asked.package).await?;
    if !manifest.files.contains_key(&asked.config) {
        let message = "the package has no such configuration";
        return Err(Error::new(Kind::NotFound, message).with("config", &asked.config));
    }
    let user = users::store::user(&cloud.database, &caller.username).await?;
    let user = user.ok_or_else(|| Error::new(Kind::NotFound, "there is no such user"))?;
    let mut arguments = vec![format!("--config={}", asked.config)];
    arguments.extend(asked.flags.iter().cloned());
    let evaluated = {
        let _turn = cloud.evaluations.wait(&caller.username).await?;
        evaluate(cloud, &caller.username, user.posix_uid, &manifest, &arguments).await?
    };
    let mut wish = wish::wish(&evaluated.cluster)?;
    if !cloud.is_isolated {
        let note = "the configuration was evaluated with the server's own rights: this machine \
                    cannot keep programs apart, and its administrator trusts them";
        wish.notes.push(note.to_owned());
    }
    wish.notes.extend(node::warning(cloud, place.config.backend)?);
    apply(&mut spec, &mut wish, &evaluated, queue)?;
    let source = SourceName {
        fs_name: wish.fs_name.clone(),
        user: wish.user.clone(),
        username: caller.username.clone(),
    };
    let submit = Submit { request: asked.request, spec, package: Some(asked.package) };
    let mut attempts = 0;
    loop {
        let plan = plan::plan(cloud, source.clone(), &wish, asked.num_nodes).await?;
        // That it cannot be written to is told now, and not when the training has ended.
        let is_made = plan.make_output(cloud).await?;
        let door = FrontDoor::ClusterTrain(&plan);
        match jobs::submit_by(cloud, caller, &place.name, submit.clone(), door).await {
            Ok((row, true)) => return Ok(answer(&row, &plan)),
            // The same request was faster, and may have found other data.
            Ok((row, false)) => return accepted(cloud, row).await,
            Err(error) => {
                // Another job took the directory for results meanwhile: there are others.
                let Ok(is_taken) = plan.is_output_taken(cloud).await else { return Err(error) };
                if is_made && !is_taken {
                    plan.remove_output(cloud).await;
                }
                let is_derived = matches!(wish.output, Output::Derived(_));
                if !is_taken || !is_derived || attempts >= ATTEMPTS_MAX {
                    return Err(error);
                }
                attempts += 1;
            }
        }
    }
}

/// A training that was accepted before.
async fn accepted(cloud: &Cloud, row: JobRow) -> Result<Accepted> {
    let plan = super::store::get(&cloud.database, &row.uid).await?;
    let other = || {
        let message = "another job was submitted with this request: draw another one";
        Error::new(Kind::Conflict, message)
    };
    Ok(answer(&row, &plan.ok_or_else(other)?))
}

fn answer(row: &JobRow, plan: &Plan) -> Accepted {
    Accepted {
        job: row.job(),
        output_path: plan.shown_output(),
        train: plan.amount(Part::Train),
        test: plan.amount(Part::Test),
        notes: plan.notes.clone(),
    }
}

/// Refuses a place whose jobs do not fetch data, before anything takes long.
fn check_place(config: &DatacenterConfig) -> Result<()> {
    if config.backend != BackendKind::Kubernetes {
        return Ok(());
    }
    let message = "cluster_train does not run on Kubernetes: pods do not fetch their data; use a \
                   queue of another datacenter (--where), or mount the data and use `paddlecloud \
                   submit`";
    Err(Error::new(Kind::Unsupported, message).with("datacenter", &config.name))
}

/// Refuses to execute what a user sent with the rights of this server, unless somebody wants that.
fn check_isolation(is_isolated: bool, is_trusting: bool) -> Result<()> {
    if is_isolated || is_trusting {
        return Ok(());
    }
    let message = "this receiver cannot keep programs apart from itself, and would execute the \
                   configuration with its own rights: its administrator starts it as root on a \
                   kernel with namespaces, or sets `trusts_configurations: true` if all users are \
                   trusted";
    Err(Error::new(Kind::Unsupported, message).with("field", "trusts_configurations"))
}

/// The submitter of the original is the part of a mail address before its `@`.
fn check_submitter(caller: &Caller, submitter: &str) -> Result<()> {
    let own = &caller.username;
    let prefix = own.split('@').next().unwrap_or_default();
    if submitter.is_empty() || submitter == own || submitter == prefix {
        return Ok(());
    }
    let message = format!("submitter: you are logged in as {own}: leave it out, or use that name");
    Err(Error::new(Kind::Forbidden, message).with("submitter", submitter))
}

/// The datacenter of a queue.
fn place<'a>(
    cloud: &'a Cloud,
    asked: &ClusterTrain,
) -> Result<(&'a Arc<Datacenter>, Option<&'a QueueConfig>)> {
    let named = match asked.datacenter.as_str() {
        "" => None,
        name => Some(cloud.datacenter(name)?),
    };
    let all = || cloud.datacenters.values();
    if asked.queue.is_empty() {
        let mut all = all();
        let place = match (named, all.next(), all.next()) {
            (Some(named), ..) | (None, Some(named), None) => named,
            _ => {
                let message = "there are several datacenters: say by --where which queue is meant";
                return Err(Error::invalid(message).with("known", queues(cloud)));
            }
        };
        return Ok((place, None));
    }
    let is_meant = |own: &&Arc<Datacenter>| named.is_none_or(|named| named.name == own.name);
    let found: Vec<_> = all()
        .filter(is_meant)
        .filter_map(|own| Some((own, Some(own.config.queue(&asked.queue)?))))
        .collect();
    match found[..] {
        [only] => Ok(only),
        [] => {
            let message = "there is no such queue: use one of those that there are (--where)";
            Err(Error::new(Kind::NotFound, message)
                .with("queue", &asked.queue)
                .with("known", queues(cloud)))
        }
        _ => {
            let names: Vec<&str> = found.iter().map(|(own, _)| own.name.as_str()).collect();
            let message = "several datacenters have such a queue: say which is meant (datacenter)";
            Err(Error::invalid(message)
                .with("queue", &asked.queue)
                .with("datacenters", names.join(", ")))
        }
    }
}

fn queues(cloud: &Cloud) -> String {
    let all = cloud.datacenters.values().flat_map(|own| &own.config.queues);
    let names: Vec<&str> = all.map(|queue| queue.name.as_str()).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The job, as far as the request tells it.
fn describe(asked: &ClusterTrain, queue: Option<&QueueConfig>) -> Result<JobSpec> {
    let node = queue.map(|queue| queue.node.clone()).unwrap_or_default();
    let use_gpu = asked.use_gpu.unwrap_or(node.kind == NodeKind::Gpu);
    let mut spec = JobSpec {
        name: asked.job_name.clone(),
        topology: asked.config.clone(),
        topology_flags: asked.flags.clone(),
        staged: true,
        trainers: asked.num_nodes,
        pservers: asked.num_nodes,
        queue: asked.queue.clone(),
        priority: asked.priority,
        time_limit_seconds: asked.time_limit_seconds,
        use_gpu: Some(use_gpu),
        grace_seconds: GRACE_SECONDS,
        ..JobSpec::default()
    };
    (spec.resources.trainer, spec.resources.pserver) = node.shares();
    if use_gpu {
        spec.resources.trainer.gpu = node.gpu.unwrap_or(Quantity::whole(1));
    }
    Ok(spec)
}

/// Adds what the configuration and its flags say.
fn apply(
    spec: &mut JobSpec,
    wish: &mut Wish,
    evaluated: &Evaluated,
    queue: Option<&QueueConfig>,
) -> Result<()> {
    let number = |name: &str| {
        let value = evaluated.said.get(name)?.as_u64()?;
        u32::try_from(value).ok()
    };
    spec.passes = number("num_passes");
    spec.threads = number("trainer_count");
    let is_counted = queue.is_none_or(|queue| queue.node.cpu.is_none());
    if let (Some(threads), true, false) = (spec.threads, is_counted, spec.uses_gpu()) {
        spec.resources.trainer.cpu = Some(Quantity::whole(threads));
    }
    check_flags(&evaluated.said)?;
    wish.distributes_test =
        evaluated.said.get("distribute_test").and_then(Value::as_bool).unwrap_or_default();
    let (first, dense, sparse) = wish.ports;
    // What is typed wins, here as everywhere.
    spec.ports.first = port(&evaluated.said, "port")?.or(first).unwrap_or(spec.ports.first);
    spec.ports.dense = port(&evaluated.said, "ports_num")?.or(dense).unwrap_or(spec.ports.dense);
    let typed = port(&evaluated.said, "ports_num_for_sparse")?;
    spec.ports.sparse = typed.or(sparse).unwrap_or(spec.ports.sparse);
    let said = |name: &str| evaluated.said.get(name).and_then(Value::as_str);
    if let Some(save_dir) = said("save_dir").filter(|save_dir| !save_dir.is_empty()) {
        wish.save_dir = wish::save_dir(save_dir)?;
    } else {
        spec.topology_flags.push(format!("--save_dir=./{}", wish.save_dir));
    }
    if said("init_model_path").is_some() && wish.init_model.is_some() {
        let message = "a model to begin with is given twice: by --init_model_path, which is a path \
                       on the nodes, and by cluster_config";
        return Err(Error::invalid(message).with("field", "init_model_path"));
    }
    if wish.init_model.is_some() {
        spec.topology_flags.push(format!("--init_model_path=./{INIT_MODEL}"));
    }
    if !wish.comment.is_empty() {
        spec.topology_flags.push(format!("--comment={}", wish.comment));
    }
    if let Some(problem) = &evaluated.problem {
        wish.notes.push(format!(
            "the configuration could be evaluated only up to this, which nodes may get over: \
             {problem}"
        ));
    }
    Ok(())
}

/// Flags of `paddle train` that say who a trainer is, or that mean nothing on a cluster, with the
/// reason. They would win over what each node is told.
const REFUSED: [(&str, &str); 7] = [
    ("trainer_id", "every node is told its own"),
    ("num_gradient_servers", "it is --num_nodes"),
    ("pservers", "every node is told those of its job"),
    ("start_pserver", "every node has one"),
    ("nics", "the administrator of the receiver chooses it"),
    ("local", "nodes train through their parameter servers; `paddle train` trains here"),
    ("job", "nodes train; for other jobs there is `paddle train --job=…`"),
];

/// Refuses flags by which nodes would do something else than train together.
fn check_flags(said: &Map<String, Value>) -> Result<()> {
    let is_harmless = |value: &Value| *value == false || *value == "train" || *value == "";
    let refused = REFUSED.iter().find(|(name, _)| said.get(*name).is_some_and(|v| !is_harmless(v)));
    match refused {
        None => Ok(()),
        Some((name, why)) => {
            let message = format!("--{name} is not for cluster_train: {why}; leave it out");
            Err(Error::invalid(message).with("flag", format!("--{name}")))
        }
    }
}

/// A flag about ports, if it was typed.
fn port(said: &Map<String, Value>, name: &str) -> Result<Option<u16>> {
    let Some(value) = said.get(name) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
    number.map(Some).ok_or_else(|| {
        let message = format!("--{name} is at most {}", u16::MAX);
        Error::invalid(message).with("flag", format!("--{name}")).with("value", value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::port::Ports;
    use serde_json::json;

    #[test]
    fn flags_that_would_take_a_node_from_its_job_are_refused() {
        let check = |said: Value| check_flags(said.as_object().unwrap());
        check(json!({"local": false, "job": "train", "start_pserver": false, "nics": ""})).unwrap();
        for said in [
            json!({"local": true}),
            json!({"trainer_id": 0}),
            json!({"num_gradient_servers": 2}),
            json!({"pservers": "10.0.0.1"}),
            json!({"start_pserver": true}),
            json!({"nics": "eth0"}),
            json!({"job": "test"}),
        ] {
            assert!(check(said.clone()).is_err(), "{said}");
        }
        insta::assert_snapshot!(check(json!({"trainer_id": 1})).unwrap_err(), @"--trainer_id is not for cluster_train: every node is told its own; leave it out (flag: --trainer_id)");
    }

    #[test]
    fn ports_that_are_typed_win() {
        let evaluated = |said: Value| Evaluated {
            said: said.as_object().unwrap().clone(),
            ..Evaluated::default()
        };
        let ports = |said: Value, asked: (Option<u16>, Option<u16>, Option<u16>)| {
            let mut spec = JobSpec::default();
            let mut wish = Wish { ports: asked, ..Wish::default() };
            apply(&mut spec, &mut wish, &evaluated(said), None).map(|()| spec.ports)
        };
        let typed = json!({"port": 7000, "ports_num": 2, "ports_num_for_sparse": 3});
        let Ports { first, dense, sparse } = ports(typed, (Some(8000), Some(4), Some(1))).unwrap();
        assert_eq!((first, dense, sparse), (7000, 2, 3));
        let Ports { first, dense, .. } = ports(json!({}), (Some(8000), Some(4), None)).unwrap();
        assert_eq!((first, dense), (8000, 4));
        assert!(ports(json!({"port": 70000}), (None, None, None)).is_err());
    }

    #[test]
    fn a_place_whose_jobs_fetch_nothing_is_refused() {
        let mut config = DatacenterConfig::local("pods");
        check_place(&config).unwrap();
        config.backend = BackendKind::Kubernetes;
        insta::assert_snapshot!(check_place(&config).unwrap_err(), @"cluster_train does not run on Kubernetes: pods do not fetch their data; use a queue of another datacenter (--where), or mount the data and use `paddlecloud submit` (datacenter: pods)");
    }

    #[test]
    fn a_configuration_is_executed_with_the_servers_rights_only_if_somebody_wants_that() {
        check_isolation(true, false).unwrap();
        check_isolation(false, true).unwrap();
        insta::assert_snapshot!(check_isolation(false, false).unwrap_err(), @"this receiver cannot keep programs apart from itself, and would execute the configuration with its own rights: its administrator starts it as root on a kernel with namespaces, or sets `trusts_configurations: true` if all users are trusted (field: trusts_configurations)");
    }
}
