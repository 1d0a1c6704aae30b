//! The command `paddle` from outside: what it prints and how it exits.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use recordio::{Compressor, WriteOptions, Writer};
use std::path::Path;
use std::process::{Command, Stdio};

/// Exit code, standard output and standard error of one call in `folder`.
fn paddle(folder: &Path, args: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_paddle"))
        .args(args.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    format!(
        "$ paddle {args}\n{}{}[exit {}]\n",
        text(output.stdout),
        text(output.stderr),
        output.status.code().unwrap(),
    )
}

/// A folder with `good` (two chunks of two records), `cut`, `flipped` and `text`, and `full`, with a
/// checkpoint that no other can come after.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let options =
        WriteOptions { compressor: Compressor::None, chunk_bytes: 12, ..WriteOptions::default() };
    let good = folder.path().join("good");
    let mut writer = Writer::create(&good, options).unwrap();
    for record in [&b"first"[..], b"caf\xc3\xa9\n", b"\xff\x00", b""] {
        writer.write(record).unwrap();
    }
    writer.close().unwrap();
    let bytes = std::fs::read(&good).unwrap();
    std::fs::write(folder.path().join("cut"), &bytes[..bytes.len() - 1]).unwrap();
    let mut flipped = bytes;
    flipped[25] ^= 1;
    std::fs::write(folder.path().join("flipped"), flipped).unwrap();
    std::fs::write(folder.path().join("text"), "just some lines of ordinary text\n").unwrap();
    std::fs::create_dir_all(folder.path().join("full/cut-281474976710656")).unwrap();
    folder
}

fn transcript(commands: &[&str]) -> String {
    let folder = folder();
    commands.iter().map(|args| paddle(folder.path(), args)).collect()
}

#[test]
fn version_prints_the_block_that_scripts_look_for() {
    insta::assert_snapshot!(transcript(&["version", "version -o json"]));
}

#[test]
fn a_script_of_the_original_may_end_with_usage() {
    let said = transcript(&["usage -l train.log -e 0 -n quick_start --dry-run"]);
    assert!(said.contains("no effect") && said.ends_with("[exit 0]\n"), "{said}");
}

#[test]
fn recordio_info_shows_what_headers_say() {
    insta::assert_snapshot!(transcript(&[
        "recordio info good",
        "recordio info good --chunks",
        "recordio info good --chunks -o json",
        "recordio info cut",
        "recordio info text",
    ]));
}

#[test]
fn recordio_cat_prints_records_in_four_styles() {
    insta::assert_snapshot!(transcript(&[
        "recordio cat good",
        "recordio cat good -o hex",
        "recordio cat good -o json --start 1 -n 2",
        "recordio cat good -o raw -n 1",
        "recordio cat cut",
    ]));
}

#[test]
fn recordio_verify_reports_every_damaged_chunk_and_exits_1() {
    insta::assert_snapshot!(transcript(&[
        "recordio verify good",
        "recordio verify good cut flipped text",
        "recordio verify flipped -o json",
        "recordio verify good --chunk-bytes-max 8",
    ]));
}

#[test]
fn recordio_convert_rewrites_and_protects_what_is_there() {
    insta::assert_snapshot!(transcript(&[
        "recordio convert good good target --compressor none --layout fluid",
        "recordio info target",
        "recordio cat target --start 4 -n 1",
        "recordio convert good target",
        "recordio convert good target --force --compressor zstd --threads 2 -o json",
        "recordio verify target",
        "recordio convert cut other",
        "recordio info other",
        "recordio convert good other --layout fluid --compressor gzip",
    ]));
}

#[test]
fn wrong_calls_exit_2_and_missing_files_exit_1() {
    insta::assert_snapshot!(transcript(&[
        "",
        "recordio frobnicate",
        "recordio info",
        "recordio info .",
        "recordio info missing-*",
        "recordio convert good",
        "recordio convert good other --compressor lz4",
        "recordio cat good --count many",
    ]));
}

#[test]
fn a_server_that_cannot_start_says_why_in_one_line() {
    insta::assert_snapshot!(transcript(&[
        "pserver --port 70000",
        "pserver --num_gradient_servers=0",
        "pserver --ports_num=0 --port=0",
        "pserver --port=65535 --ports_num=2",
        "pserver --trainer_timeout=-1",
        "pserver --checkpoint_dir=text/inside-a-file",
        "pserver --checkpoint_dir=. --restore=newest",
        "pserver --checkpoint_dir=full",
        "pserver --checkpoint_dir=empty --restore",
        "pserver --checkpoint_dir=empty --restore=7",
        "pserver --index=1",
        "pserver --tls_cert=text --tls_key=text",
        "pserver --memory_max=lots",
    ]));
}

#[test]
fn a_master_that_cannot_start_says_why_in_one_line() {
    insta::assert_snapshot!(transcript(&[
        "master --port 70000",
        "master --port=0 --dataset missing-*",
        "master --port=0 --dataset good cut",
        "master --port=0 --dataset good --chunk_per_task=0",
        "master --port=0 --dataset good --task_timeout=soon",
        "master --port=0 --dataset good --task_timeout=1ms",
        "master --port=0 --dataset good --task_timeout=9000d",
        "master --port=0 --dataset good --state_dir=text/inside-a-file",
        "master status",
        "master status --endpoint=127.0.0.1:1 -o yaml",
        "master status --endpoint=127.0.0.1:1",
    ]));
}

#[test]
fn every_help_page_is_complete() {
    insta::assert_snapshot!(transcript(&[
        "--help",
        "version --help",
        "cluster_train --help",
        "cluster_status --help",
        "cluster_log --help",
        "cluster_kill --help",
        "jobs --help",
        "attach --help",
        "logs --help",
        "kill --help",
        "scale --help",
        "completions --help",
        "pserver --help",
        "master --help",
        "master status --help",
        "recordio --help",
        "recordio info --help",
        "recordio cat --help",
        "recordio verify --help",
        "recordio convert --help",
    ]));
}

#[test]
fn every_shell_has_completions_for_every_verb() {
    for shell in ["bash", "zsh", "fish"] {
        let script = transcript(&[&format!("completions {shell}")]);
        for word in ["launch", "attach", "recordio", "trainers"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(script.ends_with("[exit 0]\n"), "{shell}");
    }
    let refused = transcript(&["completions tcsh"]);
    assert!(refused.ends_with("[exit 2]\n"), "{refused}");
}

#[test]
fn a_reader_that_leaves_early_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    let mut writer = Writer::create(&path, WriteOptions::default()).unwrap();
    for _ in 0..100_000 {
        writer.write(b"more than a pipe holds, all in all").unwrap();
    }
    writer.close().unwrap();
    let mut cat = Command::new(env!("CARGO_BIN_EXE_paddle"))
        .args(["recordio", "cat"])
        .arg(path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(cat.stdout.take());
    let output = cat.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}
