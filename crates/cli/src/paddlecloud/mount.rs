//! `paddlecloud mount`: the files of the cloud as a directory of this machine.

use std::path::PathBuf;

/// Show the cloud's files in a directory
///
///   paddlecloud mount /mnt/cloud           /mnt/cloud/DATACENTER/home/USER and .../public
///   paddlecloud mount /pfs                 the very paths that jobs see
///   paddlecloud mount -path /pfs/DATACENTER/home/USER/data ./data
///   umount /mnt/cloud                      ends it; fusermount3 -u for users other than root
///
/// The command comes back when the files are there. A file appears in the cloud, whole, when the
/// program that wrote it closes it; if it cannot, closing it fails. What another machine changes is
/// seen after a second. Needs Linux; users other than root need fusermount3 (package fuse3).
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment, about = "Show the cloud's files in a directory")]
pub(crate) struct Args {
    /// An empty directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Only this directory of the cloud
    #[arg(long, value_name = "PFSPATH")]
    path: Option<String>,
    /// Stay in the foreground; Ctrl-C unmounts
    #[arg(short, long)]
    foreground: bool,
    /// Let other users of this machine in, who then act as you
    #[arg(long = "allow-other", alias = "allow_other")]
    allow_other: bool,
    /// Change nothing
    #[arg(long = "read-only", alias = "read_only")]
    read_only: bool,
    /// The user that files seem to belong to [default: you]
    #[arg(long, value_name = "UID")]
    uid: Option<u32>,
    /// The group that files seem to belong to [default: yours]
    #[arg(long, value_name = "GID")]
    gid: Option<u32>,
    /// Memory for contents that were read, in MiB
    #[arg(long, value_name = "MB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(16..=65536))]
    cachesize: u64,
    /// After so many seconds without the server, programs get an error
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Says on standard output when it is there, and leaves the terminal.
    #[arg(long, hide = true, requires = "foreground")]
    detached: bool,
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &crate::args::Globals, _: &Args) -> contract::Result<std::process::ExitCode> {
    let message = "mount needs Linux: use `paddlecloud sync` or `paddlecloud cp` on this system";
    Err(contract::Error::new(contract::Kind::Unsupported, message))
}

#[cfg(target_os = "linux")]
pub(crate) use linux::run;

#[cfg(target_os = "linux")]
mod linux {
    use super::Args;
    use crate::args::Globals;
    use crate::cloud::{profile, say};
    use cli::output::Output;
    use client::Client;
    use contract::{Error, Kind, Result};
    use std::fs::File;
    use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
    use std::path::{Path, PathBuf};
    use std::process::{Command, ExitCode, Stdio};
    use std::time::Duration;

    /// What the one in the background says when it is there.
    const READY: &str = "mounted";

    pub(crate) fn run(globals: &Globals, args: &Args) -> Result<ExitCode> {
        match args.foreground {
            true => serve(globals, args),
            false => start(globals, args),
        }
    }

    fn serve(globals: &Globals, args: &Args) -> Result<ExitCode> {
        if args.detached {
            // A terminal that goes away takes nothing along.
            rustix::process::setsid()
                .map_err(|errno| Error::io("cannot leave the terminal", errno.into()))?;
        }
        let client = Client::open(&profile(globals)?)?;
        let client = client.with_patience(Duration::from_secs(args.timeout))?;
        let part = args.path.as_ref().map(|path| client.pfs_path(path)).transpose()?;
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let options = mount::Options {
            directory: args.directory.clone(),
            part,
            owner: (args.uid.unwrap_or(own.0), args.gid.unwrap_or(own.1)),
            allow_other: args.allow_other,
            is_read_only: args.read_only,
            cache_bytes: args.cachesize << 20,
            scratch: scratch(),
            notice: say,
        };
        let mounted = mount::mount(client, options)?;
        match args.detached {
            true => {
                let mut output = Output::open();
                output.line(READY)?;
                output.close()?;
            }
            false => say(&format!("mounted at {}", args.directory.display())),
        }
        mounted.run()?;
        Ok(ExitCode::SUCCESS)
    }

    /// Starts the same command in the background, and waits until it is ready.
    fn start(globals: &Globals, args: &Args) -> Result<ExitCode> {
        let failed = |source| Error::io("cannot start it in the background", source);
        let log = profile(globals)?.home.join(".paddle").join("mount.log");
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = File::options().create(true).append(true).open(&log);
        let file = file.map_err(|source| {
            Error::io("cannot write the log", source).with("file", log.display())
        })?;
        let before = file.metadata().map_err(failed)?.len();
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .args(words(globals, args)?)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        // It ends by itself if the server does not answer.
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(failed)?;
        }
        if line.trim_end() == READY {
            say(&format!("mounted at {}; {} has its log", args.directory.display(), log.display()));
            return Ok(ExitCode::SUCCESS);
        }
        let status = child.wait().map_err(failed)?;
        let said = since(&log, before).unwrap_or_default();
        let said = said.trim_end().lines().next_back().unwrap_or_default().to_owned();
        let said = said.strip_prefix("paddlecloud: ").unwrap_or(&said).to_owned();
        let kind = if status.code() == Some(2) { Kind::Invalid } else { Kind::Io };
        let why = if said.is_empty() { format!("it ended with {status}") } else { said };
        Err(Error::new(kind, why))
    }

    /// The line of the one in the background, which has another current directory.
    fn words(globals: &Globals, args: &Args) -> Result<Vec<String>> {
        let absolute = |path: &Path| {
            let whole = std::path::absolute(path)
                .map_err(|source| Error::io("cannot read a path", source))?;
            whole.into_os_string().into_string().map_err(|path| {
                Error::invalid("a path is no UTF-8").with("path", path.to_string_lossy())
            })
        };
        let mut words = vec!["mount".to_owned()];
        let mut option = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("--{name}={value}")));
        };
        option("config", globals.config.as_deref().map(absolute).transpose()?);
        option("datacenter", globals.datacenter.clone());
        option("path", args.path.clone());
        option("uid", args.uid.map(|uid| uid.to_string()));
        option("gid", args.gid.map(|gid| gid.to_string()));
        option("cachesize", Some(args.cachesize.to_string()));
        option("timeout", Some(args.timeout.to_string()));
        for (name, is_set) in [("allow-other", args.allow_other), ("read-only", args.read_only)] {
            words.extend(is_set.then(|| format!("--{name}")));
        }
        words.extend(["--foreground", "--detached", "--"].map(str::to_owned));
        words.push(absolute(&args.directory)?);
        Ok(words)
    }

    fn since(log: &Path, offset: u64) -> std::io::Result<String> {
        let mut file = File::open(log)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut text = String::new();
        file.take(64 << 10).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Where files are that are being written: on a disk, unless somebody says otherwise.
    fn scratch() -> PathBuf {
        match std::env::var_os("TMPDIR").filter(|directory| !directory.is_empty()) {
            Some(directory) => directory.into(),
            None => PathBuf::from("/var/tmp"),
        }
    }
}
