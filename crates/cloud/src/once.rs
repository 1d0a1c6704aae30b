//! Small files of the data directory that are drawn once: whichever of the servers that start
//! together is first makes one, and all use that one.

use crate::files::unusable;
use crate::random;
use contract::{Error, Kind, Result};
use disk::Access;
use rustix::fs::CWD;
use rustix::io::Errno;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// The text of a file that its owner alone may read; made of what `draw` gives if it is not there.
///
/// # Errors
/// It is empty: nothing of ours leaves such a file.
pub(crate) fn read_or_draw(path: &Path, draw: impl FnOnce() -> Result<String>) -> Result<String> {
    if let Some(text) = read(path)? {
        return Ok(text);
    }
    let partial = path.with_extension(format!("new-{}", random::word::<12>()?));
    disk::publish(&partial, Access::Private, draw()?.as_bytes())?;
    match disk::rename_new(CWD, &*partial, CWD, path) {
        Ok(()) => {}
        Err(Errno::EXIST) => fs::remove_file(&partial).map_err(unusable(&partial))?,
        Err(errno) => return Err(unusable(path)(errno.into())),
    }
    let folder = path.parent().unwrap_or(path);
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(unusable(folder))?;
    read(path)?.ok_or_else(|| {
        let message = "somebody has removed this file while the server started: start it again";
        Error::new(Kind::Damaged, message).with("file", path.display())
    })
}

fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) if text.trim().is_empty() => {
            let message = "this file is empty: bring back its copy";
            Err(Error::new(Kind::Damaged, message).with("file", path.display()))
        }
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(source) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(unusable(path)(source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn all_who_start_together_have_what_the_file_has() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let (path, barrier) = (folder.path().join("id"), Barrier::new(8));
            let open = || {
                read_or_draw(&path, || {
                    // Nobody has made it yet when the last one decides to.
                    barrier.wait();
                    random::word::<20>()
                })
            };
            let texts: Vec<String> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
            });
            let kept = fs::read_to_string(&path).unwrap();
            assert!(texts.iter().all(|text| *text == kept), "{texts:?} {kept}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }
}
