//! Slurm's words for states and reasons in ours: two tables, and how to read what its commands
//! print. Pure.

use contract::{Error, Kind, Result};

/// How far an allocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It has no nodes yet, or not any more for a while.
    Waiting,
    /// It has nodes.
    Running,
    /// Its processes are being ended; how it ends is told later.
    Ending,
    /// It is over.
    Ended(End),
}

/// How an allocation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Completed,
    /// Its script failed.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// Its time was over.
    TimedOut,
    /// A node was lost.
    NodeFailed,
    /// It used more memory than it had asked for.
    OutOfMemory,
    /// Its nodes were given to a job that is more important.
    Preempted,
    /// Slurm does not know it, any more.
    Vanished,
}

/// Slurm's states, in the order of its documentation.
const STATES: [(&str, Phase); 24] = [
    ("BOOT_FAIL", Phase::Ended(End::NodeFailed)),
    ("CANCELLED", Phase::Ended(End::Cancelled)),
    ("COMPLETED", Phase::Ended(End::Completed)),
    ("CONFIGURING", Phase::Waiting),
    ("COMPLETING", Phase::Ending),
    ("DEADLINE", Phase::Ended(End::TimedOut)),
    ("FAILED", Phase::Ended(End::Failed)),
    ("NODE_FAIL", Phase::Ended(End::NodeFailed)),
    ("OUT_OF_MEMORY", Phase::Ended(End::OutOfMemory)),
    ("PENDING", Phase::Waiting),
    ("PREEMPTED", Phase::Ended(End::Preempted)),
    ("RUNNING", Phase::Running),
    ("RESV_DEL_HOLD", Phase::Waiting),
    ("REQUEUE_FED", Phase::Waiting),
    ("REQUEUE_HOLD", Phase::Waiting),
    ("REQUEUED", Phase::Waiting),
    ("RESIZING", Phase::Running),
    ("REVOKED", Phase::Ended(End::Vanished)),
    ("SIGNALING", Phase::Running),
    ("SPECIAL_EXIT", Phase::Waiting),
    ("STAGE_OUT", Phase::Ending),
    ("STOPPED", Phase::Waiting),
    ("SUSPENDED", Phase::Waiting),
    ("TIMEOUT", Phase::Ended(End::TimedOut)),
];

/// Why Slurm lets a job wait, in plain words. What is not here is said in Slurm's own word.
const REASONS: [(&str, &str); 27] = [
    ("None", "Slurm has not looked at it yet"),
    ("Priority", "jobs with a higher priority are ahead of it"),
    ("Resources", "the nodes it needs are in use"),
    ("Dependency", "it waits for a job that it depends on"),
    ("BeginTime", "its time to begin has not come"),
    ("Reservation", "it waits for its reservation"),
    ("ReservationDeleted", "its reservation was deleted: kill it, and submit it again without"),
    ("Licenses", "all licenses that it needs are in use"),
    ("NodeDown", "a node that it needs is down"),
    (
        "ReqNodeNotAvail",
        "the nodes that it may use are down, drained, reserved or not in service now",
    ),
    ("BadConstraints", "no nodes have what it asks for: check the constraint and the resources"),
    ("PartitionDown", "its partition is down"),
    ("PartitionInactive", "its partition is inactive"),
    (
        "PartitionNodeLimit",
        "it asks for more nodes than its partition allows, or nodes that are down: ask for fewer",
    ),
    (
        "PartitionConfig",
        "its partition does not have what it asks for: ask for fewer nodes, or another partition",
    ),
    ("PartitionTimeLimit", "its time limit is beyond that of the partition: ask for less time"),
    ("JobHeldUser", "it is held: scontrol release lets it go on"),
    ("JobHeldAdmin", "an administrator holds it"),
    ("JobLaunchFailure", "its script could not be started, so it is held: look at the node's log"),
    ("AssociationJobLimit", "its account has as many jobs as it may"),
    ("AssocMaxJobsLimit", "its account has as many jobs as it may"),
    ("AssocGrpCpuLimit", "its account uses as many processors as it may"),
    ("AssocGrpNodeLimit", "its account uses as many nodes as it may"),
    ("QOSMaxJobsPerUserLimit", "you have as many jobs of this QOS as you may"),
    ("QOSGrpCpuLimit", "all processors of its QOS are in use"),
    ("QOSMaxWallDurationPerJobLimit", "its time limit is beyond that of its QOS: ask for less"),
    ("InvalidQOS", "its QOS is not valid any more: kill it, and submit it with another"),
];

/// The reason of an allocation that is ended because its time is over.
pub(super) const TIME_LIMIT: &str = "TimeLimit";
/// The signal that Slurm names where it cannot open the output of a script.
const MUTE: &str = "53";

/// What Slurm says of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// How far it is.
    pub phase: Phase,
    /// The state in Slurm's word.
    pub state: String,
    /// Why it waits, in Slurm's word.
    pub reason: String,
    /// For how long it has had nodes.
    pub ran_seconds: u64,
    /// The exit code of its script, once that is known.
    pub exit_code: Option<i32>,
    /// Whether Slurm could not open the file for what the script prints.
    pub is_mute: bool,
}

/// The format that [`parse_queue`] reads, for `squeue --format`.
pub(super) const QUEUE_FORMAT: &str = "%i|%T|%r|%M|%k";

/// Reads the lines of `squeue`: number, what is told, comment.
pub(super) fn parse_queue(text: &str) -> Result<Vec<(u64, Told, String)>> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.splitn(5, '|').collect();
        let [id, state, reason, ran, comment] = fields[..] else { return Err(senseless(line)) };
        let told = Told {
            phase: phase(state)?,
            state: state.to_owned(),
            reason: reason.to_owned(),
            ran_seconds: seconds(ran).unwrap_or(0),
            exit_code: None,
            is_mute: false,
        };
        Ok((id.parse().map_err(|_| senseless(line))?, told, comment.to_owned()))
    };
    text.lines().map(str::trim).filter(|text| !text.is_empty()).map(line).collect()
}

/// Reads the first line of `sacct --parsable2 --format=State,ExitCode`; `None` if there is none.
pub(super) fn parse_accounts(text: &str) -> Result<Option<Told>> {
    let Some(line) = text.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return Ok(None);
    };
    let (state, code) = line.split_once('|').ok_or_else(|| senseless(line))?;
    told(state, "", code).map(Some)
}

/// Reads `scontrol show job --oneliner`.
pub(super) fn parse_description(text: &str) -> Result<Told> {
    let field = |name: &str| {
        let mut words = text.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
    };
    let mut told = told(field("JobState"), field("Reason"), field("ExitCode"))?;
    told.ran_seconds = seconds(field("RunTime")).unwrap_or(0);
    Ok(told)
}

fn told(state: &str, reason: &str, code: &str) -> Result<Told> {
    // `CANCELLED by 1000`, where it is known by whom.
    let state = state.split_whitespace().next().unwrap_or_default();
    let (code, signal) = code.split_once(':').unwrap_or((code, ""));
    Ok(Told {
        phase: phase(state)?,
        state: state.to_owned(),
        reason: reason.to_owned(),
        ran_seconds: 0,
        exit_code: code.parse().ok(),
        is_mute: signal == MUTE,
    })
}

fn phase(state: &str) -> Result<Phase> {
    let known = STATES.iter().find(|(word, _)| *word == state);
    known.map(|(_, phase)| *phase).ok_or_else(|| {
        let message = "Slurm says a state that is not known: is it newer than this release?";
        Error::new(Kind::Unsupported, message).with("state", state.escape_debug())
    })
}

fn senseless(line: &str) -> Error {
    let message = "Slurm's commands print something else than expected";
    Error::new(Kind::Damaged, message).with("line", line.escape_debug())
}

/// A time as Slurm prints it: `[days-][hours:]minutes:seconds`.
fn seconds(text: &str) -> Option<u64> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut total: u64 = 0;
    for part in rest.split(':') {
        total = total.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    days.parse::<u64>().ok()?.checked_mul(86_400)?.checked_add(total)
}

impl Told {
    /// What Slurm does not know.
    pub(super) fn vanished() -> Told {
        Told {
            phase: Phase::Ended(End::Vanished),
            state: "unknown".to_owned(),
            reason: String::new(),
            ran_seconds: 0,
            exit_code: None,
            is_mute: false,
        }
    }

    /// Whether it waits because it asks for more time than its partition, its QOS or its account
    /// allows.
    pub(super) fn is_too_long(&self) -> bool {
        self.reason == "PartitionTimeLimit" || self.reason.contains("MaxWall")
    }

    /// Why the job with this number waits, in plain words.
    pub(super) fn waiting(&self, id: u64) -> String {
        let why = match self.state.as_str() {
            "CONFIGURING" => "its nodes are being made ready".to_owned(),
            "SUSPENDED" | "STOPPED" => "it is suspended: scontrol resume lets it go on".to_owned(),
            // Slurm adds details to some words: `ReqNodeNotAvail, UnavailableNodes:n1`.
            _ => {
                let word = self.reason.split([',', '(']).next().unwrap_or_default().trim();
                match REASONS.iter().find(|(known, _)| *known == word) {
                    Some((_, words)) if word == self.reason => (*words).to_owned(),
                    Some((_, words)) => format!("{words} ({})", self.reason),
                    None => format!("Slurm's reason is {}", self.reason),
                }
            }
        };
        format!("waiting in Slurm's queue as job {id}: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(state: &str, reason: &str) -> String {
        let line = format!("7|{state}|{reason}|0:00|paddle");
        parse_queue(&line).unwrap()[0].1.waiting(7)
    }

    #[test]
    fn every_line_of_the_queue_is_read() {
        let text =
            "2|RUNNING|None|1-02:03:04|paddle id=job-1 mark=a|b\n\n3|PENDING|Priority|0:00|\n";
        let found = parse_queue(text).unwrap();
        assert_eq!(found.len(), 2);
        let (id, told, comment) = &found[0];
        assert_eq!((*id, told.phase, told.ran_seconds), (2, Phase::Running, 93_784));
        assert_eq!(comment, "paddle id=job-1 mark=a|b");
        assert_eq!(found[1].1.phase, Phase::Waiting);
        insta::assert_snapshot!(parse_queue("nonsense").unwrap_err(), @"Slurm's commands print something else than expected (line: nonsense)");
        insta::assert_snapshot!(parse_queue("1|ODD|None|0:00|").unwrap_err(), @"Slurm says a state that is not known: is it newer than this release? (state: ODD)");
    }

    /// All lines but the last are what `sacct` printed with slurmdbd 22.05.
    #[test]
    fn the_accounts_tell_how_an_allocation_ended() {
        let check = |line: &str| {
            let told = parse_accounts(line).unwrap().unwrap();
            (told.phase, told.exit_code)
        };
        assert_eq!(check("COMPLETED|0:0\n"), (Phase::Ended(End::Completed), Some(0)));
        assert_eq!(check("FAILED|127:0\n"), (Phase::Ended(End::Failed), Some(127)));
        assert_eq!(check("CANCELLED by 0|0:0\n"), (Phase::Ended(End::Cancelled), Some(0)));
        assert_eq!(check("NODE_FAIL|0:0\n"), (Phase::Ended(End::NodeFailed), Some(0)));
        assert_eq!(check("TIMEOUT|0:0\n"), (Phase::Ended(End::TimedOut), Some(0)));
        assert_eq!(check("OUT_OF_MEMORY|0:125"), (Phase::Ended(End::OutOfMemory), Some(0)));
        assert_eq!(parse_accounts("\n").unwrap(), None);
    }

    #[test]
    fn without_accounts_the_controller_tells() {
        let text = "JobId=2 JobName=paddle-a UserId=root(0) JobState=NODE_FAIL Reason=NodeDown \
                    Dependency=(null) ExitCode=0:1 RunTime=00:01:01 TimeLimit=365-00:00:00";
        let told = parse_description(text).unwrap();
        assert_eq!((told.phase, told.exit_code), (Phase::Ended(End::NodeFailed), Some(0)));
        assert_eq!((told.reason.as_str(), told.ran_seconds), ("NodeDown", 61));
    }

    #[test]
    fn reasons_are_said_in_plain_words() {
        insta::assert_snapshot!(waiting("PENDING", "Resources"), @"waiting in Slurm's queue as job 7: the nodes it needs are in use");
        insta::assert_snapshot!(waiting("PENDING", "ReqNodeNotAvail, UnavailableNodes:n1"), @"waiting in Slurm's queue as job 7: the nodes that it may use are down, drained, reserved or not in service now (ReqNodeNotAvail, UnavailableNodes:n1)");
        insta::assert_snapshot!(waiting("PENDING", "SomethingNew"), @"waiting in Slurm's queue as job 7: Slurm's reason is SomethingNew");
        insta::assert_snapshot!(waiting("CONFIGURING", "None"), @"waiting in Slurm's queue as job 7: its nodes are being made ready");
        insta::assert_snapshot!(waiting("SUSPENDED", "None"), @"waiting in Slurm's queue as job 7: it is suspended: scontrol resume lets it go on");
    }
}
