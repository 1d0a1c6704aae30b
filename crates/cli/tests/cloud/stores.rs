//! A cloud whose files are in a real store: MinIO or HDFS, which `make test-clusters` starts.

use super::component;
use super::mounting::{Mounted, has_fuse};
use super::person::{Person, login, noise, tree};
use super::server::Server;
use super::transfers::{self, steady, upload_of};
use contract::api::path::encode;
use contract::state::JobState;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Every story on every store.
macro_rules! stories {
    ($($store:ident: $config:ident;)*) => {
        $(mod $store {
            use super::*;

            fn store() -> Option<String> {
                $config()
            }

            #[test]
            fn files_go_there_and_back_as_they_are() {
                if let Some(store) = store() {
                    there_and_back(&store);
                }
            }

            #[test]
            fn a_killed_client_goes_on_where_it_was() {
                if let Some(store) = store() {
                    killed_client(&store);
                }
            }

            #[test]
            fn a_killed_server_and_a_rotten_part_delay_a_transfer_and_no_more() {
                if let Some(store) = store() {
                    killed_server(&store);
                }
            }

            #[test]
            fn nobody_sees_half_a_file_a_gap_or_a_mix_of_two_writers() {
                if let Some(store) = store() {
                    two_writers(&store);
                }
            }

            #[test]
            fn sync_changed_chunks_links_and_quotas_work() {
                if let Some(store) = store() {
                    everyday(&store);
                }
            }

            #[test]
            fn the_originals_calls_work() {
                if let Some(store) = store() {
                    original(&store);
                }
            }

            #[test]
            fn a_mounted_directory_is_like_any_other() {
                if let Some(store) = store() {
                    mounted(&store);
                }
            }

            #[test]
            fn jobs_see_the_files_by_a_mount() {
                if let Some(store) = store() {
                    jobs(&store);
                }
            }

            #[test]
            fn a_job_that_would_see_no_files_is_refused_by_name() {
                if let Some(store) = store() {
                    files_only(&store);
                }
            }
        })*
    };
}

stories! {
    minio: s3;
    hdfs: hdfs_url;
}

/// The URL of a server; `None`, with a word about it, where it does not run.
fn server_of(name: &str, variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    url.or_else(|| component::missing(name, "`make test-clusters` starts it"))
}

fn s3() -> Option<String> {
    let url = server_of("minio", "PADDLE_TEST_S3")?;
    Some(s3_with(&url, "paddle", "secret_access_key: testsecret"))
}

fn s3_with(endpoint: &str, bucket: &str, secret: &str) -> String {
    format!(
        "{{name: local, files: 's3://{bucket}/e2e', store: {{endpoint: '{endpoint}', \
         access_key_id: testkey, {secret}}}}}"
    )
}

fn hdfs_url() -> Option<String> {
    let url = server_of("hdfs", "PADDLE_TEST_HDFS")?;
    Some(format!("{{name: local, files: '{url}', store: {{user: paddle}}}}"))
}

fn serve(datacenter: &str) -> Server {
    serve_with(datacenter, "")
}

fn serve_with(datacenter: &str, more: &str) -> Server {
    steady(&format!("datacenters: [{datacenter}]\n{more}"))
}

/// Somebody whom no other test knows: all of them share the store.
fn somebody(server: &Server) -> Person {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Person::new(server, &format!("u{}", now.as_nanos()))
}

fn there_and_back(store: &str) {
    let server = serve(store);
    let wu = somebody(&server);
    wu.write("data/small.txt", "hello");
    wu.write("data/empty", "");
    wu.write("data/deep/er/one", noise(1, 1_500_000));
    wu.write("data/large", noise(2, 20_000_000));
    wu.write("data/odd names/é *[x]?", "odd");
    fs::create_dir_all(wu.work().join("data/nothing/here")).unwrap();
    let script = wu.write("data/run.sh", "#!/bin/sh\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o750)).unwrap();
    let old = UNIX_EPOCH + Duration::from_millis(1_400_000_000_250);
    fs::File::options().write(true).open(&script).unwrap().set_modified(old).unwrap();
    let said = wu.says(&["cp", "-r", "data", &wu.pfs("")]);
    said.ok();
    assert!(said.err.contains("Uploaded 6 files"), "{said:?}");
    wu.says(&["cp", "-r", &wu.pfs("data"), "back"]).ok();
    assert_eq!(tree(&wu.work().join("back")), tree(&wu.work().join("data")));
    let back = fs::metadata(wu.work().join("back/run.sh")).unwrap();
    assert_eq!((back.mode() & 0o777, back.modified().unwrap()), (0o750, old));
    // Nothing is left on the server's disk, neither of files nor of uploads.
    assert_eq!(upload_of(&server, &wu.name), None);
    let names: Vec<String> =
        tree(&server.data().join("files/local")).into_iter().map(|(name, _)| name).collect();
    assert!(names.iter().all(|name| name.starts_with("uploads/")), "{names:?}");

    let listed = wu.says(&["ls", "-r", &wu.pfs("data")]);
    let line = format!("2014-05-13 16:53:20 f {:>8} {}", 10, wu.pfs("data/run.sh"));
    assert!(listed.ok().lines().any(|one| one == line), "{listed:?}");
    assert_eq!(wu.says(&["cat", &wu.pfs("data/small.txt")]).ok(), "hello");
    let usage = wu.says(&["du", "-bytes", &wu.pfs("data")]);
    assert!(usage.ok().contains("21500018"), "{usage:?}");
    // Inside the cloud.
    wu.says(&["cp", &wu.pfs("data/*.txt"), &wu.pfs("copies/")]).ok();
    wu.says(&["mv", &wu.pfs("data"), &wu.pfs("moved")]).ok();
    assert_eq!(wu.says(&["file", "ls", &wu.pfs("")]).ok(), "copies\nmoved\n");
    wu.says(&["cp", "-r", &wu.pfs("moved"), "again"]).ok();
    assert_eq!(tree(&wu.work().join("again")), tree(&wu.work().join("data")));
    assert!(wu.says(&["mv", &wu.pfs("moved"), &wu.pfs("moved/in")]).failed(2).contains("itself"));
    assert!(wu.says(&["rm", &wu.pfs("moved")]).failed(2).contains("use -r"));
    wu.says(&["rm", "-r", &wu.pfs("*")]).ok();
    assert_eq!(wu.says(&["file", "ls", &wu.pfs("")]).ok(), "");
    let eve = somebody(&server);
    assert!(eve.says(&["ls", &wu.pfs("")]).failed(1).contains("another user's home"));
}

fn killed_client(store: &str) {
    let server = serve(store);
    transfers::killed_client(&server, &somebody(&server));
}

fn killed_server(store: &str) {
    let mut server = serve(store);
    let wu = somebody(&server);
    transfers::killed_server(&mut server, &wu);
}

fn two_writers(store: &str) {
    let server = serve(store);
    let wu = somebody(&server);
    let user = login(&server, &wu);
    let url = format!("/api/v2/files/content?path={}", encode(&wu.pfs("file")));
    transfers::two_writers(&wu, || {
        // A file that is replaced while it is sent breaks off; a gap would be a 404.
        let (status, seen) = user.try_get(&url)?;
        assert_eq!(status, 200, "a gap");
        Some(seen)
    });
}

fn everyday(store: &str) {
    let server = serve_with(store, "quota: {disk: 60Mi}\n");
    let wu = somebody(&server);
    for name in ["a", "b", "sub/c", "sub/d"] {
        wu.write(&format!("data/{name}"), name);
    }
    let to = wu.pfs("data");
    assert!(wu.says(&["sync", "data", &to]).err.contains("Uploaded 4 files"));
    assert!(wu.says(&["sync", "data", &to]).err.contains("Uploaded 0 files"));
    wu.write("data/a", "changed");
    fs::remove_dir_all(wu.work().join("data/sub")).unwrap();
    wu.says(&["sync", "--delete", "data", &to]).ok();
    assert_eq!(wu.says(&["file", "ls", &to]).ok(), "a\nb\n");
    let mut content = noise(3, 40 << 20);
    wu.write("model", &content);
    wu.says(&["cp", "model", &wu.pfs("model")]).ok();
    content[20 << 20] ^= 1;
    content.extend_from_slice(b"more");
    wu.write("model", &content);
    let said = wu.says(&["cp", "model", &wu.pfs("model")]);
    said.ok();
    assert!(said.err.contains("36.0 MiB were there already"), "{said:?}");
    wu.says(&["cp", &wu.pfs("model"), "back"]).ok();
    assert!(wu.read("back") == content);
    let url = wu.says(&["publish", &wu.pfs("model")]).ok().trim().to_owned();
    let part = ureq::get(&url).header("Range", "bytes=1000-1999").call().unwrap();
    assert_eq!(part.status(), 206);
    assert!(part.into_body().read_to_vec().unwrap() == content[1000..2000]);
    let refused = wu.says(&["cp", "model", &wu.pfs("second")]);
    assert!(refused.failed(1).contains("the disk quota would be exceeded"), "{refused:?}");
    let refused = wu.says(&["cp", &wu.pfs("model"), &wu.pfs("second")]);
    assert!(refused.failed(1).contains("the disk quota would be exceeded"), "{refused:?}");
    assert_eq!(wu.says(&["file", "ls", &wu.pfs("")]).ok(), "data\nmodel\n");
}

fn original(store: &str) {
    let server = serve(store);
    let person = somebody(&server);
    let wu = login(&server, &person);
    let files = "/api/v1/pfs/files";
    let path = person.pfs("dir/file");
    let ok = |answer: &super::user::Answer| {
        let body: Value = answer.read();
        assert_eq!(body["err"], "", "{body}");
        body["results"].clone()
    };
    ok(&wu.post(files, &json!({"method": "mkdir", "path": [person.pfs("dir")]})));
    ok(&wu.post(files, &json!({"method": "touch", "path": path, "filesize": 10_000})));
    let content = noise(1, 10_000);
    let boundary = "8d7b0e5709d756e21e971ff4d9ac3b20";
    for (index, chunk) in content.chunks(4096).enumerate() {
        let name = format!("chunksize=4096&offset={}&path={}", index * 4096, encode(&path));
        let mut body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"chunk\"; filename=\"{name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        )
        .into_bytes();
        body.extend_from_slice(chunk);
        body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        let form = format!("multipart/form-data; boundary={boundary}");
        ok(&wu.send_with("POST", "/api/v1/pfs/storage/chunks", ("Content-Type", &form), &body));
    }
    let query = format!("offset=8192&chunksize=4096&path={}", encode(&path));
    let meta = ok(&wu.get(&format!("/api/v1/pfs/chunks?method=GetChunkMeta&{query}")));
    assert_eq!(meta["len"], 1808);
    person.says(&["cp", &path, "back"]).ok();
    assert!(person.read("back") == content);
    let pattern = encode(&person.pfs("*"));
    let listed = ok(&wu.get(&format!("{files}?method=ls&r=true&arg={pattern}")));
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let large = json!({"method": "touch", "path": person.pfs("large"), "filesize": 1_u64 << 30});
    let refused: Value = wu.post(files, &large).read();
    assert!(refused["err"].as_str().unwrap().contains("use a newer client"), "{refused}");
    ok(&wu.post(files, &json!({"method": "rm", "r": true, "path": [person.pfs("d*")]})));
    assert_eq!(person.says(&["file", "ls", &person.pfs("")]).ok(), "");
}

fn mounted(store: &str) {
    if !has_fuse() {
        return;
    }
    let server = serve(store);
    let wu = somebody(&server);
    wu.write("data/small", "hello");
    wu.write("data/empty", "");
    wu.write("data/deep/large", noise(2, 20_000_000));
    let mounted = Mounted::foreground(&wu, &[]);
    let home = mounted.home(&wu);
    let status = Command::new("cp").arg("-r").arg(wu.work().join("data")).arg(&home).status();
    assert!(status.unwrap().success());
    assert_eq!(tree(&home.join("data")), tree(&wu.work().join("data")));
    wu.says(&["cp", "-r", &wu.pfs("data"), "back"]).ok();
    assert_eq!(tree(&wu.work().join("back")), tree(&wu.work().join("data")));
    // A part is changed, which nobody sees before the file is closed.
    let large = home.join("data/deep/large");
    let file = fs::File::options().write(true).open(&large).unwrap();
    file.write_all_at(b"changed", 5_000_000).unwrap();
    wu.says(&["cp", &wu.pfs("data/deep/large"), "before"]).ok();
    drop(file);
    wu.says(&["cp", &wu.pfs("data/deep/large"), "after"]).ok();
    let mut content = wu.read("data/deep/large");
    assert!(wu.read("before") == content, "seen before it was closed");
    content[5_000_000..5_000_007].copy_from_slice(b"changed");
    assert!(wu.read("after") == content);
    fs::rename(home.join("data/deep"), home.join("data/flat")).unwrap();
    assert!(fs::read(home.join("data/flat/large")).unwrap() == content);
    fs::remove_dir_all(home.join("data")).unwrap();
    assert_eq!(wu.says(&["file", "ls", &wu.pfs("")]).ok(), "");
}

/// A job reads and writes its home by a mount, twice: the second finds what the first left.
fn jobs(store: &str) {
    let mut server = serve(store);
    let places: Vec<Value> = server.admin().get("/api/v2/datacenters").read();
    if places[0]["notes"] != json!([]) {
        component::missing::<()>("sandbox", &places[0]["notes"].to_string());
        return;
    }
    let wu = somebody(&server);
    wu.write("data/part-0", noise(1, 3_000_000));
    wu.says(&["cp", "-r", "data", &wu.pfs("")]).ok();
    wu.write(
        "package/train.sh",
        format!(
            "set -e\nwc -c < {0}/part-0\nls {0}\nls out 2> /dev/null || echo first\n\
             mkdir -p out\n(echo model; date) > out/new\nmv out/new out/pass-00000\n\
             echo end >> {0}/log\necho x > /pfs/public/x || echo read only\n",
            wu.pfs("data")
        ),
    );
    let words = ["submit", "-jobname", "job", "-entry", "sh train.sh", "-wait", "package"];
    let listed = |names: &str| format!("3000000\n{names}read only\n");
    for names in ["part-0\nfirst\n", "log\npart-0\npass-00000\n"] {
        wu.says(&words).ok();
        let log = login(&server, &wu).log("job", "trainer-0");
        let log: String =
            log.split_inclusive('\n').filter(|line| !line.starts_with("train.sh: ")).collect();
        assert_eq!(log, listed(names));
    }
    assert_eq!(wu.says(&["cat", &wu.pfs("data/log")]).ok(), "end\nend\n");
    let model = wu.says(&["cat", &wu.pfs("jobs/job/out/pass-00000")]);
    assert!(model.ok().starts_with("model\n"), "{model:?}");
    // A program that is in the store already, while its server dies.
    wu.write("program/train.sh", "until [ -e go ]; do sleep 0.1; done; echo went\n");
    wu.says(&["cp", "-r", "program", &wu.pfs("")]).ok();
    let words = ["submit", "-jobname", "there", "-entry", "sh train.sh", &wu.pfs("program")];
    wu.says(&words).ok();
    let user = login(&server, &wu);
    user.wait_until("there", JobState::Running);
    server.kill();
    server.restart();
    wu.write("go", "");
    wu.says(&["cp", "go", &wu.pfs("program/go")]).ok();
    user.wait_until("there", JobState::Succeeded);
    assert_eq!(user.log("there", "trainer-0"), "went\n");
    let none = wu.says(&["submit", "-jobname", "none", "-entry", "true", &wu.pfs("none")]);
    assert!(none.failed(1).contains("there is no such directory"), "{none:?}");
}

fn files_only(store: &str) {
    let server = serve(&store.replacen('{', "{mount: false, ", 1));
    let wu = somebody(&server);
    wu.write("package/train.py", "print('hello')\n");
    let words = ["submit", "-jobname", "hello", "-entry", "python3 train.py", "package"];
    let said = wu.says(&words);
    let text = said.failed(1);
    assert!(text.contains("this datacenter keeps files only and runs no jobs"), "{said:?}");
    assert!(wu.says(&["get", "jobs"]).ok().lines().count() <= 1);
}

/// What the server says when it does not start: with 2 if the configuration is wrong by itself,
/// with 1 if the store refuses.
fn failure(datacenter: &str, variables: &[(&str, &str)], code: i32) -> String {
    let server = Server::prepared(&format!("datacenters: [{datacenter}]\n"), &[]);
    let mut command = server.command();
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The name has the store's in it, for `make test-clusters`.
mod minio_starts {
    use super::*;

    #[test]
    fn minio_credentials_come_from_a_file_or_a_variable_and_are_never_printed() {
        let Some(endpoint) = server_of("minio", "PADDLE_TEST_S3") else { return };
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "testsecret\n").unwrap();
        let secret = format!("secret_access_key: {{file: '{}'}}", file.path().display());
        let server = serve(&s3_with(&endpoint, "paddle", &secret));
        somebody(&server).says(&["ls"]).ok();
        drop(server);
        let secret = "secret_access_key: {env: TEST_STORE_SECRET}";
        let yaml = format!("datacenters: [{}]\n", s3_with(&endpoint, "paddle", secret));
        let mut server = Server::prepared(&yaml, &[]);
        let mut command = server.command();
        command.env("TEST_STORE_SECRET", "testsecret");
        server.run(command);
        assert!(!server.log().contains("testsecret"), "{}", server.log());
        let datacenter = s3_with(&endpoint, "paddle", secret);
        let error = failure(&datacenter, &[], 2);
        assert!(error.contains("the environment variable is not set"), "{error}");
        let error = failure(&datacenter, &[("TEST_STORE_SECRET", "wrongwrong")], 1);
        assert!(error.contains("the store refuses the credentials"), "{error}");
        assert!(!error.contains("wrongwrong"), "{error}");
        let error = failure(&s3_with(&endpoint, "none", "secret_access_key: testsecret"), &[], 1);
        assert!(error.contains("the store has no such bucket"), "{error}");
    }
}
