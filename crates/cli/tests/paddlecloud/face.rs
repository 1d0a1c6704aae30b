//! What the command says without any server: help, wrong calls, mistakes in the configuration.

use super::cloud::Home;

/// Exit code, standard output and standard error of each call, in the home directory.
fn transcript(home: &Home, calls: &[&[&str]]) -> String {
    let place = home.path().to_str().unwrap();
    let call = |args: &&[&str]| {
        let ended = home.run(args);
        let text = format!("{}{}", ended.stdout, ended.stderr).replace(place, "HOME");
        let text: String = text.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        format!("$ paddlecloud {}\n{text}[exit {}]\n", args.join(" "), ended.code)
    };
    calls.iter().map(call).collect()
}

#[test]
fn the_bare_command_prints_the_list_and_fails() {
    insta::assert_snapshot!(transcript(
        &Home::new(),
        &[&[], &["help"], &["-h"], &["commands"], &["flags"]]
    ));
}

#[test]
fn every_help_page_is_complete() {
    let home = Home::new();
    let names = home.run(&["commands"]).fine();
    // The server's page is its own.
    let names = names.lines().filter(|name| *name != "serve");
    let pages: String = names.map(|name| transcript(&home, &[&["help", name]])).collect();
    let pages =
        pages + &transcript(&home, &[&["help", "user", "quota"], &["dataset", "put", "-h"]]);
    insta::assert_snapshot!(pages);
}

#[test]
fn wrong_calls_exit_2_and_say_what_is_right() {
    let home = Home::new();
    home.write("package/train.py", "");
    insta::assert_snapshot!(transcript(
        &home,
        &[
            &["sumbit"],
            &["frobnicate"],
            &["help", "frobnicate"],
            &["help", "user", "ad"],
            &["file", "put", "a", "b"],
            &["get"],
            &["get", "pods"],
            &["get", "workers"],
            &["get", "jobs", "ctr"],
            &["get", "jobs", "-o", "xml"],
            &["logs"],
            &["logs", "-n", "-1", "ctr"],
            &["kill", "-rn", "ctr"],
            &["user", "ad", "eve"],
            &["scale", "ctr"],
            &["submit"],
            &["submit", "-jobname", "a_b", "-entry", "x", "package"],
            &["submit", "-jobname", "ctr", "package"],
            &["submit", "-entry", "x", "-topology", "y", "package"],
            &["submit", "-entry", "x", "-parallelism", "0", "package"],
            &["submit", "-entry", "x", "-cpu", "-1", "package"],
            &["submit", "-entry", "x", "-memory", "1Qi", "package"],
            &["submit", "-entry", "x", "-gpu", "1.5", "package"],
            &["submit", "-entry", "x", "-env", "A", "package"],
            &["submit", "-entry", "x", "-env", "PADDLE_INIT_TRAINER_ID=3", "package"],
            &["submit", "-entry", "x", "-sync", "-async", "package"],
            &["submit", "-entry", "x", "-max_instance", "4", "package"],
            &["submit", "-entry", "x", "-faulttolerant", "-min_instance=2", "package"],
            &["submit", "-entry", "x", "-priority", "urgent", "package"],
            &["submit", "-entry", "x", "-time_limit", "soon", "package"],
            &["submit", "-entry", "x", "nowhere"],
            &["submit", "-entry", "x", "package/train.py"],
            &["submit", "-entry", "x", "package", "another"],
            &["submit", "-entry", "x", "package"],
        ]
    ));
}

#[test]
fn mistakes_in_the_configuration_are_told_with_their_line() {
    let home = Home::new();
    let mut all = transcript(&home, &[&["get", "jobs"]]);
    let good = "datacenters:\n- name: dc\n  username: wuyi\n  password: [secret]\n  endpoint: \
                http://127.0.0.1:1\ncurrent-datacenter: dc\n";
    for text in [
        good.to_owned(),
        good.replace("[secret]", "secret").replace("http://", ""),
        good.replace("[secret]", "secret")
            .replace("current-datacenter: dc", "current-datacenter: d"),
        good.replace("[secret]", "\"secret"),
        String::new(),
    ] {
        home.write(".paddle/config", &text);
        all += &transcript(&home, &[&["get", "jobs"]]);
    }
    all += &transcript(&home, &[&["-config", "other", "get", "jobs"]]);
    insta::assert_snapshot!(all);
}

#[test]
fn the_current_datacenter_can_be_changed() {
    let home = Home::new();
    home.configure(
        &[
            ("one", "wuyi", None, "http://127.0.0.1:1/"),
            ("two", "admin", None, "https://cloud.example.com/paddle"),
        ],
        "one",
    );
    insta::assert_snapshot!(transcript(
        &home,
        &[
            &["datacenter", "list"],
            &["datacenter", "use", "three"],
            &["datacenter", "use", "two"],
            &["datacenter", "list", "-o", "yaml"],
            &["get", "jobs"],
        ]
    ));
}

#[test]
fn a_server_that_is_down_is_told_so_after_some_attempts() {
    let home = Home::new();
    // Nothing listens on a port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    home.configure(&[("dc", "wuyi", Some("x"), &format!("http://127.0.0.1:{port}"))], "dc");
    let ended = home.run(&["get", "jobs"]);
    let stderr = ended.stderr.replace(&port.to_string(), "PORT");
    assert_eq!((ended.code, ended.stdout.as_str()), (1, ""));
    insta::assert_snapshot!(stderr);
}

#[test]
fn completions_know_every_verb() {
    let home = Home::new();
    let names = home.run(&["commands"]).fine();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["completions", shell]).fine();
        assert!(names.lines().all(|name| script.contains(name)), "{shell}");
    }
}
