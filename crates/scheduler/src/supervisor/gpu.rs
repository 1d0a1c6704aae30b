//! The GPUs of a machine, dealt out to replicas: no two that run have the same one.
//!
//! Who has a GPU is told by a lock that goes with its supervisor, in a folder that all supervisors
//! of one user on one machine share.

use super::lock::Lock;
use contract::Kind;
use std::path::{Path, PathBuf};

/// The variable that CUDA obeys.
pub const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// Devices that are needed to use any.
const SHARED: [&str; 3] = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"];
/// The folder of the locks, among the directories of jobs.
pub(crate) const LOCKS: &str = ".gpus";

/// The GPUs of a machine that a supervisor may give to its replicas.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Where it is noted who has which. Machines that share their files have folders of their own in
    /// it.
    pub locks: PathBuf,
    /// Those that may be used, in the words of CUDA; empty for all of the machine.
    pub among: Vec<String>,
}

impl Pool {
    /// The GPUs that a value of [`VISIBLE`] names, empty for all.
    pub fn new(locks: PathBuf, visible: &str) -> Pool {
        let among = visible.split(',').map(str::trim).filter(|name| !name.is_empty());
        Pool { locks, among: among.map(str::to_owned).collect() }
    }
}

/// GPUs that one replica has, until this is dropped.
pub(super) struct Gpus {
    taken: Vec<(String, Lock)>,
    hides_others: bool,
}

impl Gpus {
    /// Takes free ones. `hides_others` says that the replica sees the devices of its own alone.
    pub(super) fn acquire(pool: &Pool, count: u32, hides_others: bool) -> Result<Gpus, String> {
        let count = count as usize;
        let mut taken = Vec::new();
        if count == 0 {
            return Ok(Gpus { taken, hides_others });
        }
        let all = match pool.among.is_empty() {
            true => devices(Path::new("/dev")),
            false => pool.among.clone(),
        };
        if let (true, Some(name)) = (hides_others, all.iter().find(|name| !is_number(name))) {
            return Err(format!(
                "the device of the GPU {name} is not known, so a sandbox cannot show it: use \
                 numbers in {VISIBLE}"
            ));
        }
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let folder = pool.locks.join(machine);
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot note who has which GPU: {error}"))?;
        for name in &all {
            if taken.len() == count {
                break;
            }
            // A name may be anything that CUDA understands.
            let file = name.replace('/', "_");
            match Lock::acquire(&folder.join(file)) {
                Ok(lock) => taken.push((name.clone(), lock)),
                Err(error) if error.kind() == Kind::Conflict => {}
                Err(error) => return Err(format!("cannot note who has which GPU: {error}")),
            }
        }
        if taken.len() < count {
            let (all, free) = (all.len(), taken.len());
            return Err(format!(
                "it wants {count} GPUs: this machine has {all}, of which {free} are free"
            ));
        }
        Ok(Gpus { taken, hides_others })
    }

    /// The value of [`VISIBLE`]; empty to hide all. CUDA counts the devices that it can open, so a
    /// replica that sees its own alone has the first ones.
    pub(super) fn visible(&self) -> String {
        let name = |(place, (name, _)): (usize, &(String, Lock))| match self.hides_others {
            true => place.to_string(),
            false => name.clone(),
        };
        self.taken.iter().enumerate().map(name).collect::<Vec<_>>().join(",")
    }

    /// The files of these devices, as far as this machine has them.
    pub(super) fn devices(&self) -> Vec<PathBuf> {
        let path = |name: String| Path::new("/dev").join(name);
        let own = self.taken.iter().map(|(name, _)| path(format!("nvidia{name}")));
        let shared =
            SHARED.iter().map(|name| path((*name).to_owned())).filter(|_| !self.taken.is_empty());
        own.chain(shared).filter(|device| device.exists()).collect()
    }
}

fn is_number(name: &str) -> bool {
    name.parse::<u32>().is_ok()
}

/// The numbers of the GPUs that have a device in a directory.
fn devices(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |entry: std::fs::DirEntry| {
        entry.file_name().to_str()?.strip_prefix("nvidia")?.parse::<u32>().ok()
    };
    let mut numbers: Vec<u32> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers.iter().map(u32::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_gpu_is_given_to_two_and_each_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::new(folder.path().join(".gpus"), "0, 2,GPU-7");
        let acquire = |count| Gpus::acquire(&pool, count, false);
        let first = acquire(2).unwrap();
        assert_eq!(first.visible(), "0,2");
        assert_eq!(acquire(1).unwrap().visible(), "GPU-7");
        assert_eq!(acquire(0).unwrap().visible(), "");
        let refused = acquire(2).err().unwrap();
        assert_eq!(refused, "it wants 2 GPUs: this machine has 3, of which 1 are free");
        drop(first);
        assert_eq!(acquire(3).unwrap().visible(), "0,2,GPU-7");
    }

    #[test]
    fn who_sees_only_its_own_devices_counts_them_from_zero() {
        let folder = tempfile::tempdir().unwrap();
        let acquire = |visible: &str, count| {
            Gpus::acquire(&Pool::new(folder.path().to_owned(), visible), count, true)
        };
        let first = acquire("2,3,5", 1).unwrap();
        let second = acquire("2,3,5", 2).unwrap();
        assert_eq!((first.visible(), second.visible()), ("0".into(), "0,1".into()));
        let own: Vec<_> = second.taken.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(own, ["3", "5"]);
        let refused = acquire("GPU-7", 1).err().unwrap();
        assert!(refused.starts_with("the device of the GPU GPU-7 is not known"), "{refused}");
    }

    #[test]
    fn the_devices_of_a_machine_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["nvidia10", "nvidia2", "nvidiactl", "null"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(devices(folder.path()), ["2", "10"]);
    }
}
