//! Whether machines share a folder: one writes a file, the others look for it.

use super::message::{Event, Probe, ProbeAction};
use std::io::ErrorKind;
use std::time::Duration;

/// A network file system may show what another machine wrote only after a while.
const LOOKS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// Does what the probe asks for, in a folder that is made if it is missing.
pub(super) async fn answer(probe: &Probe) -> Event {
    let problem = match probe.action {
        ProbeAction::Write => written(probe).err(),
        ProbeAction::Find => found(probe).await.err(),
        ProbeAction::Remove => std::fs::remove_file(probe.folder.join(&probe.name)).err(),
    };
    Event::Probed { problem: problem.map(|error| error.to_string()) }
}

fn written(probe: &Probe) -> std::io::Result<()> {
    std::fs::create_dir_all(&probe.folder)?;
    std::fs::write(probe.folder.join(&probe.name), "")
}

async fn found(probe: &Probe) -> std::io::Result<()> {
    std::fs::create_dir_all(&probe.folder)?;
    for _ in 0..LOOKS {
        // A listing is asked of the file server anew where the absence of a name may be remembered.
        let names: Vec<_> =
            std::fs::read_dir(&probe.folder)?.flatten().map(|entry| entry.file_name()).collect();
        if names.iter().any(|name| name.to_str() == Some(&probe.name)) {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(std::io::Error::new(ErrorKind::NotFound, "it does not see what another machine wrote"))
}
