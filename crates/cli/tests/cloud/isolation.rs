//! What a job of one user can see of another user and of the server: nothing.

use super::component;
use super::server::{Server, wait_until};
use super::user::User;
use contract::state::JobState;
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// The administrator; `None`, with a word about it, where the kernel does not permit sandboxes.
fn admin_where_jobs_are_kept_apart(server: &Server) -> Option<User> {
    let admin = server.admin();
    let places: Vec<Value> = admin.get("/api/v2/datacenters").read();
    if places[0]["notes"] == serde_json::json!([]) {
        return Some(admin);
    }
    component::missing("sandbox", &places[0]["notes"].to_string())
}

#[test]
fn a_server_that_cannot_keep_jobs_apart_says_so_or_does_not_start() {
    if !rustix::process::geteuid().is_root() {
        let _: Option<()> = component::missing("sandbox", "only root has rights to give up");
        return;
    }
    // Sandboxes are mounts, which nobody may make without this right.
    let without_mounts = |server: &Server| {
        let own = server.command();
        let mut command = Command::new("setpriv");
        command.arg("--bounding-set=-sys_admin").arg(own.get_program()).args(own.get_args());
        command
    };
    let required = Server::prepared("isolation: required", &[]);
    let output = without_mounts(&required).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("isolation is required, and not possible here"), "{error}");
    let mut server = Server::prepared("isolation: when_possible", &[]);
    let command = without_mounts(&server);
    server.run(command);
    let note = "jobs are not kept apart here";
    assert!(server.log().contains(note), "{}", server.log());
    let admin = server.admin();
    admin.submit("job", "echo done");
    admin.wait_until("job", JobState::Succeeded);
    let why: Value = admin.get("/api/v2/datacenters/local/jobs/job/why").read();
    assert!(why["notes"].to_string().contains(note), "{why}");
}

#[test]
fn a_job_sees_its_home_and_the_public_area_and_nothing_of_others() {
    let server = Server::start();
    let Some(admin) = admin_where_jobs_are_kept_apart(&server) else { return };
    let (user, other) = (admin.add_user("wu"), admin.add_user("eve"));
    other.submit("secret", "echo hunter2 > ../../password; chmod 644 ../../password");
    other.wait_until("secret", JobState::Succeeded);
    let public = server.data().join("files/local/public/dataset");
    std::fs::create_dir_all(&public).unwrap();
    std::fs::write(public.join("part-0"), "data\n").unwrap();
    let data = server.data().display().to_string();
    let script = format!(
        "echo mine > /pfs/local/home/wu/own && cat /pfs/local/home/wu/own\n\
         cat /pfs/local/public/dataset/part-0 /pfs/public/dataset/part-0\n\
         ls /pfs/local/home\n\
         ls {data} /pfs/local/home/eve\n\
         cat {data}/cloud.db {data}/secret.key {data}/admin_password\n\
         cat {data}/files/local/home/eve/password /pfs/local/home/eve/password\n\
         ln -s {data}/cloud.db link && cat link\n\
         echo x > /pfs/public/x\n\
         env | grep -i -e password -e DATABASE\n\
         id -u; echo $HOME; pwd; echo done"
    );
    user.submit("job", &script);
    user.wait_until("job", JobState::Succeeded);
    let log = user.log("job", "trainer-0");
    let refused = |line: &&str| {
        line.starts_with("ls: ") || line.starts_with("cat: ") || line.starts_with("train.sh: ")
    };
    let lines: Vec<&str> = log.lines().filter(|line| !refused(line)).collect();
    let uid = 200_001;
    let expected = format!(
        "mine\ndata\ndata\nwu\n{uid}\n/pfs/local/home/wu\n/pfs/local/home/wu/jobs/job\ndone"
    );
    let lines: Vec<&str> =
        lines.into_iter().filter(|line| !line.ends_with(':') && !line.is_empty()).collect();
    assert_eq!(lines.join("\n"), expected, "{log}");
    assert!(!public.parent().unwrap().join("x").exists());
}

/// Waits until all jobs are there, then tries what it should not be able to do, one line each.
const PROBE: &str = r#"
exec 2>/dev/null
touch ../../ready-$PADDLE_JOB_NAME
while [ ! -e ../../go ]; do sleep 0.02; done
all() { cat /proc/[0-9]*/$1 | tr '\0' '\n'; }
echo environments of others: $(all environ | grep -c -e "$OTHERS" -e PADDLECLOUD_TOKEN)
echo tokens of jobs: $(all environ | grep PADDLE_JOB_TOKEN | sort -u | wc -l)
echo sleepers: $(all cmdline | grep -c -x "$SLEEP")
echo servers: $(all cmdline | grep -c -x "[s]erve")
kill -0 $SERVER && echo server reached
mount -t tmpfs none /mnt && echo mounted
unshare --user --map-root-user --mount sh -c "mount -t tmpfs none /mnt && mount --rbind / /mnt
  umount -l $DATA /pfs/local/home
  ls -A $DATA /mnt$DATA /pfs/local/home /mnt/pfs/local/home" | grep -x -e "$OTHER" -e cloud.db
chroot / true && echo changed root
[ "$(../../root-id -u)" = "$(id -u)" ] || echo became root
su -c 'echo su' </dev/null; sudo -n echo sudo
echo $(grep -e NoNewPrivs -e CapEff -e CapBnd /proc/self/status | tr -s '\t\n' '  ')
for place in "/pfs/local/home/$OTHER" "$DATA/files/local/home/$OTHER" "$DATA"; do
  [ -n "$(ls -A "$place")" ] && echo listed
  ln -s "$place" link-to-other && [ -n "$(ls -A link-to-other/)" ] && echo followed
  rm -f link-to-other
done
echo > /dev/tcp/127.0.0.1/1 && echo connected
exec 3<>/dev/tcp/127.0.0.1/$PORT && printf 'GET /api/v2/users HTTP/1.0\r\n\r\n' >&3 && head -1 <&3 | tr -d '\r'
echo done
"#;

#[test]
fn two_users_with_two_jobs_each_reach_nothing_of_each_other() {
    let server = Server::start();
    let Some(admin) = admin_where_jobs_are_kept_apart(&server) else { return };
    let users = [admin.add_user("wu"), admin.add_user("eve")];
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    for (user, other) in [(&users[0], "eve"), (&users[1], "wu")] {
        for (name, sleep) in [("one", "10001"), ("two", "10002")] {
            let script = format!("sleep {sleep} &\n{PROBE}");
            let own = format!("secret-of-{}-{name}", user.name);
            let body = user.submission(name, &script, |spec| {
                spec.entry = "bash train.sh".to_owned();
                spec.env = [
                    ("OWN", own.as_str()),
                    // Patterns that do not match themselves.
                    ("OTHERS", format!("secret-of-[{}]{}", &other[..1], &other[1..]).as_str()),
                    ("OTHER", other),
                    // Their own other job is another job, too.
                    ("SLEEP", if name == "one" { "[1]0002" } else { "[1]0001" }),
                    ("SERVER", server.pid().to_string().as_str()),
                    ("PORT", port.as_str()),
                    ("DATA", server.data().to_str().unwrap()),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into();
            });
            let _: Value = user.submit_body(&body).read();
        }
    }
    let homes = server.data().join("files/local/home");
    for name in ["one", "two"] {
        for user in &users {
            let ready = homes.join(&user.name).join(format!("ready-{name}"));
            wait_until("all jobs to run", || ready.exists());
        }
    }
    for user in &users {
        // A program of root's, with the bit that lets it run as root.
        let program = homes.join(&user.name).join("root-id");
        std::fs::copy("/usr/bin/id", &program).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o4755)).unwrap();
        std::fs::write(homes.join(&user.name).join("go"), "").unwrap();
    }
    for user in &users {
        for name in ["one", "two"] {
            user.wait_until(name, JobState::Succeeded);
            let zeros = "0".repeat(16);
            let expected = format!(
                "environments of others: 0\ntokens of jobs: 1\nsleepers: 0\nservers: 0\n\
                 CapEff: {zeros} CapBnd: {zeros} NoNewPrivs: 1\nHTTP/1.0 401 Unauthorized\ndone\n"
            );
            let log = user.log(name, "trainer-0");
            assert_eq!(log, expected, "{} {name}", user.name);
        }
    }
}
