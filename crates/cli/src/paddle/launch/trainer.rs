//! How `paddle launch` starts trainers: by a program, or by `paddle train` if there is a V1
//! configuration.

use super::args::Args;
use super::submission::{Refusal, search_path};
use cli::flags::SHARED;
use cli::program;
use contract::job::JobSpec;
use contract::{Error, Result};
use std::path::Path;

/// Flags that differ from trainer to trainer, or that servers are known by.
const OWN: [&str; 4] = ["--trainer_id", "--pservers", "--num_gradient_servers", "--start_pserver"];

/// Trainers in a directory of this machine.
pub(super) fn set_here(
    spec: &mut JobSpec,
    args: &Args,
    workspace: &Path,
) -> std::result::Result<(), Refusal> {
    if set_configuration(spec, args)? {
        return Ok(());
    }
    let search_path = search_path(args);
    let words = program::with_interpreter(&args.program, Some(&search_path));
    let place = program::Whereabouts { workspace, search_path: Some(&search_path) };
    program::check(&words, place)?;
    spec.program = words;
    Ok(())
}

/// Trainers on other machines, where, as the documents do it, the package's `train.py` is run
/// unless something else is named.
pub(super) fn set_elsewhere(spec: &mut JobSpec, args: &Args) -> Result<()> {
    if set_configuration(spec, args)? {
        return Ok(());
    }
    spec.program = match args.program.is_empty() {
        false => program::with_interpreter(&args.program, None),
        true => {
            let program = ["python".to_owned(), "train.py".to_owned()].into_iter();
            program.chain(args.trainer_flags.iter().cloned()).collect()
        }
    };
    Ok(())
}

/// Takes `--config` and the other flags of the trainer; false if a program is run instead.
fn set_configuration(spec: &mut JobSpec, args: &Args) -> Result<bool> {
    let flags = &args.trainer_flags;
    if let Some(flag) = OWN.iter().find(|flag| flags.iter().any(|given| name(given) == **flag)) {
        let message = "this flag is set by the launcher, for each trainer: leave it out";
        return Err(Error::invalid(message).with("flag", flag));
    }
    let is_local = |flag: &&String| {
        name(flag) == "--local" && !["--local=0", "--local=false"].contains(&flag.as_str())
    };
    if let Some(flag) = flags.iter().find(is_local) {
        let message = "a launched job trains on its servers: leave this flag out, or train here \
                       with `paddle train`";
        return Err(Error::invalid(message).with("flag", flag));
    }
    if !args.program.is_empty() {
        // Those that mean something to the launcher too are in the environment.
        let is_shared = |flag: &&String| {
            name(flag).strip_prefix("--").is_some_and(|name| SHARED.contains(&name))
        };
        let mut strange = flags.iter().filter(|flag| flag.starts_with('-') && !is_shared(flag));
        return match strange.next() {
            None => Ok(false),
            Some(flag) if name(flag) == "--config" => {
                let message = "trainers run this configuration or a program: leave one out, or \
                               write the flag after the program if it is the program's";
                Err(Error::invalid(message).with("flag", flag))
            }
            Some(flag) => {
                let message = "this flag is not the launcher's: write it after the program";
                Err(Error::invalid(message).with("flag", flag))
            }
        };
    }
    let Some((mut config, mut rest)) = take(flags, "--config") else { return Ok(false) };
    // The last one counts, as with every flag of the trainer.
    while let Some((later, without)) = take(&rest, "--config") {
        (config, rest) = (later, without);
    }
    if config.is_empty() {
        return Err(Error::invalid("--config needs the path of a configuration"));
    }
    (spec.topology, spec.topology_flags) = (config, rest);
    Ok(true)
}

fn name(flag: &str) -> &str {
    flag.split('=').next().unwrap_or_default()
}

/// The value of a flag, and all other words.
fn take(words: &[String], flag: &str) -> Option<(String, Vec<String>)> {
    let at = words.iter().position(|word| name(word) == flag)?;
    let mut rest = words.to_vec();
    let word = rest.remove(at);
    let value = match word.split_once('=') {
        Some((_, value)) => value.to_owned(),
        None if at < rest.len() => rest.remove(at),
        None => String::new(),
    };
    Some((value, rest))
}
