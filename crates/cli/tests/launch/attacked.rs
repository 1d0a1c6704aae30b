//! What a stranger does to the commands: signals at any moment, odd files among the jobs, full disks.

use super::component;
use super::job::{Job, signal, spawn, wait_until};
use std::process::{Command, Stdio};

/// Where jobs are kept, among hidden files that outlive them.
fn jobs_of(job: &Job) -> Vec<String> {
    let entries = std::fs::read_dir(job.folder().join(".jobs")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name != ".claims").collect()
}

#[test]
fn a_signal_at_any_moment_ends_the_job_and_leaves_nothing() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        for stage in [".jobs", "log", "started"] {
            let job = Job::new();
            let launch = spawn(job.launch(&["--pservers=1"], "touch started; exec sleep 1000"));
            job.await_file(stage);
            signal(launch.id(), name);
            assert_eq!(job.finish(launch).code, code, "SIG{name} at {stage}");
            assert_eq!(jobs_of(&job), Vec::<String>::new(), "SIG{name} at {stage}");
        }
    }
}

#[test]
fn a_job_in_the_foreground_is_followed_and_killed_from_elsewhere() {
    let job = Job::new();
    let launch = spawn(job.launch(&["--name=fore"], "echo here; touch started; exec sleep 1000"));
    job.await_file("started");
    wait_until("the line is kept", || {
        job.run(job.paddle(&["logs", "fore"])).stdout == "trainer-0 | here\n"
    });
    let followed = spawn(job.paddle(&["logs", "--follow", "fore"]));
    let killed = job.run(job.paddle(&["kill", "fore"]));
    assert_eq!(killed.code, 0, "{killed:?}");
    assert!(killed.stdout.ends_with(": killed\n"), "{killed:?}");
    assert_eq!(followed.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(job.finish(launch).code, 143);
}

#[test]
fn what_is_no_job_among_the_jobs_is_passed_over() {
    let job = Job::new();
    job.write(".jobs/file", "");
    job.write(".jobs/empty/x", "");
    job.write(".jobs/damaged/state.json", "nonsense");
    std::fs::create_dir(job.folder().join(".jobs/pipe")).unwrap();
    let pipe = job.folder().join(".jobs/pipe/state.json");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/nonexistent", job.folder().join(".jobs/link")).unwrap();
    let listed = job.run(job.paddle(&["jobs", "-o", "json"]));
    assert_eq!((listed.code, listed.stdout.as_str()), (0, "[]\n"), "{listed:?}");
    for name in ["damaged", "pipe"] {
        assert!(listed.stderr.contains(&format!("{name}/state.json")), "{listed:?}");
    }
    assert_eq!(job.run(job.paddle(&["attach", "damaged"])).code, 1);
}

#[test]
fn a_bad_name_is_told_by_its_field() {
    let job = Job::new();
    for name in ["a b", "../x", "", "ü", &"x".repeat(300)] {
        let ended = job.run(job.launch(&["--name", name], "true"));
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.stderr.contains("field: name"), "{ended:?}");
    }
}

#[test]
fn jobs_are_kept_under_any_name() {
    let job = Job::new();
    let mut launch = job.launch(&[], "echo hello");
    launch.env("PADDLE_JOBS_DIR", job.folder().join("jöbs with 'blanks'"));
    let ended = job.run_to_the_end(launch);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "trainer-0 | hello\n"), "{ended:?}");
}

/// The job goes on, and somebody who asked for its output in a file hears that it is not all there.
#[test]
fn output_that_cannot_be_shown_is_told() {
    let job = Job::new();
    let mut launch = job.launch(&[], "echo hello");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = launch.stdin(Stdio::null()).stdout(full).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("no more of the output is shown, the job goes on: No space"), "{said}");
    assert_eq!(job.read("log/trainer-0.log"), "hello\n");
}

#[test]
fn a_variable_that_is_no_text_is_not_dropped_in_silence() {
    use std::os::unix::ffi::OsStrExt;
    let job = Job::new();
    let mut launch = job.launch(&[], "echo [$ODD] $PLAIN");
    launch.env("ODD", std::ffi::OsStr::from_bytes(b"caf\xe9")).env("PLAIN", "caf\u{e9}");
    let ended = job.run_to_the_end(launch);
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "trainer-0 | [] caf\u{e9}\n"), "{ended:?}");
    assert!(ended.stderr.contains("do not inherit ODD: it is not UTF-8"), "{ended:?}");
}

/// How a job ended is worth more than what is kept of its output.
#[test]
fn a_full_disk_does_not_change_how_a_job_ends() {
    let private = ["-m", "--propagation", "private"];
    let is_permitted = Command::new("unshare").args(private).arg("true").status();
    if !is_permitted.is_ok_and(|status| status.success()) {
        let _: Option<()> = component::missing("sandbox", "a mount namespace is not permitted");
        return;
    }
    let job = Job::new();
    job.write(".jobs/keep", "");
    let launch = job.launch(&["--quiet"], "seq 200000; exit 5");
    let small = "mount -t tmpfs -o size=400k none \"$PADDLE_JOBS_DIR\" && exec \"$@\"";
    let mut command = job.command("unshare", &private);
    command.args(["sh", "-c", small, "sh"]).arg(launch.get_program()).args(launch.get_args());
    let ended = job.run_to_the_end(command);
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(ended.stderr.contains("exited with code 5"), "{ended:?}");
}
