//! What a submit sends.

use super::cloud::Cloud;

#[test]
fn only_what_changed_is_sent() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    home.write("package/lib/words.txt", &"word\n".repeat(1000));
    home.write("package/.git/HEAD", "x");
    home.write("package/__pycache__/x.pyc", "x");
    let sent = |job: &str, script: &str| {
        let ended = home.submit(job, script, &["-wait"]);
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.stderr.lines().next().unwrap().to_owned()
    };
    let script = "ls -a; wc -l lib/words.txt\n";
    assert_eq!(sent("one", script), "sent 2 of 2 files (4.91 KiB)");
    assert_eq!(sent("two", script), "sent 0 of 2 files (0 B)");
    assert_eq!(sent("three", "true\n"), "sent 1 of 2 files (5 B)");
    let log = home.run(&["logs", "one", "-w", "trainer-0", "-all"]).fine();
    assert!(log.contains("1000 lib/words.txt") && !log.contains(".git"), "{log}");
}

#[test]
fn a_path_of_the_cloud_is_used_as_it_is() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    home.submit("one", "echo from one\n", &["-wait"]).fine();
    let path = home.json(&["describe", "one", "-o", "json"])["spec"]["package"].clone();
    let path = path.as_str().unwrap();
    assert!(path.starts_with("/pfs/"), "{path}");
    let args = ["submit", "-jobname", "two", "-entry", "sh run.sh", path, "-follow"];
    let ended = home.run(&args);
    assert!(ended.stdout.contains("two-trainer-0 | from one\n"), "{ended:?}");
    assert!(!ended.stderr.contains("sent"), "{}", ended.stderr);
    // The datacenter may be called as the configuration calls it.
    let called = path.replacen("/pfs/local/", "/pfs/dc/", 1);
    assert_ne!(called, path);
    let args = ["submit", "-jobname", "three", "-entry", "sh run.sh", &called, "-follow"];
    let ended = home.run(&args);
    assert!(ended.stdout.contains("three-trainer-0 | from one\n"), "{ended:?}");
    let missing = home.run(&["submit", "-jobname", "x", "-entry", "x", &format!("{path}-not")]);
    assert_eq!(missing.code, 1, "{missing:?}");
    let foreign = home.run(&["submit", "-jobname", "x", "-entry", "x", "/pfs/local/home/eve/x"]);
    assert_ne!(foreign.code, 0, "{foreign:?}");
}

#[test]
fn many_files_are_sent_at_once() {
    let cloud = Cloud::start();
    let home = cloud.user("wuyi");
    for number in 0..200 {
        home.write(&format!("package/part-{number:03}"), &number.to_string());
    }
    home.write("package/large", &"x".repeat(3 << 20));
    let ended = home.submit("many", "cat part-* | cksum; cat large | wc -c\n", &["-wait"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.starts_with("sent 202 of 202 files"), "{}", ended.stderr);
    let log = home.run(&["logs", "many", "-w", "trainer-0"]).fine();
    assert!(log.contains("3145728\n"), "{log}");
}

#[test]
fn administrators_fill_public_data_sets_that_jobs_read() {
    let cloud = Cloud::start();
    let (admin, home) = (cloud.admin(), cloud.user("wuyi"));
    admin.write("words/train-00000.pickle", "first\n");
    admin.write("words/train-00001.pickle", "second\n");
    let put = ["dataset", "put", "my_words", "words"];
    let done = admin.run(&put).fine();
    assert!(done.ends_with("/public/dataset/my_words: 2 files\n"), "{done}");
    home.write("words/x", "");
    let forbidden = home.run(&put);
    assert_eq!(forbidden.code, 1, "{forbidden:?}");
    let script = "cat /pfs/$PADDLE_CLOUD_CURRENT_DATACENTER/public/dataset/my_words/train-*\n";
    let ended = home.submit("reader", script, &["-follow"]);
    // Where the kernel does not let jobs be kept apart there is no /pfs, and a note says so.
    let detail = home.json(&["describe", "reader", "-o", "json"]);
    match detail["notes"].to_string().contains("not kept apart") {
        true => assert_eq!(ended.code, 1, "{ended:?}"),
        false => assert!(ended.stdout.contains("reader-trainer-0 | second\n"), "{ended:?}"),
    }
    for name in ["../eve", "a/b", ""] {
        assert_ne!(admin.run(&["dataset", "put", name, "words"]).code, 0, "{name}");
    }
}
