//! The workspace of a node: `rank-00000` and so on in the job's package, because trainers of one
//! machine may share that. It has what the original's had: the configuration, `thirdparty/<name>`,
//! `train.list`, `test.list`, `train_data_dir`, `test_data_dir`, `log` and `output`.

use super::{say, unusable};
use client::Receiver;
use contract::api::cluster_train::{Share, SharedFile};
use contract::{Error, Kind, Result};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A node's workspace.
pub(super) struct Workspace {
    /// The directory.
    pub(super) root: PathBuf,
    /// What was sent with the configuration, if something was: `thirdparty/<name>`.
    pub(super) thirdparty: Option<PathBuf>,
}

const THIRDPARTY: &str = "thirdparty";
/// What the data takes is free again at the end.
const DATA: [&str; 3] = ["train_data_dir", "test_data_dir", INIT_MODEL];
const INIT_MODEL: &str = "init_model_path";
/// What a file may unpack to.
const UNPACKED_BYTES_MAX: u64 = 1 << 40;

impl Workspace {
    /// Makes it, without what an earlier job left there.
    pub(super) fn make(rank: u32, nodes: u32, flags: &[String]) -> Result<Workspace> {
        let package = std::env::current_dir()
            .map_err(|source| Error::io("the job's package is not there", source))?;
        let root = package.join(format!("rank-{rank:05}"));
        match fs::remove_dir_all(&root) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(unusable(&root)(source));
            }
            _ => {}
        }
        for folder in ["log", "output"] {
            let folder = root.join(folder);
            fs::create_dir_all(&folder).map_err(unusable(&folder))?;
        }
        let config = flags.iter().find_map(|flag| flag.strip_prefix("--config="));
        let config = config.ok_or_else(|| Error::invalid("there is no --config"))?;
        fs::copy(package.join(config), root.join(config)).map_err(unusable(Path::new(config)))?;
        // Where a root of its own does not have them.
        write(&root.join("trainer_id"), &format!("{rank}\n"))?;
        write(&root.join("trainer_count"), &format!("{nodes}\n"))?;
        let sent = package.join(THIRDPARTY);
        let thirdparty = match fs::read_dir(&sent) {
            Err(_) => None,
            Ok(mut entries) => entries.next().transpose().map_err(unusable(&sent))?,
        };
        let thirdparty = thirdparty.map(|entry| root.join(THIRDPARTY).join(entry.file_name()));
        if thirdparty.is_some() {
            copy(&sent, &root.join(THIRDPARTY))?;
        }
        Ok(Workspace { root, thirdparty })
    }

    /// Fetches the data, and writes the lists.
    pub(super) fn stage(&self, receiver: &Receiver, share: &Share) -> Result<()> {
        let began = Instant::now();
        let bytes: u64 = share.files.iter().map(|file| file.bytes).sum();
        say(&format!("fetching {} files, {bytes} bytes", share.files.len()));
        let unpack = |file: &SharedFile, target: &Path| match share.decompress {
            true => unpack(file, target),
            false => Ok(()),
        };
        receiver.fetch(share, &self.root, unpack)?;
        for (name, lines) in [("train.list", &share.train_list), ("test.list", &share.test_list)] {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            write(&self.root.join(name), &text)?;
        }
        say(&format!("all data is here after {:.1} s", began.elapsed().as_secs_f64()));
        Ok(())
    }

    /// The variables of the hook and the trainer: what the user sent goes before all else.
    pub(super) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let Some(sent) = &self.thirdparty else {
            return vec![("PYTHONPATH", before([self.root.clone()], "PYTHONPATH"))];
        };
        let (root, lib) = (self.root.clone(), sent.join("lib"));
        vec![
            ("PATH", before([sent.join("bin"), sent.clone()], "PATH")),
            ("LD_LIBRARY_PATH", before([root.clone(), lib, sent.clone()], "LD_LIBRARY_PATH")),
            ("PYTHONPATH", before([root, sent.clone()], "PYTHONPATH")),
        ]
    }

    /// The command `paddle`: the one that the user sent, or this.
    pub(super) fn paddle(&self) -> Result<PathBuf> {
        let sent =
            self.thirdparty.iter().flat_map(|sent| [sent.join("bin/paddle"), sent.join("paddle")]);
        match sent.into_iter().find(|program| is_program(program)) {
            Some(program) => {
                say(&format!("using the private {}", program.display()));
                Ok(program)
            }
            None => Ok(crate::this_program()?.program),
        }
    }

    /// Adds to the log of the trainer.
    pub(super) fn note(&self, text: &str) -> Result<()> {
        let path = self.root.join("log/train.log");
        let opened = fs::File::options().create(true).append(true).open(&path);
        let written = opened.and_then(|mut log| log.write_all(text.as_bytes()));
        written.map_err(unusable(&path))
    }

    /// Removes the data.
    pub(super) fn clean(&self) {
        for name in DATA {
            // One that stays takes room until the next job of this name.
            let _ = fs::remove_dir_all(self.root.join(name));
        }
    }
}

/// Folders before what a variable has.
fn before(folders: impl IntoIterator<Item = PathBuf>, variable: &str) -> OsString {
    let old = std::env::var_os(variable).unwrap_or_default();
    let old: Vec<PathBuf> =
        std::env::split_paths(&old).filter(|path| !path.as_os_str().is_empty()).collect();
    std::env::join_paths(folders.into_iter().chain(old)).unwrap_or_default()
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(unusable(path))
}

/// Copies a directory. The hook may change what it gets.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(unusable(to))?;
    for entry in fs::read_dir(from).map_err(unusable(from))? {
        let entry = entry.map_err(unusable(from))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(unusable(&target))?;
        }
    }
    Ok(())
}

/// Unpacks a file that ends in `.gz`, and removes it.
fn unpack(file: &SharedFile, target: &Path) -> Result<()> {
    let Some(name) = file.target.strip_suffix(".gz") else { return Ok(()) };
    let plain = target.with_extension("");
    let packed = fs::File::open(target).map_err(unusable(target))?;
    let mut source = flate2::read::MultiGzDecoder::new(packed).take(UNPACKED_BYTES_MAX);
    let mut output = fs::File::create(&plain).map_err(unusable(&plain))?;
    let bytes = std::io::copy(&mut source, &mut output).map_err(|source| {
        Error::io("a file of the data is no gzip, or damaged", source).with("file", name)
    })?;
    if bytes >= UNPACKED_BYTES_MAX {
        return Err(Error::new(Kind::LimitExceeded, "a file of the data unpacks to too much")
            .with("file", name)
            .with("bytes_max", UNPACKED_BYTES_MAX));
    }
    fs::remove_file(target).map_err(unusable(target))
}
