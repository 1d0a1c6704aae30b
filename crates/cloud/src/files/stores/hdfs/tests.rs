//! A real HDFS, which `make test-clusters` starts.

use super::super::open;
use super::super::suite::{self, Bench, scratch};
use super::*;
use crate::config::{Config, DatacenterConfig};
use std::path::Path;

/// The URL of a directory; `None`, with a word about it, where it does not run.
fn server() -> Option<String> {
    super::super::suite::server("PADDLE_TEST_HDFS")
}

fn datacenter(url: &str, user: &str) -> DatacenterConfig {
    let yaml = format!("datacenters: [{{name: dc, files: '{url}', store: {{user: {user}}}}}]");
    Config::from_yaml(&yaml).unwrap().datacenters.remove(0)
}

async fn store(url: &str) -> Hdfs {
    let config = datacenter(url, "paddle");
    let url = config.store_url().unwrap();
    let top = Hdfs::open(url, &config.store).await.unwrap();
    let below = format!("{}/{}", url.path, crate::random::word::<10>().unwrap());
    top.client.mkdirs(&format!("/{below}"), 0o755, true).await.unwrap();
    Hdfs::open(&StoreUrl { path: below, ..url.clone() }, &config.store).await.unwrap()
}

async fn bench(root: &Path, url: &str) -> Bench {
    let files = Arc::new(store(url).await);
    Bench { files, scratch: scratch(root), keeps_opened: false, directory_name_max: 255 }
}

#[tokio::test(flavor = "multi_thread")]
async fn hdfs_keeps_files_as_every_store_does() {
    let Some(url) = server() else { return };
    let root = tempfile::tempdir().unwrap();
    suite::all(&bench(root.path(), &url).await).await;
}

/// Fewer than elsewhere: every file takes several rounds.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_hostile_paths_and_bodies_stay_inside() {
    let Some(url) = server() else { return };
    let root = tempfile::tempdir().unwrap();
    suite::hostile(&bench(root.path(), &url).await, 1000).await;
}

#[tokio::test]
async fn what_an_administrator_has_to_mend_is_told() {
    let Some(url) = server() else { return };
    let error = async |url: &str, user: &str| {
        let config = datacenter(url, user);
        let error = open(config.store_url().unwrap(), &config.store).await.unwrap_err();
        (error.kind(), error.message().to_owned())
    };
    assert_eq!(
        error(&url, "eve").await,
        (Kind::Forbidden, "the user of `store.user` may not write there".to_owned())
    );
    assert_eq!(
        error(&format!("{url}/none"), "paddle").await,
        (
            Kind::NotFound,
            "HDFS has no such directory: make it, or name another one in `files:`".to_owned()
        )
    );
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("hdfs://{}/", listener.local_addr().unwrap())
    };
    assert_eq!(
        error(&closed, "paddle").await,
        (
            Kind::Unavailable,
            "the name node cannot be reached: look at the URL of `files:`".to_owned()
        )
    );
}

#[tokio::test]
async fn files_that_nobody_named_are_swept() {
    let Some(url) = server() else { return };
    let store = store(&url).await;
    let name = format!("{}/{UNNAMED}/left", store.root);
    let mut writer = store.client.create(&name, WriteOptions::default()).await.unwrap();
    writer.write_bytes(Bytes::from_static(b"half")).await.unwrap();
    assert_eq!(store.sweep(Duration::from_secs(3600)).await.unwrap(), 0);
    assert_eq!(store.sweep(Duration::ZERO).await.unwrap(), 1);
    assert_eq!(store.sweep(Duration::ZERO).await.unwrap(), 0);
}

/// Two files of one length and one time are told apart.
#[tokio::test]
async fn every_file_has_a_mark_of_its_own() {
    let Some(url) = server() else { return };
    let root = tempfile::tempdir().unwrap();
    let bench = bench(root.path(), &url).await;
    let first = bench.put("same", b"1").await.unwrap();
    let second = bench.put("same", b"2").await.unwrap();
    assert_eq!((first.bytes, first.modified_ms), (second.bytes, second.modified_ms));
    assert_ne!(first.etag, second.etag);
}
