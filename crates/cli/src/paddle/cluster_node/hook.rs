//! `before_hook.sh` of what the user sent: it runs in the workspace before the training, as
//! `private_script <thirdparty> <workspace>` if it defines that function. A command in it that fails
//! ends it, and the job: half a workspace would train something else.

use super::ending::Ending;
use super::results::Results;
use super::trainer::Ended;
use super::workspace::Workspace;
use super::{say, trainer};
use contract::{Error, Kind, Result};
use std::process::Command;

/// Reads the script, then calls its function. `$1` is the script, `$2` and `$3` go to the function.
const CALL: &str = "set -e; hook=$1; shift; . \"$hook\"; \
                    if declare -F private_script > /dev/null; then private_script \"$@\"; fi";

/// Runs the hook, if there is one.
pub(super) fn run(workspace: &Workspace, results: &Results, ending: &Ending) -> Result<()> {
    let Some(thirdparty) = &workspace.thirdparty else { return Ok(()) };
    let hook = thirdparty.join("before_hook.sh");
    if !hook.is_file() {
        return Ok(());
    }
    say("running before_hook.sh");
    let mut command = Command::new("bash");
    command.args(["-c", CALL, "before_hook"]).arg(&hook).arg(thirdparty).arg(&workspace.root);
    command.current_dir(&workspace.root).envs(workspace.environment());
    // It has no business with the receiver.
    command.env_remove(contract::env::STAGE);
    let Ended { code, asked } = trainer::run(command, workspace, results, ending)?;
    match code {
        0 => Ok(()),
        _ if asked => Err(Error::new(Kind::Interrupted, "asked to end while before_hook.sh ran")),
        _ => Err(Error::new(Kind::Invalid, "before_hook.sh failed: its output is above")
            .with("code", code)
            .with("hook", hook.display())),
    }
}
