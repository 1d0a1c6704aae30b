//! A real S3 server, which `make test-clusters` starts.

use super::super::suite::{self, Bench, scratch};
use super::super::{Condition, open};
use super::*;
use crate::config::{Config, DatacenterConfig};
use std::path::Path;
use std::sync::Arc;

/// The server's URL; `None`, with a word about it, where it does not run.
fn server() -> Option<String> {
    super::super::suite::server("PADDLE_TEST_S3")
}

fn datacenter(endpoint: &str, bucket: &str, secret: &str) -> DatacenterConfig {
    let prefix = crate::random::word::<10>().unwrap();
    let yaml = format!(
        "datacenters: [{{name: dc, files: 's3://{bucket}/{prefix}', store: {{endpoint: '{endpoint}', \
         access_key_id: testkey, secret_access_key: '{secret}'}}}}]"
    );
    Config::from_yaml(&yaml).unwrap().datacenters.remove(0)
}

async fn store(endpoint: &str) -> Objects {
    let config = datacenter(endpoint, "paddle", "testsecret");
    Objects::open(config.store_url().unwrap(), &config.store).await.unwrap()
}

async fn bench(root: &Path, endpoint: &str) -> Bench {
    let files = Arc::new(store(endpoint).await);
    // MinIO makes names of directories nine bytes longer on its disk.
    Bench { files, scratch: scratch(root), keeps_opened: false, directory_name_max: 255 - 9 }
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_keeps_files_as_every_store_does() {
    let Some(endpoint) = server() else { return };
    let root = tempfile::tempdir().unwrap();
    suite::all(&bench(root.path(), &endpoint).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_hostile_paths_and_bodies_stay_inside() {
    let Some(endpoint) = server() else { return };
    let root = tempfile::tempdir().unwrap();
    suite::hostile(&bench(root.path(), &endpoint).await, 10_000).await;
}

#[tokio::test]
async fn what_an_administrator_has_to_mend_is_told() {
    let Some(endpoint) = server() else { return };
    let error = async |config: DatacenterConfig| {
        let opened = open(config.store_url().unwrap(), &config.store).await;
        let error = opened.unwrap_err();
        assert!(!error.chain().contains("wrongsecret"), "{}", error.chain());
        (error.kind(), error.message().to_owned())
    };
    assert_eq!(
        error(datacenter(&endpoint, "paddle", "wrongsecret")).await,
        (Kind::Unauthenticated, "the store refuses the credentials: look at `store:`".to_owned())
    );
    assert_eq!(
        error(datacenter(&endpoint, "nosuchbucket", "testsecret")).await,
        (
            Kind::NotFound,
            "the store has no such bucket: make it, or name another one in `files:`".to_owned()
        )
    );
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    assert_eq!(
        error(datacenter(&closed, "paddle", "testsecret")).await,
        (Kind::Unavailable, "the store cannot be reached: look at `store.endpoint`".to_owned())
    );
}

#[tokio::test]
async fn parts_that_nobody_finished_are_swept() {
    let Some(endpoint) = server() else { return };
    let store = store(&endpoint).await;
    let mut writer = store.operator.writer_with("home/wu/left over").chunk(5 << 20).await.unwrap();
    writer.write(vec![1_u8; 11 << 20]).await.unwrap();
    assert_eq!(store.sweep(Duration::from_secs(3600)).await.unwrap(), 0);
    // A slow store is asked again, and may have begun two.
    assert!(store.sweep(Duration::ZERO).await.unwrap() >= 1);
    assert_eq!(store.sweep(Duration::ZERO).await.unwrap(), 0);
    assert!(writer.close().await.is_err());
}

/// Objects that other programs put into the bucket do not lead anywhere.
#[tokio::test]
async fn keys_that_no_path_can_have_are_passed_over() {
    let Some(endpoint) = server() else { return };
    let store = store(&endpoint).await;
    store.operator.write("home/wu/plain", b"x".to_vec()).await.unwrap();
    let _ = store.operator.write("home/wu/.../odd", b"x".to_vec()).await;
    let top = PfsPath::home("dc", "wu").unwrap();
    let names: Vec<String> =
        store.list_now(&top).await.unwrap().iter().map(|entry| entry.name().to_owned()).collect();
    assert_eq!(names, ["...", "plain"]);
    // Files of others have a mode and a time all the same.
    let plain = store.stat_now(&top.join("plain").unwrap()).await.unwrap();
    assert!(plain.mode == 0o644 && plain.modified_ms > 1_500_000_000_000);
    let refused = Condition { if_absent: true, if_match: None }.check(Some(&plain));
    assert!(refused.is_err());
}

/// A directory is moved file by file, which takes a while.
#[tokio::test]
async fn what_is_written_while_files_move_is_kept() {
    let Some(endpoint) = server() else { return };
    let store = store(&endpoint).await;
    for name in ["same", "replaced", "removed"] {
        store.operator.write(&format!("home/wu/old/{name}"), name.as_bytes()).await.unwrap();
        let (old, new) = (format!("home/wu/old/{name}"), format!("home/wu/new/{name}"));
        let copied = store.copy_object(&old, &new, false).await.unwrap();
        match name {
            "replaced" => drop(store.operator.write(&old, b"newer".to_vec()).await.unwrap()),
            "removed" => store.operator.delete(&old).await.unwrap(),
            _ => {}
        }
        store.remove_copied(&copied).await.unwrap();
    }
    let names = async |directory: &str| {
        let top = PfsPath::home("dc", "wu").unwrap().join(directory).unwrap();
        let entries = store.list_now(&top).await.unwrap();
        entries.iter().map(|entry| entry.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("old").await, ["replaced"]);
    assert_eq!(names("new").await, ["removed", "replaced", "same"]);
    let kept = store.operator.read("home/wu/old/replaced").await.unwrap();
    assert_eq!(kept.to_vec(), b"newer");
}
