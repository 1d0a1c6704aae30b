//! The tar of `paddle.v2`: for each parameter `<name>`, its parameter file, and `<name>.protobuf`,
//! its description.
//!
//! A parameter of keys without a bound has `<name>.keys` in front of the two. Other members are
//! left alone. Callers compress, as the original does.
//!
//! The original never wrote the two blocks of zeros that end a tar, so a file that ends behind a
//! whole description is accepted. Ours always have them, and say in every member who wrote it:
//! without the end mark, one of ours was cut off.

use super::config::{self, CONFIG_BYTES_MAX};
use super::content::{self, Content, io_error};
use super::parameter_file::Numbers;
use crate::description::Description;
use crate::parameters::{Parameters, View};
use ::tar::{Archive, Builder, Entry, EntryType, Header};
use contract::{Error, Kind, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use table::model::{NAME_BYTES_MAX, PARAMETERS_MAX};

const CONFIG_SUFFIX: &str = ".protobuf";
const KEYS_SUFFIX: &str = ".keys";
/// Three for each parameter.
const MEMBERS_MAX: usize = PARAMETERS_MAX * 3;
const BLOCK_BYTES: usize = 512;
/// The owner of the members that are written here.
const WRITER: &str = "paddlecloud";

/// Writes all parameters as a tar.
pub fn to_tar(parameters: &Parameters, writer: impl Write, view: View) -> Result<()> {
    let mut builder = Builder::new(writer);
    for (place, description) in parameters.descriptions().iter().enumerate() {
        append(&mut builder, parameters, place, view)
            .map_err(|error| error.with("parameter", &description.name))?;
    }
    let mut writer = builder.into_inner().map_err(write_failed)?;
    writer.flush().map_err(write_failed)
}

/// Sets the parameters that are both in the model and in the tar.
///
/// # Errors
/// If a parameter has another size in the tar than in the model, or the tar is damaged.
pub fn init_from_tar(parameters: &Parameters, reader: impl Read) -> Result<()> {
    let mut keys: HashMap<usize, (u64, File)> = HashMap::new();
    walk(reader, &mut |member| {
        if let Some(name) = member.name.strip_suffix(KEYS_SUFFIX)
            && let Ok(place) = parameters.index(name)
            && parameters.descriptions()[place].elements().is_none()
        {
            let count = Numbers::Keys.read_header(&mut member.entry, member.bytes)?;
            keys.insert(place, (count, spool(&mut member.entry)?));
            return Ok(());
        }
        let Ok(place) = parameters.index(&member.name) else { return Ok(()) };
        let count = Numbers::Values.read_header(&mut member.entry, member.bytes)?;
        if parameters.descriptions()[place].elements().is_some() {
            return content::load(parameters, place, count, &mut member.entry);
        }
        let (rows, mut keys) = keys.remove(&place).ok_or_else(|| {
            Error::new(Kind::Damaged, "the keys of a sparse parameter must come before its rows")
        })?;
        content::check_counts(parameters, place, rows, count)?;
        content::load_rows(parameters, place, rows, (&mut keys, &mut member.entry))
    })
}

/// Makes a model of a tar alone. `seed` gives the rows of sparse parameters that it does not have.
///
/// Descriptions come behind the values that they describe, so the tar is copied to a temporary file
/// first and read twice.
pub fn from_tar(mut reader: impl Read, seed: u64) -> Result<Parameters> {
    let mut copy = spool(&mut reader)?;
    let mut descriptions: Vec<Description> = Vec::new();
    let mut data = Vec::new();
    walk(&copy, &mut |member| {
        let Some(name) = member.name.strip_suffix(CONFIG_SUFFIX) else {
            data.push(std::mem::take(&mut member.name));
            return Ok(());
        };
        if member.bytes > CONFIG_BYTES_MAX {
            return Err(Error::new(Kind::LimitExceeded, "a parameter's description is too long")
                .with("bytes", member.bytes)
                .with("limit", CONFIG_BYTES_MAX));
        }
        let mut bytes = Vec::new();
        member.entry.read_to_end(&mut bytes).map_err(read_failed)?;
        let description = config::decode(&bytes)?;
        if description.name != name {
            return Err(Error::new(Kind::Damaged, "a description is of another parameter")
                .with("described", &description.name));
        }
        descriptions.push(description);
        Ok(())
    })?;
    let parameters = Parameters::new(descriptions, seed)?;
    for description in parameters.descriptions() {
        if !data.contains(&description.name) {
            return Err(Error::new(
                Kind::Damaged,
                "the tar describes a parameter it does not have",
            )
            .with("parameter", &description.name));
        }
    }
    copy.seek(SeekFrom::Start(0)).map_err(read_failed)?;
    init_from_tar(&parameters, copy)?;
    Ok(parameters)
}

fn append(
    builder: &mut Builder<impl Write>,
    parameters: &Parameters,
    place: usize,
    view: View,
) -> Result<()> {
    let description = &parameters.descriptions()[place];
    let name = &description.name;
    for suffix in [CONFIG_SUFFIX, KEYS_SUFFIX] {
        if parameters.index(&format!("{name}{suffix}")).is_ok() {
            return Err(Error::invalid(
                "this parameter's name with .protobuf or .keys is another parameter's name, which \
                 a tar cannot tell apart; rename one",
            ));
        }
    }
    let Content { keys, values, count } = Content::open(parameters, place, view)?;
    if let Some((keys, count)) = keys {
        let bytes = Numbers::Keys.file_bytes(count);
        let header = Numbers::Keys.header(count);
        append_member(builder, &format!("{name}{KEYS_SUFFIX}"), bytes, header.chain(keys))?;
    }
    let header = Numbers::Values.header(count);
    append_member(builder, name, Numbers::Values.file_bytes(count), header.chain(values))?;
    let described = config::encode(description);
    let name = format!("{name}{CONFIG_SUFFIX}");
    append_member(builder, &name, described.len() as u64, &described[..])
}

fn append_member(
    builder: &mut Builder<impl Write>,
    name: &str,
    bytes: u64,
    reader: impl Read,
) -> Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(bytes);
    header.set_username(WRITER).map_err(write_failed)?;
    builder.append_data(&mut header, name, reader).map_err(write_failed)
}

/// A file in a tar.
struct Member<'a, R: Read> {
    name: String,
    bytes: u64,
    entry: Entry<'a, R>,
}

/// Shows all files of a tar, which must be complete.
fn walk<R: Read>(reader: R, show: &mut dyn FnMut(&mut Member<'_, R>) -> Result<()>) -> Result<()> {
    let mut archive = Archive::new(reader);
    let (mut is_ours, mut last) = (false, None);
    for (number, entry) in archive.entries().map_err(read_failed)?.enumerate() {
        let entry = entry.map_err(read_failed)?;
        if number >= MEMBERS_MAX {
            return Err(Error::new(Kind::LimitExceeded, "the tar has too many members")
                .with("limit", MEMBERS_MAX));
        }
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path_bytes().into_owned();
        if name.len() > NAME_BYTES_MAX + CONFIG_SUFFIX.len() {
            return Err(Error::new(Kind::LimitExceeded, "the name of a member is too long")
                .with("bytes", name.len()));
        }
        let name = String::from_utf8(name).map_err(|source| {
            Error::new(Kind::Damaged, "the name of a member is not UTF-8").because(source)
        })?;
        is_ours |= entry.header().username_bytes() == Some(WRITER.as_bytes());
        let mut member = Member { name, bytes: entry.size(), entry };
        let label = member.name.clone();
        show(&mut member).map_err(|error| error.with("member", &label))?;
        last = Some(label);
    }
    let cut_off =
        |what: &str| Err(Error::new(Kind::Damaged, format!("the tar was cut off: {what}")));
    match (ending(archive.into_inner())?, last) {
        (Ending::Mark, _) => Ok(()),
        (Ending::Nothing, None) => cut_off("there is nothing in it"),
        (Ending::Nothing, Some(_)) if is_ours => cut_off("it has no end mark"),
        (Ending::Nothing, Some(last)) if !last.ends_with(CONFIG_SUFFIX) => {
            cut_off("it ends without the description of its last parameter")
        }
        (Ending::Nothing, Some(_)) => Ok(()),
    }
}

/// What is behind the last member.
enum Ending {
    /// The end mark.
    Mark,
    /// At most half of it.
    Nothing,
}

/// The end mark is two blocks of zeros. The archive has read the first, if there was one.
fn ending(mut reader: impl Read) -> Result<Ending> {
    let mut block = Vec::new();
    reader.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block).map_err(read_failed)?;
    if block.is_empty() {
        return Ok(Ending::Nothing);
    }
    if block != [0; BLOCK_BYTES] {
        return Err(Error::new(Kind::Damaged, "the tar has no proper end mark"));
    }
    Ok(Ending::Mark)
}

/// Copies to a temporary file without a name, and goes to its beginning.
fn spool(reader: &mut dyn Read) -> Result<File> {
    let failed = |source| io_error("cannot copy to a temporary file", source);
    let mut file = tempfile::tempfile().map_err(failed)?;
    io::copy(reader, &mut file).map_err(failed)?;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(file)
}

fn write_failed(source: io::Error) -> Error {
    io_error("cannot write the tar", source)
}

fn read_failed(source: io::Error) -> Error {
    let is_other = source.kind() == io::ErrorKind::Other;
    let error = io_error("cannot read the tar", source);
    // The archive's own complaints have no kind.
    match is_other && error.kind() == Kind::Io {
        true => Error::new(Kind::Damaged, "the tar is damaged").because(error),
        false => error,
    }
}
