//! The names people choose, and the id derived from a job's name.
//!
//! Each rule says which character is wrong and where. Uniqueness is not checked here: that needs
//! the list of jobs, which is `cloud`'s.
//!
//! # From name to id
//!
//! Clusters want DNS labels and people want names, so a job has both. The [`JobId`] of a name is
//!
//! 1. the name itself, if it is a lower-case DNS label that starts with a letter, has at most 48
//!    bytes, and does not end like an id of the second kind;
//! 2. otherwise `<prefix>-x<hash>`: at most 30 bytes of the name, in lower case and with `-` for
//!    everything that a label cannot have, then 16 characters of base32 of the name's SHA-256.
//!
//! Ids of the first kind never look like the second, and two names of the second kind would have
//! to agree in 80 bits of SHA-256, so different names have different ids. The id depends on the
//! name alone: any process can compute it, and it never changes. 48 bytes leave room for
//! `-pserver-NNNNN` in the 63 of a label; the first letter makes it good for Kubernetes services.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::role::Role;
use crate::{Error, Result};

/// The rule of `paddlecloud submit`: letters, digits, `-` and `.`; at most 63.
pub fn check_job_for_submit(name: &str) -> Result<()> {
    check_word("job name", name, "-.", "letters, digits, `-` and `.`")
}

/// The rule of `paddle cluster_train`, and of a job spec: as for submit, and `_` inside.
pub fn check_job(name: &str) -> Result<()> {
    check_word("job name", name, "-._", WORD_RULE)
}

/// Queues are named by administrators, with the characters of a job.
pub fn check_queue(name: &str) -> Result<()> {
    check_word("queue name", name, "-._", WORD_RULE)
}

/// Image registries are named by users, with the characters of a job.
pub fn check_registry(name: &str) -> Result<()> {
    check_word("registry name", name, "-._", WORD_RULE)
}

/// A user name may be an e-mail address, and is one component of a path.
pub fn check_user(name: &str) -> Result<()> {
    check_component("user name", name)?;
    // A colon ends the user in HTTP credentials and is no part of an HDFS path.
    refuse_where("user name", name, "leave out white space and `:`", |c| {
        c.is_whitespace() || c == ':'
    })
}

/// A datacenter may be called anything that is one component of a path, except `public`: that is
/// the alias `/pfs/public`.
pub fn check_datacenter(name: &str) -> Result<()> {
    check_component("datacenter name", name)?;
    if name == "public" {
        return Err(Error::invalid("a datacenter cannot be called public: choose another name"));
    }
    Ok(())
}

const WORD_RULE: &str = "letters, digits, `-`, `.` and `_`";
const WORD_BYTES_MAX: usize = 63;
/// The longest e-mail address; one byte less than a file name can have.
const COMPONENT_BYTES_MAX: usize = 254;

fn check_word(what: &str, name: &str, punctuation: &str, rule: &str) -> Result<()> {
    check_length(what, name, WORD_BYTES_MAX)?;
    refuse_where(what, name, &format!("use {rule}"), |c| {
        !c.is_ascii_alphanumeric() && !punctuation.contains(c)
    })?;
    let is_alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if !is_alphanumeric(name.chars().next()) || !is_alphanumeric(name.chars().next_back()) {
        let message = format!("a {what} starts and ends with a letter or a digit");
        return Err(Error::invalid(message).with("name", name));
    }
    Ok(())
}

fn check_component(what: &str, name: &str) -> Result<()> {
    check_length(what, name, COMPONENT_BYTES_MAX)?;
    refuse_where(what, name, "leave out slashes and control characters", |c| {
        c == '/' || c == '\\' || c.is_control()
    })?;
    // A leading dot hides a file, a leading dash is an option to half of all commands.
    if name.starts_with(['.', '-']) || name.contains("..") || name.trim() != name {
        let message = format!(
            "a {what} has no `..`, starts with neither `.` nor `-`, and has no white space around"
        );
        return Err(Error::invalid(message).with("name", name));
    }
    Ok(())
}

fn check_length(what: &str, name: &str, bytes_max: usize) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid(format!("the {what} is empty")));
    }
    if name.len() > bytes_max {
        let message = format!("the {what} is too long: use at most {bytes_max} bytes");
        return Err(Error::invalid(message).with("bytes", name.len()));
    }
    Ok(())
}

fn refuse_where(what: &str, name: &str, rule: &str, wrong: impl Fn(char) -> bool) -> Result<()> {
    match name.chars().enumerate().find(|(_, c)| wrong(*c)) {
        None => Ok(()),
        Some((index, c)) => Err(Error::invalid(format!("a {what} cannot have {c:?}: {rule}"))
            .with("name", name.escape_debug())
            .with("position", index + 1)),
    }
}

/// The DNS label that stands for a job's name on a cluster. The page's head has the rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JobId(String);

impl JobId {
    /// The longest id.
    pub const BYTES_MAX: usize = 48;

    /// The id of a name. Every text has one; whether the text is a good name is asked elsewhere.
    pub fn of(name: &str) -> JobId {
        if is_label(name) && !looks_hashed(name) { JobId(name.to_owned()) } else { hashed(name) }
    }

    /// The name of one replica on the cluster: `<id>-pserver-0`.
    pub fn replica(&self, role: Role, rank: u32) -> String {
        format!("{}-{role}-{rank}", self.0)
    }

    /// The label.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const HASH_BYTES: usize = 16;
const PREFIX_BYTES_MAX: usize = JobId::BYTES_MAX - HASH_BYTES - "-x".len();
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

fn is_label(text: &str) -> bool {
    let is_inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    text.len() <= JobId::BYTES_MAX
        && text.bytes().all(is_inner)
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
}

fn looks_hashed(label: &str) -> bool {
    let is_hash =
        |hash: &str| hash.len() == HASH_BYTES && hash.bytes().all(|c| BASE32.contains(&c));
    label.rsplit_once("-x").is_some_and(|(_, hash)| is_hash(hash))
}

fn hashed(name: &str) -> JobId {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let prefix: String = name.chars().map(fit).take(PREFIX_BYTES_MAX).collect();
    let prefix = prefix.trim_start_matches(|c: char| !c.is_ascii_lowercase()).trim_end_matches('-');
    let prefix = if prefix.is_empty() { "job" } else { prefix };
    // 32 divides 256, so every character is as likely as the others.
    let letter = |byte: &u8| char::from(BASE32[usize::from(byte % 32)]);
    let hash: String = Sha256::digest(name).iter().take(HASH_BYTES).map(letter).collect();
    JobId(format!("{prefix}-x{hash}"))
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<JobId> for String {
    fn from(id: JobId) -> Self {
        id.0
    }
}

/// Reads an id back from a label of the cluster.
impl TryFrom<String> for JobId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        if is_label(&text) {
            return Ok(JobId(text));
        }
        Err(Error::invalid("not a job id: it is a DNS label of at most 48 bytes").with("id", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(result: Result<()>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn job_names_of_the_documents_are_accepted() {
        let longest = "a".repeat(63);
        for name in ["my-paddlecloud-job", "paddle-cluster-job", "v1.2", "A", "7", &longest] {
            check_job_for_submit(name).unwrap();
            check_job(name).unwrap();
        }
        check_job("daiwenkai_paddle_cluster_demo_v5").unwrap();
        check_queue("nmg01-idl-dl-cpu-10G_cluster").unwrap();
        check_registry("my_registry").unwrap();
    }

    #[test]
    fn a_refused_name_shows_which_character_is_wrong_and_where() {
        insta::assert_snapshot!(error(check_job_for_submit("my_job")), @"a job name cannot have '_': use letters, digits, `-` and `.` (name: my_job, position: 3)");
        insta::assert_snapshot!(error(check_job("a/../b")), @"a job name cannot have '/': use letters, digits, `-`, `.` and `_` (name: a/../b, position: 2)");
        insta::assert_snapshot!(error(check_job("-job")), @"a job name starts and ends with a letter or a digit (name: -job)");
        insta::assert_snapshot!(error(check_job("任务")), @"a job name cannot have '任': use letters, digits, `-`, `.` and `_` (name: 任务, position: 1)");
        insta::assert_snapshot!(error(check_job("")), @"the job name is empty");
        insta::assert_snapshot!(error(check_job(&"a".repeat(64))), @"the job name is too long: use at most 63 bytes (bytes: 64)");
        insta::assert_snapshot!(error(check_user("eve\n@x")), @r#"a user name cannot have '\n': leave out slashes and control characters (name: eve\n@x, position: 4)"#);
        insta::assert_snapshot!(error(check_datacenter("public")), @"a datacenter cannot be called public: choose another name");
        for name in ["job.", "job_", "job-", ".job", "_"] {
            assert!(check_job(name).is_err(), "{name}");
        }
    }

    #[test]
    fn users_are_safe_path_components_such_as_e_mail_addresses() {
        for name in ["wuyi", "first.last+tag@example.com", "张三@例子.中国", "o'neil@x"] {
            check_user(name).unwrap();
        }
        for name in ["", ".", "..", "a/b", "a\\b", "a\0", "a..b", "-rf", ".ssh", "a b", "a:b", " a"]
        {
            assert!(check_user(name).is_err(), "{name}");
        }
        assert!(check_user(&"a".repeat(255)).is_err());
    }

    #[test]
    fn a_datacenter_may_be_called_almost_anything() {
        for name in ["datacenter1", "北京 1", "dc_2"] {
            check_datacenter(name).unwrap();
        }
        for name in ["..", "a/b", "", " dc", "public"] {
            assert!(check_datacenter(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_simple_name_is_its_own_id() {
        for name in ["ctr", "my-paddlecloud-job", "a", &"a".repeat(48)] {
            assert_eq!(JobId::of(name).as_str(), name);
        }
    }

    #[test]
    fn every_other_name_keeps_a_readable_start() {
        // Pinned: an id that changes between versions would orphan running jobs.
        let id = |name| JobId::of(name).to_string();
        insta::assert_snapshot!(id("daiwenkai_paddle_cluster_demo_v5"), @"daiwenkai-paddle-cluster-demo-xwhf343b7xy4oj2ur");
        insta::assert_snapshot!(id("CTR.v2"), @"ctr-v2-xuztxzivwiyi6pt5j");
        insta::assert_snapshot!(id("2024-ctr"), @"ctr-xxybmgy4vonipjsak");
        insta::assert_snapshot!(id("7"), @"job-xzcj3emkog33fbsfx");
        insta::assert_snapshot!(id("ctr-xabcdefghijklmnop"), @"ctr-xabcdefghijklmnop-xdq4ndusygfuve7n7");
    }

    #[test]
    fn an_id_reads_back_and_a_bad_one_does_not() {
        let id = JobId::of("CTR.v2");
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<JobId>(&json).unwrap(), id);
        for text in ["", "A", "a_b", "-a", "a-", "1a", &"a".repeat(49)] {
            assert!(JobId::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    fn check_dns_label(label: &str) {
        let is_inner = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '-');
        assert!((1..=63).contains(&label.len()) && label.chars().all(is_inner), "{label}");
        assert!(label.starts_with(|c: char| c.is_ascii_lowercase()) && !label.ends_with('-'));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn ids_are_labels_that_leave_room_for_the_replica(
            name in "[a-zA-Z0-9._-]{0,63}|.*",
            role in prop::sample::select(&Role::ALL[..]),
            rank in 0..100_000_u32,
        ) {
            let id = JobId::of(&name);
            prop_assert_eq!(&id, &JobId::of(&name));
            prop_assert!(id.as_str().len() <= JobId::BYTES_MAX);
            check_dns_label(id.as_str());
            check_dns_label(&id.replica(role, rank));
        }

        // Few letters, so that names which differ in case or punctuation only are frequent.
        #[test]
        fn different_names_have_different_ids(a in "[aA][aA._-]{0,3}[aA]", b in "[aA][aA._-]{0,3}[aA]") {
            prop_assert_eq!(JobId::of(&a) == JobId::of(&b), a == b);
        }

        #[test]
        fn no_name_takes_the_id_of_another(name in "[a-zA-Z0-9._-]{0,63}") {
            let id = JobId::of(&name);
            let of_id = JobId::of(id.as_str());
            prop_assert_eq!(of_id == id, id.as_str() == name);
        }
    }
}
