//! `paddle_k8s` as a process, with the environment of a pod and without a cluster: what the
//! environment says is enough. With a cluster it is tried by `scripts/clusters/kubernetes.sh`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};

/// A pod's environment: nothing is inherited but the way to programs.
fn pod(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_paddle_k8s"));
    command
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    command
}

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    pod(arguments, variables).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A server that listens and says nothing.
fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    (listener, port)
}

#[test]
fn a_pod_of_volcano_knows_itself_and_the_servers_from_the_plugins() {
    let (_listener, port) = listener();
    let variables = [
        ("ENTRY", "env"),
        ("PADDLE_JOB_NAME", "ctr"),
        ("PADDLE_PORT", &port),
        ("PADDLE_TRAINERS_NUM", "2"),
        ("VC_TASK_INDEX", "1"),
        ("VC_PSERVER_HOSTS", "localhost,127.0.0.1"),
        ("VC_TRAINER_HOSTS", "ctr-trainer-0.ctr,ctr-trainer-1.ctr"),
    ];
    for arguments in [&["start_trainer", "v2"][..], &["start_fluid"]] {
        let output = run(arguments, &variables);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let told = text(&output.stdout);
        let list = format!("PADDLE_PSERVERS_IP_PORT_LIST=localhost:{port},127.0.0.1:{port}");
        for line in [
            "PADDLE_INIT_TRAINER_ID=1",
            "PADDLE_TRAINER_ID=1",
            "PADDLE_INIT_PSERVERS=localhost,127.0.0.1",
            &list,
            "PADDLE_PSERVER_IPS=localhost,127.0.0.1",
            "PADDLE_TRAINER_IPS=ctr-trainer-0.ctr,ctr-trainer-1.ctr",
            "PADDLE_INIT_NUM_GRADIENT_SERVERS=2",
            "PADDLE_PSERVERS_NUM=2",
            "TRAINING_ROLE=TRAINER",
            "PADDLE_IS_LOCAL=0",
        ] {
            assert!(told.lines().any(|own| own == line), "{line} is not in\n{told}");
        }
    }
}

#[test]
fn a_pod_of_an_indexed_job_has_its_index_as_rank() {
    let variables = [
        ("ENTRY", "echo $PADDLE_INIT_TRAINER_ID of $TRAINERS"),
        ("TRAINERS", "3"),
        ("JOB_COMPLETION_INDEX", "2"),
    ];
    let output = run(&["start_trainer", "v2"], &variables);
    assert_eq!(text(&output.stdout), "2 of 3\n", "{}", text(&output.stderr));
}

#[test]
fn servers_that_do_not_listen_are_named_when_the_time_is_over() {
    let (listener, port) = listener();
    drop(listener);
    let variables = [
        ("ENTRY", "echo trained"),
        ("PADDLE_TRAINER_ID", "0"),
        ("PADDLE_INIT_PORT", &port),
        ("PADDLE_INIT_PSERVERS", "127.0.0.1,no-such-host.invalid"),
    ];
    let output = run(&["start_trainer", "v2", "--wait", "1"], &variables);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""));
    let told = text(&output.stderr);
    assert!(told.contains("pserver-0 does not listen"), "{told}");
    assert!(told.contains(&format!("endpoint: 127.0.0.1:{port}")), "{told}");
    assert!(told.contains("refused"), "{told}");
}

/// Names resolve a while after pods run: a trainer that comes first waits.
#[test]
fn a_trainer_waits_for_a_server_that_comes_later() {
    // An address of its own: ports of the usual one are taken by others meanwhile.
    let address = TcpListener::bind("127.0.0.77:0").unwrap().local_addr().unwrap().to_string();
    let variables = [
        ("ENTRY", "echo trained"),
        ("PADDLE_TRAINER_ID", "0"),
        ("PADDLE_INIT_PSERVERS", address.as_str()),
    ];
    let child = pod(&["start_trainer", "v2"], &variables).stdout(Stdio::piped()).spawn().unwrap();
    let listener = TcpListener::bind(&address).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "trained\n");
    drop(listener);
}

#[test]
fn the_exit_code_is_the_programs_own_and_its_reason_is_told() {
    let check = |entry: &str, code: i32, words: &str| {
        let output = run(&["start_trainer", "v2"], &[("ENTRY", entry), ("PADDLE_TRAINER_ID", "0")]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    };
    check("exit 0", 0, "finished");
    check("exit 42", 42, "exit code 42");
    check("kill -KILL $$", 137, "out of memory");
    check("kill -FPE $$", 136, "floating-point trap");
    check("no-such-command", 127, "was not found");
}

/// A process of a failed attempt would hold ports and memory, and push on.
#[test]
fn what_a_failed_attempt_left_behind_is_ended_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("left");
    let left = left.to_str().unwrap();
    let entry = "if [ $PADDLE_ATTEMPT = 0 ]; then sleep 1000 >/dev/null 2>&1 & echo $! >$LEFT; exit 3; fi; \
                 if [ -e /proc/$(cat $LEFT) ]; then echo alive; else echo gone; fi";
    let variables = [("ENTRY", entry), ("LEFT", left), ("PADDLE_TRAINER_ID", "0")];
    let output = run(&["start_trainer", "v2", "--restarts=1"], &variables);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "gone\n");
}

/// As the kubelet ends a pod: everything that the program has started hears it.
#[test]
fn a_signal_reaches_the_program_behind_its_shell() {
    // It ends later than the shell before it, which has no trap.
    let entry = "sh -c 'trap \"sleep 0.2; echo told; exit 7\" TERM; echo started; sleep 1000 & \
                 wait'; exit $?";
    let variables = [("ENTRY", entry), ("PADDLE_TRAINER_ID", "0")];
    let mut child =
        pod(&["start_trainer", "v2"], &variables).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "started");
    signal(&child, "TERM");
    assert_eq!(lines.next().unwrap().unwrap(), "told");
    let code = child.wait().unwrap().code();
    assert!(matches!(code, Some(7 | 143)), "{code:?}");
}

#[test]
fn a_pod_that_still_waits_ends_on_request() {
    let variables = [
        ("ENTRY", "true"),
        ("PADDLE_TRAINER_ID", "0"),
        ("PADDLE_INIT_PSERVERS", "no-such-host.invalid"),
    ];
    let mut child = pod(&["start_trainer", "v2"], &variables).spawn().unwrap();
    // It listens for signals before it does anything else; one that comes too early is fatal too.
    signal(&child, "TERM");
    let status = child.wait().unwrap();
    assert!(!status.success(), "{status:?}");
}

#[test]
fn what_the_program_prints_is_also_in_the_folder_for_logs() {
    let folder = tempfile::tempdir().unwrap();
    let logs = folder.path().join("of/the/job");
    let variables = [
        ("ENTRY", "echo one; echo two >&2; echo figures > $PADDLE_LOG_DIR/metrics.jsonl; exit 3"),
        ("PADDLE_TRAINER_ID", "1"),
        ("TRAINERS", "2"),
        ("PADDLE_LOG_DIR", logs.to_str().unwrap()),
    ];
    for times in 1..=2 {
        let output = run(&["start_trainer", "v2"], &variables);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "one\ntwo\n".into()));
        let kept = std::fs::read_to_string(logs.join("trainer-1.log")).unwrap();
        assert_eq!(kept, "one\ntwo\n".repeat(times), "a restarted pod keeps what was there");
    }
    // Pods share the folder, and each program has one of its own in it.
    assert_eq!(std::fs::read_to_string(logs.join("trainer-1/metrics.jsonl")).unwrap(), "figures\n");
}

/// The trainer's lines of the list are where its configuration finds `/train.list` if the root is not
/// to be written, and nobody else's are.
#[test]
fn a_v1_trainer_has_its_own_part_of_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("all.list"), "a\nb\n\nc\nd\ne\n").unwrap();
    let (list, logs) = (path("all.list"), path("log"));
    let variables = |rank: &'static str, trainers: &'static str| {
        vec![
            ("TOPOLOGY", "no-such-configuration.py"),
            ("PADDLE_TRAINER_ID", rank),
            ("TRAINERS", trainers),
            ("TRAIN_LIST", &list),
        ]
    };
    for (rank, own) in [("0", "a\nc\ne\n"), ("1", "b\nd\n")] {
        let told = [&variables(rank, "2")[..], &[("PADDLE_LOG_DIR", &logs)]].concat();
        // What it trains is not there, which it says after all this.
        let output = run(&["start_trainer", "v1"], &told);
        assert!(!output.status.success());
        let kept = std::fs::read_to_string(path(&format!("log/trainer-{rank}/train.list")));
        assert_eq!(kept.unwrap(), own, "{}", text(&output.stderr));
    }
    let check = |variables: &[(&str, &str)], words: &str| {
        let output = run(&["start_trainer", "v1"], variables);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    };
    check(&variables("0", "2"), "set PADDLE_LOG_DIR");
    check(&variables("0", "6"), "fewer files than trainers");
}

/// A trainer of a fault-tolerant job has no work but from the master.
#[test]
fn a_new_trainer_waits_for_the_master() {
    let (_listener, port) = listener();
    let master = format!("127.0.0.1:{port}");
    let entry = [("ENTRY", "echo asks $PADDLE_MASTER_ENDPOINT"), ("PADDLE_TRAINER_ID", "0")];
    let told = [&entry[..], &[("PADDLE_MASTER_ENDPOINT", &master)]].concat();
    let output = run(&["start_new_trainer"], &told);
    assert_eq!(text(&output.stdout), format!("asks {master}\n"), "{}", text(&output.stderr));
    let alone = [&entry[..], &[("PADDLE_JOB_NAME", "ctr")]].concat();
    let output = run(&["start_new_trainer"], &alone);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("the API server cannot be asked"));
    // Others may well have none.
    assert!(run(&["start_trainer", "v2"], &alone).status.success());
}

#[test]
fn a_server_finds_its_place_among_the_servers_by_its_name() {
    let variables = [
        ("PADDLE_INIT_PSERVERS", "ctr-pserver-0.ctr,ctr-pserver-1.ctr"),
        ("POD_NAME", "ctr-pserver-1"),
        ("PADDLE_INIT_PORT", "0"),
    ];
    let mut child = pod(&["start_pserver"], &variables)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.next().unwrap().unwrap();
    assert!(ready.contains("\"role\":\"pserver\"") && ready.contains("\"rank\":1"), "{ready}");
    signal(&child, "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

/// It ends in order, and its job is not over: the cluster must not take that for success.
#[test]
fn a_server_that_a_signal_ended_has_failed() {
    for (verb, reaches_pod) in
        [("start_pserver", true), ("start_pserver", false), ("start_master", true)]
    {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("data"), "line\n").unwrap();
        let data = format!("--dataset={}/data", folder.path().display());
        let arguments: &[&str] = match verb {
            "start_master" => &[verb, "--", "--port=0", &data],
            _ => &[verb],
        };
        let variables = [
            ("PADDLE_INIT_PSERVERS", "localhost"),
            ("POD_NAME", "localhost"),
            ("PADDLE_PORT", "0"),
        ];
        let mut child = pod(arguments, &variables)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.next().unwrap().unwrap();
        assert!(ready.contains("paddle_ready"), "{ready}");
        let pid = child.id();
        let children = format!("/proc/{pid}/task/{pid}/children");
        let server = std::fs::read_to_string(children).unwrap().trim().to_owned();
        let target = if reaches_pod { pid.to_string() } else { server };
        assert!(Command::new("kill").args(["-TERM", &target]).status().unwrap().success());
        let told = text(
            &child
                .wait_with_output()
                .map(|output| {
                    assert_eq!(output.status.code(), Some(if reaches_pod { 143 } else { 1 }));
                    output.stderr
                })
                .unwrap(),
        );
        assert!(told.contains("a signal ended it before the job was over"), "{told}");
    }
}

/// Without a shell, which would add words of its own.
#[test]
fn a_program_in_place_of_the_entry_is_run_as_it_is() {
    let run_program = |words: &[&str]| {
        let arguments = [&["start_trainer", "v2", "--"], words].concat();
        let output = run(&arguments, &[("PADDLE_TRAINER_ID", "0"), ("ENTRY", "exit 9")]);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(run_program(&["echo", "a b", "$HOME"]).1, "a b $HOME\n");
    let (code, _, told) = run_program(&["sh", "-c", "kill -KILL $$"]);
    assert_eq!((code, told.contains("Killed")), (Some(137), false), "{told}");
    let (code, _, told) = run_program(&["no-such-command"]);
    assert_eq!(code, Some(127), "{told}");
    assert!(told.contains("there is no such command in PATH"), "{told}");
}

#[test]
fn what_is_missing_is_named_before_anything_is_waited_for() {
    let check = |arguments: &[&str], variables: &[(&str, &str)], words: &str| {
        let output = run(arguments, variables);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    };
    check(&["start_trainer", "v2"], &[], "ENTRY is not set");
    check(&["start_trainer", "v1"], &[], "TOPOLOGY is not set");
    check(&["start_trainer", "v3"], &[], "possible values: v1, v2");
    let package = [("ENTRY", "true"), ("TRAINER_PACKAGE", "/none")];
    check(&["start_trainer", "v2"], &package, "TRAINER_PACKAGE: /none");
    // Nobody says which rank it is, and there is no cluster to ask.
    let alone = [("ENTRY", "true"), ("PADDLE_JOB_NAME", "ctr")];
    check(&["start_fluid"], &alone, "the API server cannot be asked");
    check(&["start_fluid"], &alone, "service account must be allowed to get and list pods");
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}
