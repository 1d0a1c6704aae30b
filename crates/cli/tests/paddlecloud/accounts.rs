//! Who somebody is: passwords, tokens, datacenters.

use super::cloud::{Cloud, Home, PASSWORD};

#[test]
fn the_first_login_writes_the_configuration() {
    let cloud = Cloud::start();
    cloud.user("wuyi@example.com");
    let home = Home::new();
    let endpoint = cloud.endpoint() + "/";
    let args = ["login", "-endpoint", &endpoint, "-username", "wuyi@example.com"];
    let wrong = home.run_with(&args, "nonsense\n");
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert!(!home.config().exists());
    home.run_with(&args, PASSWORD).fine();
    assert!(!std::fs::read_to_string(home.config()).unwrap().contains(PASSWORD));
    home.run(&["get", "jobs"]).fine();
    home.run_with(&args, PASSWORD).fine();
    let other = ["login", "-endpoint", &endpoint, "-username", "eve@example.com"];
    let other = home.run_with(&other, PASSWORD);
    assert_eq!(other.code, 1);
    assert!(other.stderr.contains("there is a configuration already"), "{}", other.stderr);
    assert_eq!(home.run(&["logout"]).fine(), "logged out\n");
    assert_eq!(home.run(&["logout"]).fine(), "nobody was logged in\n");
    let out = home.run(&["get", "jobs"]);
    assert_eq!(out.code, 1);
    assert!(out.stderr.contains("use `paddlecloud login`"), "{}", out.stderr);
    home.run_with(&["login"], PASSWORD).fine();
    home.run(&["get", "jobs"]).fine();
}

#[test]
fn a_wrong_password_is_refused_although_a_login_is_kept() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    home.run(&["get", "jobs"]).fine();
    home.configure(&[("dc", "wuyi", Some("wrong"), &cloud.endpoint())], "dc");
    let ended = home.run(&["get", "jobs"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.stderr.contains("password"), "{}", ended.stderr);
}

#[test]
fn a_change_of_user_is_a_change_of_user() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    drop(cloud.user("eve"));
    let whoami = |home: &Home| home.json(&["get", "quota", "-o", "json"])["user"].clone();
    assert_eq!(whoami(&home), "wuyi");
    home.configure(&[("dc", "eve", Some(PASSWORD), &cloud.endpoint())], "dc");
    assert_eq!(whoami(&home), "eve");
    home.configure(&[("dc", "wuyi", Some(PASSWORD), &cloud.endpoint())], "dc");
    assert_eq!(whoami(&home), "wuyi");
}

#[test]
fn a_token_that_the_server_does_not_know_is_renewed_by_itself() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    home.run(&["get", "jobs"]).fine();
    let tokens = || {
        let files = std::fs::read_dir(home.path().join(".paddle/tokens")).unwrap();
        files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect::<Vec<_>>()
    };
    let before = tokens();
    // The same user and password in another database.
    let cloud = Cloud::start_instead_of(cloud);
    drop(cloud.user("wuyi"));
    home.run(&["get", "jobs"]).fine();
    let after = tokens();
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_ne!(before, after);
    // Without a password it cannot be renewed, and that is told.
    home.configure(&[("dc", "wuyi", None, &cloud.endpoint())], "dc");
    home.run_with(&["login"], PASSWORD).fine();
    let cloud = Cloud::start_instead_of(cloud);
    let ended = home.run(&["get", "jobs"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("use `paddlecloud login`"), "{}", ended.stderr);
    drop(cloud);
}

#[test]
fn scripts_use_tokens() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    let token = home.run(&["token", "create", "ci", "-ttl", "1h"]).fine();
    let script = Home::new();
    script.configure(&[("dc", "", None, &cloud.endpoint())], "dc");
    let quota = |token: &str| {
        let mut command = script.command(&["get", "quota", "-o", "json"]);
        command.env("PADDLECLOUD_TOKEN", token);
        super::cloud::ended(command, "")
    };
    assert!(quota(token.trim()).fine().contains("\"wuyi\""));
    // Nothing of it is kept.
    assert!(!script.path().join(".paddle/tokens").exists());
    let listed = home.json(&["token", "list", "-o", "json"]);
    let rows = listed.as_array().unwrap();
    let row = rows.iter().find(|row| row["label"] == "ci").unwrap();
    home.run(&["token", "delete", row["id"].as_str().unwrap()]).fine();
    let ended = quota(token.trim());
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("the given token is not valid"), "{}", ended.stderr);
    assert_eq!(quota("no token").code, 2);
}

#[test]
fn one_configuration_has_two_datacenters() {
    let (one, two) = (Cloud::start(), Cloud::start());
    let home = one.user("wuyi");
    drop(two.user("eve"));
    home.configure(
        &[
            ("one", "wuyi", Some(PASSWORD), &one.endpoint()),
            ("two", "eve", Some(PASSWORD), &two.endpoint()),
        ],
        "one",
    );
    let user = |flags: &[&str]| {
        let args = [flags, &["get", "quota", "-o", "json"]].concat();
        home.json(&args)["user"].as_str().unwrap().to_owned()
    };
    assert_eq!(user(&[]), "wuyi");
    assert_eq!(user(&["-datacenter", "two"]), "eve");
    assert_eq!(user(&["--datacenter=one"]), "wuyi");
    home.run(&["datacenter", "use", "two"]).fine();
    assert_eq!(user(&[]), "eve");
    let ended = home.run(&["get", "jobs", "-datacenter", "three"]);
    assert_eq!(ended.code, 1);
    assert!(ended.stderr.contains("there_are: one, two"), "{}", ended.stderr);
}

#[test]
fn administrators_manage_users() {
    let cloud = Cloud::start();
    let (admin, home) = (cloud.admin(), cloud.user("wuyi"));
    let forbidden = home.run(&["user", "list"]);
    assert_eq!(forbidden.code, 1, "{forbidden:?}");
    assert_eq!(admin.run_with(&["user", "add", "wuyi"], PASSWORD).code, 1);
    assert_eq!(admin.run_with(&["user", "add", "../eve"], PASSWORD).code, 2);
    assert_eq!(admin.run_with(&["user", "add", "eve"], "\n").code, 2);
    admin.run(&["user", "disable", "wuyi"]).fine();
    assert_eq!(home.run(&["get", "jobs"]).code, 1);
    admin.run(&["user", "enable", "wuyi"]).fine();
    home.run(&["get", "jobs"]).fine();
    let changed = home.run_with(&["user", "passwd"], &format!("{PASSWORD}\nanother password\n"));
    changed.fine();
    assert_eq!(home.run(&["get", "jobs"]).code, 1);
    home.configure(&[("dc", "wuyi", Some("another password"), &cloud.endpoint())], "dc");
    home.run(&["get", "jobs"]).fine();
    admin.run(&["user", "quota", "wuyi", "-cpu", "2", "-jobs=3"]).fine();
    let quota = home.run(&["get", "quota"]).fine();
    assert!(quota.contains("CPU             2          0\n"), "{quota}");
}

#[test]
fn a_limit_that_is_not_named_stays_as_it_is() {
    let cloud = Cloud::start();
    let (admin, home) = (cloud.admin(), cloud.user("wuyi"));
    let limits = || home.json(&["get", "quota", "-o", "json"])["limits"].clone();
    let default = limits();
    admin.run(&["user", "quota", "wuyi", "-cpu", "2", "-jobs=3"]).fine();
    admin.run(&["user", "quota", "wuyi", "-disk", "1Mi", "-jobs", "4"]).fine();
    let changed = limits();
    assert_eq!((&changed["cpu"], &changed["disk"]), (&"2".into(), &"1Mi".into()), "{changed}");
    assert_eq!(changed["jobs"], 4, "{changed}");
    let nothing = admin.run(&["user", "quota", "wuyi"]);
    assert_eq!(nothing.code, 2, "{nothing:?}");
    assert!(nothing.stderr.contains("name at least one limit"), "{}", nothing.stderr);
    assert_eq!(admin.run(&["user", "quota", "wuyi", "-reset", "-cpu", "1"]).code, 2);
    assert_eq!(limits(), changed);
    admin.run(&["user", "quota", "wuyi", "-reset"]).fine();
    assert_eq!(limits(), default);
}
