//! A host's side of a launch by ssh: it answers one launcher's requests until that closes the
//! connection. Starting processes is not among them; that is the supervisor's.

mod kill;
mod prepare;

pub(crate) use kill::JOB_PREFIX;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use contract::{Error, Kind, Result};
use tokio::io::{AsyncBufRead, AsyncWrite};

use super::MIRRORS;
use super::message::{self, Probed, Reply, Request};
use super::package::{Manifest, expand};
use super::transfer;

/// What the process knows of its host.
#[derive(Debug, Clone)]
pub struct Config {
    /// What `~` stands for.
    pub home: PathBuf,
    /// The directories that commands are looked for in.
    pub search_path: Vec<PathBuf>,
    /// The release of this program.
    pub release: String,
}

/// Answers requests until there are no more. A request that fails is answered, and ends it: what
/// follows on the stream may have been meant for the request that failed.
pub async fn run(
    config: &Config,
    input: &mut (impl AsyncBufRead + Unpin),
    output: &mut (impl AsyncWrite + Unpin),
) -> Result<()> {
    let opened = Reply::Opened { version: message::VERSION, release: config.release.clone() };
    message::write(output, &opened).await?;
    let mut node = Node { config, directory: None };
    while let Some(request) = message::read(input).await? {
        if let Err(error) = node.answer(request, input, output).await {
            return message::write(output, &Reply::failed(&error)).await;
        }
    }
    Ok(())
}

struct Node<'a> {
    config: &'a Config,
    /// The job's directory, once it is ready.
    directory: Option<PathBuf>,
}

impl Node<'_> {
    async fn answer(
        &mut self,
        request: Request,
        input: &mut (impl AsyncBufRead + Unpin),
        output: &mut (impl AsyncWrite + Unpin),
    ) -> Result<()> {
        match request {
            Request::Probe { nic, root_dir, will_copy } => {
                let probed = self.probe(&nic, &root_dir, will_copy)?;
                message::write(output, &Reply::Probed(probed)).await
            }
            Request::Prepare(request) => {
                let home = &self.config.home;
                let directory = prepare::prepare(&request, home, input, output).await?;
                let reply = Reply::Prepared { directory: text(&directory)? };
                self.directory = Some(directory);
                message::write(output, &reply).await
            }
            Request::Gather { name } => self.gather(&name, output).await,
            Request::Kill { root_dir, directory } => {
                let directories = kill::kill(&root_dir, directory.as_deref(), &self.config.home);
                message::write(output, &Reply::Killed { directories: directories.await? }).await
            }
        }
    }

    fn probe(&self, nic: &str, root_dir: &str, will_copy: bool) -> Result<Probed> {
        let root_dir = expand(root_dir, &self.config.home);
        if will_copy {
            std::fs::create_dir_all(root_dir.join(MIRRORS)).map_err(|source| {
                let message = "cannot write to ROOT_DIR: choose another, or let this user own it";
                Error::io(message, source).with("ROOT_DIR", root_dir.display())
            })?;
        }
        let search_path = std::env::join_paths(&self.config.search_path).unwrap_or_default();
        let has_rsync = |folder: &PathBuf| folder.join("rsync").is_file();
        Ok(Probed {
            address: if nic.is_empty() { None } else { Some(address_of(nic)?) },
            root_dir: text(&root_dir)?,
            has_rsync: self.config.search_path.iter().any(has_rsync),
            search_path: search_path.to_string_lossy().into_owned(),
        })
    }

    async fn gather(&self, name: &str, output: &mut (impl AsyncWrite + Unpin)) -> Result<()> {
        let Some(directory) = &self.directory else {
            return Err(Error::new(
                Kind::Conflict,
                "nothing can be gathered before it is prepared",
            ));
        };
        let folder = directory.join(name);
        let is_there = folder.is_dir();
        let leads_out = is_there && !is_inside(&folder, directory);
        if !is_there || leads_out {
            let message = "a link leads out of the job's directory, and is not followed";
            let refused = Error::invalid(message).with("path", name).to_string();
            let passed_over = leads_out.then_some(refused).into_iter().collect();
            let reply = Reply::Gathered { manifest: None, passed_over };
            return message::write(output, &reply).await;
        }
        let (manifest, passed_over) = Manifest::scan_what_can_be_copied(&folder)?;
        let passed_over = passed_over.iter().map(Error::to_string).collect();
        let reply = Reply::Gathered { manifest: Some(manifest.clone()), passed_over };
        message::write(output, &reply).await?;
        let paths = manifest.files_missing_in(&Manifest::default());
        transfer::send(&folder, &manifest, &paths, output, &|_| ()).await
    }
}

/// Whether a directory is inside the job's when its links are followed: programs may have made some.
fn is_inside(folder: &Path, directory: &Path) -> bool {
    match (folder.canonicalize(), directory.canonicalize()) {
        (Ok(folder), Ok(directory)) => folder.starts_with(directory),
        _ => false,
    }
}

fn text(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::invalid("a directory's name must be UTF-8").with("directory", path.display())
    })
}

/// The IPv4 address of a network interface of this machine.
pub fn address_of(nic: &str) -> Result<IpAddr> {
    let interfaces = if_addrs::get_if_addrs()
        .map_err(|source| Error::io("cannot list network interfaces", source))?;
    let is_it =
        |interface: &&if_addrs::Interface| interface.name == nic && interface.ip().is_ipv4();
    interfaces.iter().find(is_it).map(if_addrs::Interface::ip).ok_or_else(|| {
        let mut known: Vec<&str> = interfaces.iter().map(|known| known.name.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        let message = "no such network interface: set PADDLE_NIC or --nics to one of the known, \
                       or to nothing for all";
        Error::invalid(message).with("nic", nic).with("known", known.join(","))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tokio::io::BufReader;

    /// What comes of a request for a directory of the job, in words.
    async fn gather(directory: &Path, name: &str) -> (Option<Manifest>, Vec<String>) {
        let config =
            Config { home: PathBuf::from("/"), search_path: Vec::new(), release: String::new() };
        let node = Node { config: &config, directory: Some(directory.to_owned()) };
        let mut output = Vec::new();
        node.gather(name, &mut output).await.unwrap();
        let reply = message::read(&mut BufReader::new(output.as_slice())).await.unwrap();
        let Some(Reply::Gathered { manifest, passed_over }) = reply else { panic!("{reply:?}") };
        (manifest, passed_over)
    }

    #[tokio::test]
    async fn a_link_out_of_the_jobs_directory_is_not_gathered() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("job");
        std::fs::create_dir_all(job.join("kept/deep")).unwrap();
        std::fs::create_dir_all(folder.path().join("secret/deep")).unwrap();
        symlink("../secret", job.join("log")).unwrap();
        symlink("/", job.join("output")).unwrap();
        symlink("kept", job.join("inside")).unwrap();
        for name in ["log", "log/deep", "output"] {
            let (manifest, passed_over) = gather(&job, name).await;
            assert_eq!(manifest, None, "{name}");
            let why = format!(
                "a link leads out of the job's directory, and is not followed (path: {name})"
            );
            assert_eq!(passed_over, [why]);
        }
        for name in ["kept", "inside"] {
            let (manifest, passed_over) = gather(&job, name).await;
            assert!(manifest.unwrap().0.contains_key("deep"), "{name}");
            assert_eq!(passed_over, Vec::<String>::new());
        }
        assert_eq!(gather(&job, "none").await, (None, Vec::new()));
    }
}
