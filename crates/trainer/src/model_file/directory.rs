//! The original's pass directory: `pass-00000/` with a parameter file for each parameter, and
//! `done` last, without which it does not count.

use super::content::{self, Content, io_error};
use super::parameter_file::Numbers;
use crate::parameters::Parameters;
use crate::values::{DescriptionIndex, View};
use contract::{Error, Kind, Result};
use disk::{Access, PendingFile};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};

const DONE: &str = "done";
/// What a training in this process is beyond its values, see [`crate::updater::Updater`].
const STATE: &str = "trainer_state";

/// Writes what a training needs to go on.
pub type WriteState<'a> = dyn Fn(&mut dyn Write) -> Result<()> + 'a;

/// What a pass directory has beside the parameters.
#[derive(Default)]
pub struct Beside<'a> {
    /// Names and contents of further files.
    pub files: Vec<(String, Vec<u8>)>,
    /// Writes the state of the training.
    pub state: Option<&'a WriteState<'a>>,
}

/// What to do about a parameter that the directory does not have, as
/// `load_missing_parameter_strategy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missing {
    /// Fail.
    #[default]
    Fail,
    /// Leave the values as they are: if nobody has set them, their first ones.
    Rand,
    /// Set it to 0.
    Zero,
}

impl std::str::FromStr for Missing {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "fail" => Ok(Missing::Fail),
            "rand" => Ok(Missing::Rand),
            "zero" => Ok(Missing::Zero),
            _ => Err(Error::invalid("load_missing_parameter_strategy is fail, rand or zero")
                .with("value", text)),
        }
    }
}

/// Where a pass is saved.
pub fn pass_directory(save_dir: &Path, pass: u64) -> PathBuf {
    save_dir.join(format!("pass-{pass:05}"))
}

/// Saves all parameters as `pass-%05d` in `save_dir`. Returns its path.
pub fn save_pass(
    parameters: &Parameters,
    save_dir: &Path,
    pass: u64,
    view: View,
) -> Result<PathBuf> {
    let path = pass_directory(save_dir, pass);
    save_directory(parameters, &path, view, &Beside::default())?;
    Ok(path)
}

/// Saves all parameters as a directory, which appears complete or not at all; what was saved there
/// before is replaced.
pub fn save_directory(
    parameters: &Parameters,
    path: &Path,
    view: View,
    beside: &Beside<'_>,
) -> Result<()> {
    disk::publish_folder(path, |folder| {
        for (name, content) in &beside.files {
            if !is_file_name(name) || name == STATE || parameters.index(name).is_ok() {
                return Err(Error::invalid(
                    "a file of this name cannot be beside the parameters; rename it",
                )
                .with("file", name));
            }
            disk::publish(&folder.join(name), Access::Ordinary, content)?;
        }
        if let Some(state) = beside.state {
            let mut file = PendingFile::create(&folder.join(STATE), Access::Ordinary)?;
            state(&mut file)?;
            file.publish()?;
        }
        for (index, description) in parameters.indices().zip(parameters.descriptions()) {
            check_name(&description.name)?;
            let mut content = Content::open(parameters, index, view)?;
            if let Some((keys, count)) = &mut content.keys {
                let name = keys_name(&description.name);
                if parameters.index(&name).is_ok() {
                    return Err(Error::invalid(
                        "two parameters would be the same file; rename one",
                    )
                    .with("parameter", name));
                }
                write_numbers(&folder.join(name), Numbers::Keys, *count, keys)?;
            }
            let file = folder.join(&description.name);
            write_numbers(&file, Numbers::Values, content.count, &mut content.values)?;
        }
        let text = concat!("paddle ", env!("CARGO_PKG_VERSION"), "\n");
        disk::publish(&folder.join(DONE), Access::Ordinary, text.as_bytes())
    })
    .map_err(|error| error.with("directory", path.display()))
}

/// Opens the state of the training in a saved directory, with its length in bytes; `None` if it has
/// none.
pub fn open_state(directory: &Path) -> Result<Option<(impl Read, u64)>> {
    let failed = |source| {
        Error::io("cannot read the state of the training", source)
            .with("directory", directory.display())
    };
    let path = directory.join(STATE);
    if !path.is_file() {
        return Ok(None);
    }
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    Ok(Some((BufReader::new(file), bytes)))
}

/// Loads all parameters from a pass directory; the names of those that it does not have.
///
/// # Errors
/// If a parameter has another size, or one is missing and `missing` says so, or all are; also
/// without `done`, unless parameters may be missing: a folder that somebody filled by hand, with a
/// table that was learnt elsewhere say, has none.
pub fn load_pass(
    parameters: &Parameters,
    directory: &Path,
    missing: Missing,
) -> Result<Vec<String>> {
    load(parameters, directory, missing)
        .map_err(|error| error.with("directory", directory.display()))
}

fn load(parameters: &Parameters, directory: &Path, missing: Missing) -> Result<Vec<String>> {
    if !directory.is_dir() {
        return Err(Error::new(Kind::NotFound, "there is no such saved pass"));
    }
    if missing == Missing::Fail && !directory.join(DONE).is_file() {
        return Err(Error::new(
            Kind::NotFound,
            "this is not a saved pass, or saving it was not finished: it has no file `done`",
        ));
    }
    let mut absent = Vec::new();
    for (index, description) in parameters.indices().zip(parameters.descriptions()) {
        let name = &description.name;
        check_name(name)?;
        let file = directory.join(name);
        if !file.is_file() {
            fill_missing(parameters, index, missing)?;
            absent.push(name.clone());
            continue;
        }
        let named = |error: Error| error.with("parameter", name);
        let (count, mut values) = open_numbers(&file, Numbers::Values).map_err(named)?;
        if description.elements().is_some() {
            content::load(parameters, index, count, &mut values)?;
            continue;
        }
        let keys_file = directory.join(keys_name(name));
        let (keys, mut keys_reader) = open_numbers(&keys_file, Numbers::Keys).map_err(named)?;
        content::check_counts(parameters, index, keys, count)?;
        content::load_rows(parameters, index, keys, (&mut keys_reader, &mut values))?;
    }
    if !absent.is_empty() && absent.len() == parameters.descriptions().len() {
        let message = "the directory has none of the parameters: it is of another model";
        return Err(Error::new(Kind::NotFound, message).with("first", &absent[0]));
    }
    Ok(absent)
}

fn fill_missing(parameters: &Parameters, index: DescriptionIndex, missing: Missing) -> Result<()> {
    let name = &parameters.description(index).name;
    match missing {
        Missing::Rand => Ok(()),
        Missing::Zero => {
            let elements = parameters.elements(index)?;
            content::load(parameters, index, elements, &mut std::io::repeat(0))
        }
        Missing::Fail => Err(Error::new(
            Kind::NotFound,
            "the directory does not have this parameter; to begin it anew, set \
             load_missing_parameter_strategy to rand or zero",
        )
        .with("parameter", name)),
    }
}

fn keys_name(name: &str) -> String {
    format!("{name}.keys")
}

/// A parameter's name is its file's: it must stay in the folder and clear of its other files.
fn check_name(name: &str) -> Result<()> {
    if is_file_name(name) && ![DONE, STATE, "path.txt"].contains(&name) {
        return Ok(());
    }
    Err(Error::new(
        Kind::Unsupported,
        "a parameter of this name cannot be a file of its own; rename it, or save the model as \
         tar or safetensors",
    )
    .with("parameter", name))
}

fn is_file_name(name: &str) -> bool {
    Path::new(name).file_name() == Some(name.as_ref()) && !name.contains(['/', '\\', '\0'])
}

fn write_numbers(path: &Path, numbers: Numbers, count: u64, reader: &mut dyn Read) -> Result<()> {
    let failed = |source| io_error("cannot write a parameter", source).with("file", path.display());
    let mut file = PendingFile::create(path, Access::Ordinary)?;
    file.write_all(&numbers.header(count)).map_err(failed)?;
    std::io::copy(reader, &mut file).map_err(failed)?;
    file.publish()
}

fn open_numbers(path: &Path, numbers: Numbers) -> Result<(u64, BufReader<File>)> {
    let failed = |source| Error::io("cannot read", source).with("file", path.display());
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::new(file);
    let count = numbers
        .read_header(&mut reader, bytes)
        .map_err(|error| error.with("file", path.display()))?;
    Ok((count, reader))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_the_folder_are_refused() {
        for name in ["..", ".", "/a", "a/b", "a/", "done", "a\\b", "path.txt"] {
            assert!(check_name(name).is_err(), "{name}");
        }
        check_name("___fc_layer_0__.w0").unwrap();
    }

    #[test]
    fn strategies_have_the_originals_names() {
        let parse = |text: &str| text.parse::<Missing>();
        assert_eq!(parse("rand").unwrap(), Missing::Rand);
        assert!(parse("Fail").is_err());
    }
}
