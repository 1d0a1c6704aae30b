//! What every keeper of files must do, tried on each of them.

use super::{Condition, Files, Publication, Renaming};
use crate::files::Owner;
use crate::files::usage::measure;
use contract::api::file::{DiskUsage, Entry, EntryKind};
use contract::path::PfsPath;
use contract::{Kind, Result};
use futures_util::StreamExt;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A keeper, and a directory for files that are not published yet.
#[derive(Clone)]
pub(crate) struct Bench {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) scratch: PathBuf,
    /// Whether a file that was opened can be read to its end, whatever takes its name. Elsewhere
    /// its reader is told.
    pub(crate) keeps_opened: bool,
    /// The longest name of a directory that stays when its last file goes.
    pub(crate) directory_name_max: usize,
}

impl Bench {
    pub(crate) fn path(&self, text: &str) -> PfsPath {
        PfsPath::home("dc", "wu").unwrap().join(text).unwrap()
    }

    fn publication(&self, text: &str, content: &[u8]) -> Publication {
        let staged = tempfile::NamedTempFile::new_in(&self.scratch).unwrap();
        std::fs::write(staged.path(), content).unwrap();
        let (_, staged) = staged.keep().unwrap();
        Publication {
            path: self.path(text),
            staged,
            mode: 0o640,
            modified_ms: Some(1_500_000_000_123),
            owner: Owner::Server,
            condition: Condition::default(),
        }
    }

    pub(crate) async fn put(&self, text: &str, content: &[u8]) -> Result<Entry> {
        self.publish(self.publication(text, content)).await
    }

    async fn publish(&self, publication: Publication) -> Result<Entry> {
        self.files.publish(vec![publication]).await.pop().unwrap()
    }

    pub(crate) async fn get(&self, text: &str) -> Result<Vec<u8>> {
        self.read(self.path(text)).await
    }

    async fn read(&self, path: PfsPath) -> Result<Vec<u8>> {
        loop {
            let opened = self.files.open(path.clone()).await?;
            let length = opened.entry.bytes;
            match self.drain(opened.source.pieces(0..length)).await {
                // It was replaced in between.
                Err(error) if !self.keeps_opened && error.kind() == Kind::Conflict => {}
                read => return read,
            }
        }
    }

    async fn drain(
        &self,
        mut pieces: futures_util::stream::BoxStream<'static, Result<bytes::Bytes>>,
    ) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.next().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok(bytes)
    }

    async fn names(&self, text: &str) -> Vec<String> {
        let entries = self.files.list(self.path(text)).await.unwrap();
        entries.iter().map(|entry| entry.name().to_owned()).collect()
    }

    fn kind<T>(result: Result<T>) -> Option<Kind> {
        result.err().map(|error| error.kind())
    }
}

/// Everything, one after another.
pub(crate) async fn all(bench: &Bench) {
    bench.files.make_directory(bench.path(""), Owner::Server).await.unwrap();
    a_file_is_what_was_published(bench).await;
    many_files_are_published_at_once(bench).await;
    conditions_are_kept(bench).await;
    names_change(bench).await;
    things_are_removed(bench).await;
    files_and_directories_are_not_mixed_up(bench).await;
    what_is_there_is_counted(bench).await;
    permissions_are_no_content(bench).await;
    a_reader_never_gets_two_files(bench).await;
    whoever_looks_sees_a_whole_file(bench).await;
    one_of_many_creators_wins(bench).await;
}

async fn a_file_is_what_was_published(bench: &Bench) {
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let entry = bench.put("a/deep/er/file", &content).await.unwrap();
    assert_eq!((entry.kind, entry.bytes), (EntryKind::File, content.len() as u64));
    assert_eq!(entry.path, "/pfs/dc/home/wu/a/deep/er/file");
    assert!(!entry.etag.is_empty());
    assert_eq!((entry.mode, entry.modified_ms), (0o640, 1_500_000_000_123));
    assert_eq!(bench.files.stat(bench.path("a/deep/er/file")).await.unwrap(), entry);
    assert_eq!(bench.get("a/deep/er/file").await.unwrap(), content);
    for range in [0..1, 1_000_000..2_000_001, 2_999_999..3_000_000, 5..5] {
        let opened = bench.files.open(bench.path("a/deep/er/file")).await.unwrap();
        let part = bench.drain(opened.source.pieces(range.start..range.end)).await.unwrap();
        let slice = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
        assert_eq!(part, content[slice]);
    }
    let again = bench.put("a/deep/er/file", b"shorter").await.unwrap();
    assert_ne!(again.etag, entry.etag);
    assert_eq!(bench.get("a/deep/er/file").await.unwrap(), b"shorter");
    bench.put("a/empty", b"").await.unwrap();
    assert_eq!(bench.get("a/empty").await.unwrap(), b"");
    bench.put("a/Z \u{e9}*[x]", b"odd").await.unwrap();
    assert_eq!(bench.names("a").await, ["Z \u{e9}*[x]", "deep", "empty"]);
    let above = bench.files.stat(bench.path("a/deep")).await.unwrap();
    assert_eq!(above.kind, EntryKind::Directory);
    assert_eq!(Bench::kind(bench.get("a/none").await), Some(Kind::NotFound));
    assert_eq!(Bench::kind(bench.get("a/deep").await), Some(Kind::Invalid));
    assert_eq!(Bench::kind(bench.files.stat(bench.path("none/x")).await), Some(Kind::NotFound));
    assert_eq!(Bench::kind(bench.files.list(bench.path("none")).await), Some(Kind::NotFound));
    assert_eq!(Bench::kind(bench.put("a/deep", b"x").await), Some(Kind::Invalid));
}

async fn many_files_are_published_at_once(bench: &Bench) {
    let names: Vec<String> =
        (0..40).map(|number| format!("many/{}/{number}", number % 3)).collect();
    let all = names.iter().map(|name| bench.publication(name, name.as_bytes())).collect();
    let results = bench.files.publish(all).await;
    assert_eq!(results.len(), 40);
    for (name, result) in names.iter().zip(results) {
        assert_eq!(result.unwrap().bytes, name.len() as u64);
        assert_eq!(bench.get(name).await.unwrap(), name.as_bytes());
    }
}

async fn conditions_are_kept(bench: &Bench) {
    let with = |condition: Condition| {
        let publication = bench.publication("conditions", b"new");
        bench.publish(Publication { condition, ..publication })
    };
    let if_absent = || Condition { if_absent: true, if_match: None };
    let if_match = |etag: &str| Condition { if_absent: false, if_match: Some(etag.to_owned()) };
    assert_eq!(Bench::kind(with(if_match("other")).await), Some(Kind::Conflict));
    let entry = with(if_absent()).await.unwrap();
    assert_eq!(Bench::kind(with(if_absent()).await), Some(Kind::AlreadyExists));
    let next = with(if_match(&entry.etag)).await.unwrap();
    assert_eq!(Bench::kind(with(if_match("other")).await), Some(Kind::Conflict));
    assert_eq!(bench.files.stat(bench.path("conditions")).await.unwrap().etag, next.etag);
}

async fn names_change(bench: &Bench) {
    let how = |if_absent| Renaming { owner: Owner::Server, if_absent };
    let rename = |from: &str, to: &str, if_absent| {
        bench.files.rename(bench.path(from), bench.path(to), how(if_absent))
    };
    bench.put("old/file", b"1").await.unwrap();
    bench.put("old/other", b"2").await.unwrap();
    rename("old/file", "new/dir/file", false).await.unwrap();
    assert_eq!(bench.get("new/dir/file").await.unwrap(), b"1");
    assert_eq!(bench.names("old").await, ["other"]);
    assert_eq!(
        Bench::kind(rename("old/other", "new/dir/file", true).await),
        Some(Kind::AlreadyExists)
    );
    rename("old/other", "new/dir/file", false).await.unwrap();
    assert_eq!(bench.get("new/dir/file").await.unwrap(), b"2");
    rename("new", "newer", false).await.unwrap();
    assert_eq!(bench.get("newer/dir/file").await.unwrap(), b"2");
    assert_eq!(Bench::kind(bench.files.stat(bench.path("new")).await), Some(Kind::NotFound));
    assert_eq!(Bench::kind(rename("newer", "newer/in/it", false).await), Some(Kind::Invalid));
    assert_eq!(bench.get("newer/dir/file").await.unwrap(), b"2");
    assert_eq!(Bench::kind(rename("none", "x", false).await), Some(Kind::NotFound));
}

async fn things_are_removed(bench: &Bench) {
    bench.put("gone/a/b", b"1").await.unwrap();
    bench.put("gone/c", b"2").await.unwrap();
    let remove = |text: &str, is_recursive| bench.files.remove(bench.path(text), is_recursive);
    assert_eq!(Bench::kind(remove("gone", false).await), Some(Kind::Conflict));
    remove("gone/c", false).await.unwrap();
    assert_eq!(bench.names("gone").await, ["a"]);
    remove("gone", true).await.unwrap();
    assert_eq!(Bench::kind(bench.files.stat(bench.path("gone")).await), Some(Kind::NotFound));
    assert_eq!(Bench::kind(remove("gone", true).await), Some(Kind::NotFound));
    let made = bench.files.make_directory(bench.path("made/for/now"), Owner::Server).await;
    assert!(made.unwrap().is_directory());
    bench.files.make_directory(bench.path("made/for/now"), Owner::Server).await.unwrap();
    remove("made/for/now", false).await.unwrap();
    assert_eq!(bench.names("made/for").await, Vec::<String>::new());
    // A directory is there without the last file in it.
    bench.put("last/file", b"1").await.unwrap();
    remove("last/file", false).await.unwrap();
    assert_eq!(bench.names("last").await, Vec::<String>::new());
    assert_eq!(Bench::kind(bench.get("last").await), Some(Kind::Invalid));
}

async fn files_and_directories_are_not_mixed_up(bench: &Bench) {
    bench.put("either/file", b"1").await.unwrap();
    let make = |text: &str| bench.files.make_directory(bench.path(text), Owner::Server);
    assert_eq!(Bench::kind(bench.put("either/file/below", b"2").await), Some(Kind::Invalid));
    assert_eq!(Bench::kind(make("either/file").await), Some(Kind::Invalid));
    assert_eq!(Bench::kind(make("either/file/below").await), Some(Kind::Invalid));
    assert_eq!(Bench::kind(bench.put("either", b"3").await), Some(Kind::Invalid));
    let how = Renaming { owner: Owner::Server, if_absent: false };
    let rename = |from: &str, to: &str| bench.files.rename(bench.path(from), bench.path(to), how);
    bench.put("other/file", b"4").await.unwrap();
    assert_eq!(Bench::kind(rename("other", "either/file").await), Some(Kind::Invalid));
    assert_eq!(Bench::kind(rename("other/file", "either").await), Some(Kind::Invalid));
    assert_eq!(Bench::kind(rename("other", "either").await), Some(Kind::AlreadyExists));
    assert_eq!(Bench::kind(bench.files.list(bench.path("either/file")).await), Some(Kind::Invalid));
    assert_eq!(bench.get("either/file").await.unwrap(), b"1");
    assert_eq!(bench.get("other/file").await.unwrap(), b"4");
}

async fn what_is_there_is_counted(bench: &Bench) {
    bench.put("counted/a", &[1; 1000]).await.unwrap();
    bench.put("counted/b/c/d", &[2; 234]).await.unwrap();
    bench.files.make_directory(bench.path("counted/e"), Owner::Server).await.unwrap();
    let usage = measure(&*bench.files, bench.path("counted")).await.unwrap();
    assert_eq!(usage, DiskUsage { bytes: 1234, files: 2, directories: 3 });
    let usage = measure(&*bench.files, bench.path("counted/a")).await.unwrap();
    assert_eq!(usage, DiskUsage { bytes: 1000, files: 1, directories: 0 });
    let none = measure(&*bench.files, bench.path("counted/none")).await;
    assert_eq!(Bench::kind(none), Some(Kind::NotFound));
}

/// Other permissions do not look like another content, where they can be changed at all.
async fn permissions_are_no_content(bench: &Bench) {
    let before = bench.put("dressed/file", b"1").await.unwrap();
    let dress = |text: &str, mode| bench.files.dress(bench.path(text), Some(mode), None);
    match dress("dressed/file", 0o600).await {
        Err(error) => assert_eq!(error.kind(), Kind::Unsupported),
        Ok(after) => {
            assert_eq!((after.mode, after.etag), (0o600, before.etag));
            assert_eq!(dress("dressed", 0o700).await.unwrap().mode, 0o700);
            assert_eq!(Bench::kind(dress("dressed/none", 0o600).await), Some(Kind::NotFound));
        }
    }
}

/// Somebody who reads while the file is replaced has the old one, or is told.
async fn a_reader_never_gets_two_files(bench: &Bench) {
    let old = vec![b'o'; 12 << 20];
    bench.put("read/file", &old).await.unwrap();
    let opened = bench.files.open(bench.path("read/file")).await.unwrap();
    let mut pieces = opened.source.pieces(0..opened.entry.bytes);
    let mut seen = pieces.next().await.unwrap().unwrap().to_vec();
    bench.put("read/file", &vec![b'n'; 12 << 20]).await.unwrap();
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => seen.extend_from_slice(&piece),
            Err(error) => {
                assert!(!bench.keeps_opened, "{error}");
                break;
            }
        }
    }
    assert!(seen.iter().all(|byte| *byte == b'o'), "two files in one");
    assert!(!bench.keeps_opened || seen.len() == old.len());
}

/// A watcher never finds a gap, or a mix of two contents.
async fn whoever_looks_sees_a_whole_file(bench: &Bench) {
    const ROUNDS: usize = 60;
    let content =
        |round: usize| vec![b'a' + u8::try_from(round % 26).unwrap(); 1000 + round * 7919];
    bench.put("watched/file", &content(0)).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (bench, is_over) = (bench.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut looks = 0;
            while !is_over.load(Ordering::Relaxed) || looks == 0 {
                let seen = bench.get("watched/file").await.unwrap();
                let first = seen[0];
                assert!(seen.iter().all(|byte| *byte == first), "a mix of two files");
                let round = (0..ROUNDS).find(|round| content(*round).len() == seen.len());
                assert_eq!(content(round.unwrap())[0], first, "half a file");
                assert_eq!(bench.names("watched").await, ["file"]);
                looks += 1;
            }
        })
    };
    for round in 0..ROUNDS {
        bench.put("watched/file", &content(round)).await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    watcher.await.unwrap();
}

async fn one_of_many_creators_wins(bench: &Bench) {
    for round in 0..5 {
        let name = format!("race/{round}");
        let creators = (0..8_u8).map(|creator| {
            let (bench, name) = (bench.clone(), name.clone());
            tokio::spawn(async move {
                let publication = bench.publication(&name, &[creator]);
                let condition = Condition { if_absent: true, if_match: None };
                bench.publish(Publication { condition, ..publication }).await.ok().map(|_| creator)
            })
        });
        let winners: Vec<u8> = futures_util::future::join_all(creators)
            .await
            .into_iter()
            .filter_map(|creator| creator.unwrap())
            .collect();
        assert_eq!(winners.len(), 1);
        assert_eq!(bench.get(&name).await.unwrap(), winners);
    }
}

/// Random paths and bodies: nothing escapes from a home, and what is taken is given back.
pub(crate) async fn hostile(bench: &Bench, cases: u32) {
    const AT_ONCE: usize = 16;
    let canaries = [
        PfsPath::home("dc", "eve").unwrap().join("secret").unwrap(),
        PfsPath::public("dc").unwrap().join("notice").unwrap(),
    ];
    for canary in &canaries {
        let publication = bench.publication("canary", b"untouched");
        let publication = Publication { path: canary.clone(), ..publication };
        bench.publish(publication).await.unwrap();
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).unwrap();
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let part = prop_oneof![
        4 => Just("..".to_owned()),
        2 => Just(String::new()),
        1 => Just(".".to_owned()),
        1 => "[%\\\\\"'*?:<>|&;$`~+#@! -]{1,8}",
        2 => "\\PC{1,20}",
        1 => any::<String>(),
        2 => prop::sample::select(vec![
            "eve", "home", "public", "uploads", "secret", "..%2f..", "%2e%2e", "\u{2024}\u{2024}",
            "\u{ff0e}\u{ff0e}", "\u{202e}txt", "\0", "a\0b", "\r\n", "CON", "~", "-rf", "e\u{301}",
            "\u{e9}", "\u{1F980}", " ", "a ", ".hidden", "...",
        ]).prop_map(str::to_owned),
        1 => "[a-z]{200,300}",
    ];
    let text = prop::collection::vec(part, 1..6).prop_map(|parts| parts.join("/"));
    let case = (text, prop::collection::vec(any::<u8>(), 0..200));
    let cases: Vec<(String, Vec<u8>)> =
        (0..cases).map(|_| case.new_tree(&mut runner).unwrap().current()).collect();
    let tries = cases.into_iter().enumerate().map(|(number, (text, body))| async move {
        let folder = format!("hostile/{number}");
        let home = PfsPath::home("dc", "wu").unwrap();
        let Ok(path) = home.join(&format!("{folder}/{text}")) else { return };
        if path.file_name().is_none() {
            return;
        }
        let publication = Publication { path: path.clone(), ..bench.publication("x", &body) };
        let told = |error: &contract::Error| {
            let kinds = [Kind::Invalid, Kind::NotFound, Kind::AlreadyExists, Kind::Conflict];
            assert!(kinds.contains(&error.kind()), "seed {seed:?}: {path}: {}", error.chain());
        };
        match bench.publish(publication).await {
            Err(error) => told(&error),
            // Others may write to the same place when it is not in the folder of this number.
            Ok(entry) if path.to_string().contains(&format!("/{folder}/")) => {
                assert_eq!(entry.path, path.to_string());
                let read = bench.read(path.clone()).await;
                let read = read.unwrap_or_else(|error| {
                    panic!("seed {seed:?}: {path:?}: {}", error.chain());
                });
                assert_eq!(read, body, "seed {seed:?}: {path:?}");
                let parent = bench.files.list(path.parent().unwrap()).await.unwrap();
                let mut names = parent.iter().map(Entry::name);
                assert_eq!(names.next(), path.file_name(), "seed {seed:?}: {path:?}");
                assert_eq!(names.next(), None, "seed {seed:?}: {path:?}");
                if let Err(error) = bench.files.remove(path.clone(), false).await {
                    // Its name may be in the paths of files, and too long by itself.
                    let above = path.parent().unwrap();
                    let is_too_long = |name: &String| name.len() > bench.directory_name_max;
                    let chain = error.chain();
                    let is_due = above.components().iter().any(is_too_long);
                    assert!(is_due, "seed {seed:?}: {path:?}: {chain}");
                    told(&error);
                }
            }
            Ok(_) => {}
        }
    });
    futures_util::stream::iter(tries).buffer_unordered(AT_ONCE).collect::<()>().await;
    for canary in canaries {
        let top = canary.parent().unwrap();
        assert_eq!(bench.read(canary.clone()).await.unwrap(), b"untouched", "seed {seed:?}");
        let beside = bench.files.list(top).await.unwrap();
        let beside: Vec<&str> = beside.iter().map(Entry::name).collect();
        assert_eq!(beside, [canary.file_name().unwrap()], "seed {seed:?}");
    }
}

/// The URL of a server that `make test-clusters` starts; `None`, with a word about it, elsewhere.
pub(crate) fn server(variable: &str) -> Option<String> {
    let url = std::env::var(variable).ok();
    if url.is_none() {
        let word = format!("skipped: {variable} is not set, `make test-clusters` does it\n");
        let _ = std::io::Write::write_all(&mut std::io::stderr(), word.as_bytes());
    }
    url
}

/// A directory for staged files.
pub(crate) fn scratch(root: &Path) -> PathBuf {
    let scratch = root.join("scratch");
    std::fs::create_dir_all(&scratch).unwrap();
    scratch
}
