//! The directory store, beside what every store must do: links and other traps that jobs set.

use super::super::suite::{self, Bench, scratch};
use super::*;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

fn bench(root: &Path) -> Bench {
    for folder in ["store/home/wu", "store/home/eve", "store/public"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    Bench {
        files: Arc::new(Directory::open(&root.join("store")).unwrap()),
        scratch: scratch(root),
        keeps_opened: true,
        directory_name_max: 255,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_keeps_files_as_every_store_does() {
    let root = tempfile::tempdir().unwrap();
    suite::all(&bench(root.path())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_hostile_paths_and_bodies_stay_inside() {
    let root = tempfile::tempdir().unwrap();
    suite::hostile(&bench(root.path()), 10_000).await;
}

#[tokio::test]
async fn links_lead_nowhere() {
    let root = tempfile::tempdir().unwrap();
    let bench = bench(root.path());
    let home = root.path().join("store/home/wu");
    let eve = root.path().join("store/home/eve");
    fs::write(eve.join("secret"), "hers").unwrap();
    fs::write(root.path().join("outside"), "outside").unwrap();
    symlink("../eve", home.join("relative")).unwrap();
    symlink(&eve, home.join("absolute")).unwrap();
    symlink(eve.join("secret"), home.join("file")).unwrap();
    symlink("/proc/self/root", home.join("magic")).unwrap();
    symlink("loop", home.join("loop")).unwrap();
    let kind = |result: Result<Vec<u8>>| result.unwrap_err().kind();
    for path in ["relative/secret", "absolute/secret", "file", "magic/etc/passwd", "loop", "loop/x"]
    {
        assert_eq!(kind(bench.get(path).await), Kind::Forbidden, "{path}");
    }
    for path in ["relative/new", "absolute/new", "magic/tmp/new", "loop/new"] {
        let refused = bench.put(path, b"x").await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Forbidden, "{path}: {refused}");
        let path = bench.path(path);
        let made = bench.files.make_directory(path.clone(), Owner::Server).await;
        assert_eq!(made.unwrap_err().kind(), Kind::Forbidden);
        assert!(bench.files.remove(path, true).await.is_err());
    }
    assert!(bench.files.list(bench.path("relative")).await.is_err());
    // A link is shown as one, and replaced or removed itself.
    let shown = bench.files.stat(bench.path("file")).await.unwrap();
    assert_eq!((shown.kind, shown.bytes), (EntryKind::Link, 0));
    bench.put("file", b"mine").await.unwrap();
    bench.files.remove(bench.path("relative"), true).await.unwrap();
    bench.files.remove(bench.path("absolute"), false).await.unwrap();
    let how = Renaming { owner: Owner::Server, if_absent: false };
    bench.files.rename(bench.path("magic"), bench.path("renamed"), how).await.unwrap();
    assert_eq!(fs::read_to_string(eve.join("secret")).unwrap(), "hers");
    assert_eq!(fs::read_dir(&eve).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(root.path().join("outside")).unwrap(), "outside");
}

#[tokio::test]
async fn pipes_and_sockets_keep_nobody_waiting() {
    let root = tempfile::tempdir().unwrap();
    let bench = bench(root.path());
    let home = root.path().join("store/home/wu");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        home.join("pipe"),
        FileType::Fifo,
        Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(home.join("socket")).unwrap();
    for path in ["pipe", "socket"] {
        assert_eq!(bench.get(path).await.unwrap_err().kind(), Kind::Invalid);
        let entry = bench.files.stat(bench.path(path)).await.unwrap();
        assert_eq!(entry.kind, EntryKind::Other);
    }
    bench.put("pipe", b"a file now").await.unwrap();
    assert_eq!(bench.get("pipe").await.unwrap(), b"a file now");
}

#[tokio::test]
async fn files_and_the_directories_above_them_belong_to_their_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let bench = bench(root.path());
    let staged = root.path().join("scratch/x");
    fs::write(&staged, "x").unwrap();
    let publication = Publication {
        path: bench.path("made/here/x"),
        staged,
        mode: 0o4755,
        modified_ms: None,
        owner: Owner::Uid(200_123),
        condition: Condition::default(),
    };
    bench.files.publish(vec![publication]).await.pop().unwrap().unwrap();
    for path in ["made", "made/here", "made/here/x"] {
        let found = fs::metadata(root.path().join("store/home/wu").join(path)).unwrap();
        assert_eq!((found.uid(), found.gid()), (200_123, 200_123), "{path}");
        // Never the right to become somebody else.
        assert_eq!(found.mode() & 0o7777, 0o755, "{path}");
    }
}

#[tokio::test]
async fn a_file_that_is_written_while_it_is_read_is_no_answer() {
    let root = tempfile::tempdir().unwrap();
    let bench = bench(root.path());
    bench.put("log", &[1; 4 << 20]).await.unwrap();
    let opened = bench.files.open(bench.path("log")).await.unwrap();
    let file = root.path().join("store/home/wu/log");
    fs::File::options().write(true).open(&file).unwrap().set_len(1 << 20).unwrap();
    let mut pieces = opened.source.pieces(0..4 << 20);
    let mut result = Ok(());
    while let Some(piece) = futures_util::StreamExt::next(&mut pieces).await {
        result = piece.map(|_| ());
    }
    assert_eq!(result.unwrap_err().kind(), Kind::Conflict);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..Default::default() })]

    /// Whatever somebody sends as a path: it is refused, or stays in their own home.
    #[test]
    fn hostile_paths_never_leave_the_home(
        text in "(/pfs|/pfs/dc|/pfs/dc/home|/pfs/dc/home/wu|/)?(/(\\.\\.|\\.|\\.\\.\\.|home|eve|wu|dc|public|%2e%2e|\u{2025}|\u{ff0e}\u{ff0e}|a\\\\\\.\\.\\\\b|\u{202e}x|\u{0}|link|etc|passwd|a|~|-rf|\n|[^/]{0,3})){0,6}/?",
    ) {
        let Ok(path) = PfsPath::parse(&text, "dc") else { return Ok(()) };
        let relative = relative(&path);
        prop_assert!(!relative.contains('\0') && !relative.split('/').any(|part| part == ".."));
        prop_assert!(!relative.starts_with('/'));
        if !path.allows("wu", contract::path::Access::Write) {
            return Ok(());
        }
        thread_local! {
            static PLACE: (tempfile::TempDir, Directory) = {
                let root = tempfile::tempdir().unwrap();
                let bench = bench(root.path());
                drop(bench);
                fs::write(root.path().join("store/home/eve/secret"), "hers").unwrap();
                symlink("../eve", root.path().join("store/home/wu/link")).unwrap();
                let store = Directory::open(&root.path().join("store")).unwrap();
                (root, store)
            };
        }
        PLACE.with(|(root, store)| -> std::result::Result<(), TestCaseError> {
            let _ = store.make_above(&path, Owner::Server);
            let _ = store.make(&path, Owner::Server);
            let _ = store.change_now(&path, &Change::Touch(1), Owner::Server);
            let _ = store.open_now(&path);
            let _ = store.list_now(&path);
            if path.file_name().is_some_and(|name| name != "link") {
                let _ = store.remove_now(&path, true);
            }
            let top = fs::read_dir(root.path()).unwrap().count();
            let homes = fs::read_dir(root.path().join("store/home")).unwrap().count();
            let eve: Vec<_> = fs::read_dir(root.path().join("store/home/eve")).unwrap().collect();
            prop_assert_eq!((top, homes, eve.len()), (2, 2, 1), "{}", text);
            Ok(())
        })?;
    }
}
