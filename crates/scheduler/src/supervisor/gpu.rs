//! The GPUs of a machine, dealt out to replicas: no two that run have the same one.
//!
//! Who has a GPU is told by a lock beside the jobs' directories, which goes with its supervisor.

use super::lock::Lock;
use super::message::GpuWish;
use contract::Kind;
use std::path::{Path, PathBuf};

/// The variable that CUDA obeys.
pub(crate) const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";
/// Devices that are needed to use any.
const SHARED: [&str; 3] = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"];
/// Beside the directories of jobs.
const LOCKS: &str = ".gpus";

/// GPUs that one replica has, until this is dropped.
pub(super) struct Gpus(Vec<(String, Lock)>);

impl Gpus {
    /// Takes free ones. `supervisor` is the supervisor's directory, in that of the job.
    pub(super) fn acquire(wish: &GpuWish, supervisor: &Path) -> Result<Gpus, String> {
        let count = wish.count as usize;
        let mut taken = Vec::new();
        if count == 0 {
            return Ok(Gpus(taken));
        }
        let all = match wish.among.is_empty() {
            true => devices(Path::new("/dev")),
            false => wish.among.clone(),
        };
        let folder = supervisor.ancestors().nth(2).unwrap_or(supervisor).join(LOCKS);
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
        Ok(Gpus(taken))
    }

    /// The value of [`VISIBLE`]; empty to hide all.
    pub(super) fn visible(&self) -> String {
        self.0.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(",")
    }

    /// The files of these devices, as far as this machine has them.
    pub(super) fn devices(&self) -> Vec<PathBuf> {
        let path = |name: String| Path::new("/dev").join(name);
        let own = self.0.iter().map(|(name, _)| path(format!("nvidia{name}")));
        let shared =
            SHARED.iter().map(|name| path((*name).to_owned())).filter(|_| !self.0.is_empty());
        own.chain(shared).filter(|device| device.exists()).collect()
    }
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
        let supervisor = folder.path().join("job/machine");
        let among = ["0", "2", "GPU-7"].map(str::to_owned).to_vec();
        let acquire = |count| Gpus::acquire(&GpuWish { count, among: among.clone() }, &supervisor);
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
    fn the_devices_of_a_machine_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["nvidia10", "nvidia2", "nvidiactl", "null"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(devices(folder.path()), ["2", "10"]);
    }
}
