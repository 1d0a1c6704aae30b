//! The rules of a job spec: what can never run, whatever the backend.
//!
//! Quotas, unknown queues and clusters without devices are not here: those depend on the day.

use std::fmt;

use super::{
    CheckpointSpec, DataSpec, ENV_BYTES_MAX, FaultTolerance, JobSpec, REPLICAS_MAX, Resources,
    TEXT_BYTES_MAX,
};
use crate::path::{Access, PATH_BYTES_MAX, PfsPath};
use crate::quantity::Quantity;
use crate::role::Role;
use crate::{Error, Kind, Result, env, name, quote};

impl JobSpec {
    /// The first problem, with its field, its value and what to do.
    pub fn check(&self) -> Result<()> {
        version(self.version)?;
        self.check_identity()?;
        self.check_program()?;
        self.check_size()?;
        self.check_servers()?;
        Role::ALL.into_iter().try_for_each(|role| self.check_resources(role))?;
        self.check_env()
    }

    fn check_identity(&self) -> Result<()> {
        name::check_job(&self.name).map_err(in_field("name"))?;
        name::check_user(&self.user).map_err(in_field("user"))?;
        name::check_datacenter(&self.datacenter).map_err(in_field("datacenter"))?;
        if !self.queue.is_empty() {
            name::check_queue(&self.queue).map_err(in_field("queue"))?;
        }
        if !self.registry.is_empty() {
            name::check_registry(&self.registry).map_err(in_field("registry"))?;
        }
        Ok(())
    }

    fn check_program(&self) -> Result<()> {
        let texts = [
            ("package", &self.package, PATH_BYTES_MAX),
            ("entry", &self.entry, TEXT_BYTES_MAX),
            ("topology", &self.topology, PATH_BYTES_MAX),
            ("image", &self.image, TEXT_BYTES_MAX),
            ("log_dir", &self.log_dir, PATH_BYTES_MAX),
            ("output_dir", &self.output_dir, PATH_BYTES_MAX),
            ("checkpoint.dir", &self.checkpoint.dir, PATH_BYTES_MAX),
        ];
        for (field, text, bytes_max) in texts {
            length("text", text, bytes_max).map_err(in_field(field))?;
            if text.contains('\0') {
                return Err(bad(field, text.escape_debug(), "remove the NUL character"));
            }
        }
        if !self.entry.is_empty() && self.entry.trim().is_empty() {
            return Err(bad("entry", self.entry.escape_debug(), "give the command to run"));
        }
        let program = quote::quote(&self.program);
        let choices = [("entry", &self.entry), ("program", &program), ("topology", &self.topology)];
        let given: Vec<_> = choices.iter().filter(|(_, text)| !text.is_empty()).collect();
        match given[..] {
            [] => return Err(bad("entry", "", "give the command to run, or a topology")),
            [_] => {}
            [.., (field, text)] => {
                let fix = "give a program, an entry or a topology, only one of them";
                return Err(bad(field, text, fix));
            }
        }
        if self.topology.is_empty() && !self.topology_flags.is_empty() {
            let flags = self.topology_flags.join(" ");
            return Err(bad("topology_flags", flags, "they need a topology"));
        }
        if self.topology.is_empty() && self.staged {
            return Err(bad("staged", true, "it needs a topology"));
        }
        let words = self.program.iter().chain(&self.topology_flags);
        let bytes: usize = words.clone().map(String::len).sum();
        if bytes > TEXT_BYTES_MAX || words.clone().any(|word| word.contains('\0')) {
            let fix = format!("use at most {TEXT_BYTES_MAX} bytes, without NUL characters");
            return Err(bad("program", format!("{bytes} bytes"), &fix));
        }
        if !self.package.is_empty() && !self.package.starts_with('/') {
            return Err(bad("package", &self.package, "use an absolute path"));
        }
        if self.package.starts_with("/pfs/") {
            PfsPath::parse(&self.package, &self.datacenter)
                .and_then(|path| path.check_access(&self.user, Access::Read))
                .map_err(in_field("package"))?;
        }
        Ok(())
    }

    fn check_size(&self) -> Result<()> {
        let counts = [
            ("trainers", self.trainers, 1, REPLICAS_MAX),
            ("pservers", self.pservers, 0, REPLICAS_MAX),
            ("passes", self.passes.unwrap_or(1), 1, u32::MAX),
        ];
        for (field, count, min, max) in counts {
            if !(min..=max).contains(&count) {
                return Err(bad(field, count, &format!("use a number from {min} to {max}")));
            }
        }
        if self.time_limit_seconds == Some(0) {
            return Err(bad("time_limit_seconds", 0, "use at least one second, or no limit"));
        }
        let Some(FaultTolerance { min_trainers, max_trainers }) = self.fault_tolerance else {
            return Ok(());
        };
        if !(1..=self.trainers).contains(&min_trainers) {
            let fix = format!("use a number from 1 to the {} trainers", self.trainers);
            return Err(bad("min_trainers", min_trainers, &fix));
        }
        if !(self.trainers..=REPLICAS_MAX).contains(&max_trainers) {
            let fix = format!("use a number from the {} trainers to {REPLICAS_MAX}", self.trainers);
            return Err(bad("max_trainers", max_trainers, &fix));
        }
        if !self.master {
            let fix = "a job whose trainers may change needs one: give --master, or set it to true";
            return Err(bad("master", false, fix));
        }
        Ok(())
    }

    /// What is said to servers and the master must have somebody to be said to.
    fn check_servers(&self) -> Result<()> {
        self.ports.check()?;
        for (field, dir) in [("log_dir", &self.log_dir), ("output_dir", &self.output_dir)] {
            if dir.is_empty() {
                return Err(bad(field, "", "name a directory"));
            }
        }
        let CheckpointSpec { dir, interval_seconds, restore } = &self.checkpoint;
        if dir.is_empty() && (interval_seconds.is_some() || restore.is_some()) {
            return Err(bad("checkpoint.dir", "", "name the folder of the checkpoints"));
        }
        let is_for_servers = [
            ("checkpoint.restore", restore.is_some()),
            ("checkpoint.interval_seconds", interval_seconds.is_some()),
            ("metrics_port", self.metrics_port.is_some()),
        ];
        if let (0, Some((field, _))) =
            (self.pservers, is_for_servers.iter().find(|(_, said)| *said))
        {
            let fix = format!("{field} is for parameter servers: ask for one, or leave it out");
            return Err(bad("pservers", 0, &fix));
        }
        if !self.master && self.data != DataSpec::default() {
            let fix = "a master hands the data out: use true, or leave `data` out";
            return Err(bad("master", false, fix));
        }
        for pattern in &self.data.files {
            length("pattern", pattern, PATH_BYTES_MAX).map_err(in_field("data.files"))?;
        }
        let counts = [
            ("threads", self.threads == Some(0)),
            ("data.chunks_per_task", self.data.chunks_per_task == Some(0)),
            ("data.task_timeout_seconds", self.data.task_timeout_seconds == Some(0)),
            ("ready_seconds", self.ready_seconds == 0),
        ];
        match counts.iter().find(|(_, is_zero)| *is_zero) {
            Some((field, _)) => Err(bad(field, 0, "use at least 1")),
            None => Ok(()),
        }
    }

    fn check_resources(&self, role: Role) -> Result<()> {
        let refuse = |field, value, fix| Err(bad(field, value, fix).with("role", role));
        let Resources { cpu, memory, gpu } = *self.resources.of(role);
        if cpu == Some(Quantity::ZERO) {
            return refuse("cpu", Quantity::ZERO, "use at least 1m, or leave it out for no limit");
        }
        if memory == Some(Quantity::ZERO) {
            let fix = "give the bytes that a replica needs, such as 1Gi, or leave it out";
            return refuse("memory", Quantity::ZERO, fix);
        }
        if let Some(memory) = memory.filter(|memory| memory.bytes() < MEMORY_BYTES_MIN) {
            let fix = format!("a replica needs at least 1Mi: did you mean {}?", meant(memory));
            return refuse("memory", memory, &fix);
        }
        if gpu.count().is_none() {
            return refuse("gpu", gpu, "use a whole number");
        }
        if role != Role::Trainer && gpu != Quantity::ZERO {
            return refuse("gpu", gpu, "only trainers use devices: use 0");
        }
        Ok(())
    }

    fn check_env(&self) -> Result<()> {
        for (variable, value) in &self.env {
            let refuse = |fix| Err(bad("env", variable.escape_debug(), fix));
            let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let is_first = |c: char| is_inner(c) && !c.is_ascii_digit();
            if !variable.starts_with(is_first) || !variable.chars().all(is_inner) {
                return refuse("use letters, digits and _ for a variable, not a digit first");
            }
            if value.contains('\0') {
                return refuse("remove the NUL character from the variable's value");
            }
            if env::variable(variable).is_some_and(|known| !known.may_be_set_by_user()) {
                return refuse("this variable is set for every replica: choose another name");
            }
        }
        let bytes: usize = self.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        if bytes > ENV_BYTES_MAX {
            let fix = format!("use at most {ENV_BYTES_MAX} bytes, and files for the rest");
            return Err(bad("env", format!("{bytes} bytes"), &fix));
        }
        Ok(())
    }
}

/// The least memory of a replica. Less is a slip: `512m` is half a byte, `1024` are bytes.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// What was probably meant by too little memory: the same number, in Mi.
fn meant(memory: Quantity) -> String {
    match (memory.cores_milli(), memory.bytes()) {
        (milli @ ..1000, _) => format!("{milli}Mi"),
        (_, bytes @ ..0x1_0000) => format!("{bytes}Mi"),
        _ => "512Mi".to_owned(),
    }
}

pub(super) fn version(version: u32) -> Result<()> {
    if (1..=JobSpec::VERSION).contains(&version) {
        return Ok(());
    }
    let message = "this version of the job spec is not known here: use matching releases";
    Err(Error::new(Kind::Unsupported, message)
        .with("version", version)
        .with("known", JobSpec::VERSION))
}

pub(super) fn length(what: &str, text: &str, bytes_max: usize) -> Result<()> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    Err(Error::new(Kind::LimitExceeded, format!("the {what} is too long: shorten it"))
        .with("bytes", text.len())
        .with("bytes_max", bytes_max))
}

fn bad(field: &str, value: impl fmt::Display, fix: &str) -> Error {
    Error::invalid(format!("bad {field}: {fix}")).with("value", value)
}

fn in_field(field: &'static str) -> impl Fn(Error) -> Error {
    move |error| error.with("field", field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> JobSpec {
        JobSpec {
            name: "ctr_v2".into(),
            user: "wuyi@example.com".into(),
            datacenter: "dc1".into(),
            package: "/pfs/dc1/home/wuyi@example.com/jobs/ctr".into(),
            entry: "python train.py".into(),
            trainers: 4,
            pservers: 2,
            queue: "nmg01-idl-dl-cpu-10G_cluster".into(),
            env: [("FLAGS_rpc_deadline".into(), "1000".into())].into(),
            ..JobSpec::default()
        }
    }

    fn error(change: impl FnOnce(&mut JobSpec)) -> Error {
        let mut spec = good();
        change(&mut spec);
        spec.check().unwrap_err()
    }

    #[test]
    fn good_specs_pass() {
        good().check().unwrap();
        JobSpec { package: "/home/wuyi/ctr".into(), ..good() }.check().unwrap();
        JobSpec { package: "/pfs/public/demo".into(), ..good() }.check().unwrap();
        JobSpec { entry: String::new(), topology: "conf.py".into(), ..good() }.check().unwrap();
    }

    #[test]
    fn what_is_for_servers_needs_servers() {
        let alone = |change: fn(&mut JobSpec)| {
            let mut spec = JobSpec { pservers: 0, ..good() };
            spec.checkpoint.dir = "ck".into();
            spec.check().unwrap();
            change(&mut spec);
            spec.check().unwrap_err().to_string()
        };
        let text = alone(|spec| spec.checkpoint.restore = Some(crate::job::Restore::Latest));
        assert!(text.contains("pservers") && text.contains("checkpoint.restore"), "{text}");
        assert!(alone(|spec| spec.metrics_port = Some(9100)).contains("metrics_port"));
        let text = alone(|spec| spec.checkpoint.interval_seconds = Some(1));
        assert!(text.contains("checkpoint.interval_seconds"), "{text}");
    }

    #[test]
    fn identity_is_checked() {
        insta::assert_snapshot!(error(|spec| spec.version = 4), @"this version of the job spec is not known here: use matching releases (version: 4, known: 3)");
        insta::assert_snapshot!(error(|spec| spec.name = "my job".into()), @"a job name cannot have ' ': use letters, digits, `-`, `.` and `_` (name: my job, position: 3, field: name)");
        insta::assert_snapshot!(error(|spec| spec.user = "../eve".into()), @"a user name cannot have '/': leave out slashes and control characters (name: ../eve, position: 3, field: user)");
        insta::assert_snapshot!(error(|spec| spec.datacenter.clear()), @"the datacenter name is empty (field: datacenter)");
        insta::assert_snapshot!(error(|spec| spec.queue = "a b".into()), @"a queue name cannot have ' ': use letters, digits, `-`, `.` and `_` (name: a b, position: 2, field: queue)");
        insta::assert_snapshot!(error(|spec| spec.registry = "a/b".into()), @"a registry name cannot have '/': use letters, digits, `-`, `.` and `_` (name: a/b, position: 2, field: registry)");
    }

    #[test]
    fn the_program_is_checked() {
        insta::assert_snapshot!(error(|spec| spec.entry.clear()), @"bad entry: give the command to run, or a topology (value: )");
        insta::assert_snapshot!(error(|spec| spec.entry = " \n".into()), @r"bad entry: give the command to run (value:  \n)");
        insta::assert_snapshot!(error(|spec| spec.topology = "conf.py".into()), @"bad topology: give a program, an entry or a topology, only one of them (value: conf.py)");
        insta::assert_snapshot!(error(|spec| spec.entry.push('\0')), @r#"bad entry: remove the NUL character (value: python train.py\0)"#);
        insta::assert_snapshot!(error(|spec| spec.package = "ctr".into()), @"bad package: use an absolute path (value: ctr)");
        insta::assert_snapshot!(error(|spec| spec.package = "/pfs/dc1/home/eve/x".into()), @"this is another user's home: use a path in your own (path: /pfs/dc1/home/eve/x, user: wuyi@example.com, field: package)");
        insta::assert_snapshot!(error(|spec| spec.image = "a".repeat(40_000)), @"the text is too long: shorten it (bytes: 40000, bytes_max: 32768, field: image)");
    }

    #[test]
    fn the_size_is_checked() {
        let tolerance = |min_trainers, max_trainers, master| {
            error(move |spec| {
                spec.fault_tolerance = Some(FaultTolerance { min_trainers, max_trainers });
                spec.master = master;
            })
        };
        insta::assert_snapshot!(error(|spec| spec.trainers = 0), @"bad trainers: use a number from 1 to 4096 (value: 0)");
        insta::assert_snapshot!(error(|spec| spec.pservers = 5000), @"bad pservers: use a number from 0 to 4096 (value: 5000)");
        insta::assert_snapshot!(error(|spec| spec.passes = Some(0)), @"bad passes: use a number from 1 to 4294967295 (value: 0)");
        insta::assert_snapshot!(error(|spec| spec.time_limit_seconds = Some(0)), @"bad time_limit_seconds: use at least one second, or no limit (value: 0)");
        insta::assert_snapshot!(tolerance(0, 4, true), @"bad min_trainers: use a number from 1 to the 4 trainers (value: 0)");
        insta::assert_snapshot!(tolerance(5, 8, true), @"bad min_trainers: use a number from 1 to the 4 trainers (value: 5)");
        insta::assert_snapshot!(tolerance(1, 3, true), @"bad max_trainers: use a number from the 4 trainers to 4096 (value: 3)");
        insta::assert_snapshot!(tolerance(1, 8, false), @"bad master: a job whose trainers may change needs one: give --master, or set it to true (value: false)");
    }

    #[test]
    fn the_resources_are_checked() {
        let half = Quantity::from_milli(500);
        insta::assert_snapshot!(error(|spec| spec.resources.trainer.cpu = Some(Quantity::ZERO)), @"bad cpu: use at least 1m, or leave it out for no limit (value: 0, role: trainer)");
        insta::assert_snapshot!(error(|spec| spec.resources.master.memory = Some(Quantity::ZERO)), @"bad memory: give the bytes that a replica needs, such as 1Gi, or leave it out (value: 0, role: master)");
        let memory = |text: &str| {
            let memory = text.parse().unwrap();
            error(|spec| spec.resources.trainer.memory = Some(memory))
        };
        insta::assert_snapshot!(memory("512m"), @"bad memory: a replica needs at least 1Mi: did you mean 512Mi? (value: 512m, role: trainer)");
        insta::assert_snapshot!(memory("1024"), @"bad memory: a replica needs at least 1Mi: did you mean 1024Mi? (value: 1Ki, role: trainer)");
        insta::assert_snapshot!(memory("512Ki"), @"bad memory: a replica needs at least 1Mi: did you mean 512Mi? (value: 512Ki, role: trainer)");
        let mut least = good();
        least.resources.trainer.memory = Some("1Mi".parse().unwrap());
        least.check().unwrap();
        insta::assert_snapshot!(error(|spec| spec.resources.trainer.gpu = half), @"bad gpu: use a whole number (value: 500m, role: trainer)");
        insta::assert_snapshot!(error(|spec| spec.resources.pserver.gpu = Quantity::whole(1)), @"bad gpu: only trainers use devices: use 0 (value: 1, role: pserver)");
    }

    #[test]
    fn extra_variables_may_not_be_those_of_the_contract() {
        let with = |name: &str, value: &str| {
            error(|spec| drop(spec.env.insert(name.into(), value.into())))
        };
        insta::assert_snapshot!(with("PADDLE_INIT_TRAINER_ID", "0"), @"bad env: this variable is set for every replica: choose another name (value: PADDLE_INIT_TRAINER_ID)");
        insta::assert_snapshot!(with("1A", ""), @"bad env: use letters, digits and _ for a variable, not a digit first (value: 1A)");
        insta::assert_snapshot!(with("A=B", ""), @"bad env: use letters, digits and _ for a variable, not a digit first (value: A=B)");
        insta::assert_snapshot!(with("A", "\0"), @"bad env: remove the NUL character from the variable's value (value: A)");
        insta::assert_snapshot!(with("A", &"a".repeat(ENV_BYTES_MAX)), @"bad env: use at most 65536 bytes, and files for the rest (value: 65563 bytes)");
        assert!(with("PADDLE_JOB_TOKEN", "x").kind() == Kind::Invalid);
    }
}
