//! Logs that are followed while servers come and go.

use super::cloud::{Cloud, Ended, Home, wait_until};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// Prints a line whenever a file is there, until there is an end.
const PACED: &str = "echo begun
for step in $(seq 1000); do
  echo step $step
  while [ ! -e go-$step ] && [ ! -e end ]; do sleep 0.05; done
  if [ -e end ]; then echo over; exit 0; fi
done
";

fn follow(home: &Home, args: &[&str]) -> Child {
    let mut command = home.command(args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Where the package of a job is, for a test to put files there.
fn place(home: &Home, cloud: &Cloud, job: &str) -> std::path::PathBuf {
    let path = home.json(&["describe", job, "-o", "json"])["spec"]["package"].clone();
    cloud.local_path(path.as_str().unwrap())
}

#[test]
fn a_follower_goes_on_when_the_server_was_killed() {
    let mut cloud = Cloud::start();
    let home = cloud.user("wuyi");
    home.submit("paced", PACED, &[]).fine();
    let folder = place(&home, &cloud, "paced");
    let mut child = follow(&home, &["logs", "-f", "-w", "trainer-0", "paced"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "step 1"));
    cloud.kill();
    // Printed while nobody serves.
    std::fs::write(folder.join("go-1"), "").unwrap();
    std::fs::write(folder.join("go-2"), "").unwrap();
    cloud.restart();
    assert_eq!(lines.next().as_deref(), Some("step 2"));
    assert_eq!(lines.next().as_deref(), Some("step 3"));
    std::fs::write(folder.join("end"), "").unwrap();
    assert_eq!(lines.next().as_deref(), Some("over"));
    assert_eq!(lines.next(), None);
    drop(lines);
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("the server is back"), "{}", ended.stderr);
    assert_eq!(home.run(&["wait", "paced"]).fine(), "paced: succeeded\n");
}

#[test]
fn everything_is_followed_once_and_to_the_end() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    let script = "for line in $(seq 5000); do echo line $line; done\nprintf unfinished\n";
    let ended = home.submit("chatty", script, &["-parallelism", "2", "-follow"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for worker in ["chatty-trainer-0", "chatty-trainer-1"] {
        let own = format!("{worker} | ");
        let lines: Vec<&str> =
            ended.stdout.lines().filter_map(|line| line.strip_prefix(&own)).collect();
        let counted = lines.iter().filter(|line| line.starts_with("line ")).count();
        assert_eq!(counted, 5000, "{worker}");
        assert_eq!(lines.last(), Some(&"unfinished"));
    }
    let whole = home.run(&["logs", "-all", "-w", "trainer-1", "chatty"]).fine();
    assert!(whole.ends_with("line 5000\nunfinished"), "{}", &whole[whole.len() - 100..]);
    assert_eq!(whole.matches("line ").count(), 5000);
    let tail = home.run(&["logs", "-n", "3", "-w", "trainer-1", "chatty"]).fine();
    assert_eq!(tail, "line 4999\nline 5000\nunfinished");
}

#[test]
fn waiting_survives_a_restart_of_the_server() {
    let mut cloud = Cloud::start();
    let home = cloud.user("wuyi");
    home.submit("paced", PACED, &[]).fine();
    let folder = place(&home, &cloud, "paced");
    wait_until("it runs", || home.state("paced") == "running");
    let child = follow(&home, &["wait", "paced"]);
    cloud.kill();
    std::fs::write(folder.join("end"), "").unwrap();
    cloud.restart();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "paced: succeeded\n"), "{}", ended.stderr);
}
