//! The tar of `paddle.v2`: for each parameter `<name>`, its parameter file, and `<name>.protobuf`,
//! its description.
//!
//! A parameter of keys without a bound has `<name>.keys` in front of the two. The last member is
//! `checksums.json`. Tars of the original have no checksums: of these the structure is checked, and
//! that values and descriptions agree. Callers compress, as the original does.
//!
//! The original never wrote the two blocks of zeros that end a tar, so a file that ends behind a
//! whole description is accepted. Ours always have them, and say in every member who wrote it:
//! without the end mark, one of ours was cut off.

use super::checksums::{self, Checksums, Summing};
use super::config::{self, CONFIG_BYTES_MAX};
use super::content::{self, Content, io_error};
use super::parameter_file::Numbers;
use crate::description::Description;
use crate::parameters::Parameters;
use crate::values::{DescriptionIndex, View};
use ::tar::{Archive, Builder, Entry, EntryType, Header};
use contract::{Error, Kind, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use table::model::{NAME_BYTES_MAX, PARAMETERS_MAX};

const CONFIG_SUFFIX: &str = ".protobuf";
const KEYS_SUFFIX: &str = ".keys";
/// Three for each parameter, and the checksums.
const MEMBERS_MAX: usize = PARAMETERS_MAX * 3 + 1;
/// A name with every character escaped, and the numbers beside it.
const CHECKSUMS_BYTES_MAX: u64 = MEMBERS_MAX as u64 * (NAME_BYTES_MAX as u64 * 6 + 128);
const BLOCK_BYTES: usize = 512;
/// The user in the headers of our tars: one with it and without checksums has lost them.
const OWNER: &str = "paddlecloud";

/// Writes all parameters as a tar.
pub fn to_tar(parameters: &Parameters, writer: impl Write, view: View) -> Result<()> {
    let mut tar = TarWriter { builder: Builder::new(writer), checksums: Checksums::new() };
    for (index, description) in parameters.indices().zip(parameters.descriptions()) {
        tar.append(parameters, index, view)
            .map_err(|error| error.with("parameter", &description.name))?;
    }
    let checksums = tar.checksums.encode()?;
    tar.append_member(checksums::NAME, checksums.len() as u64, &checksums[..])?;
    let mut writer = tar.builder.into_inner().map_err(write_failed)?;
    writer.flush().map_err(write_failed)
}

/// Sets the parameters that are both in the model and in the tar.
///
/// The tar is copied to a temporary file and checked before anything is set.
///
/// # Errors
/// If a parameter has another size in the tar than in the model, the two have none in common, or
/// the tar is damaged.
pub fn init_from_tar(parameters: &Parameters, mut reader: impl Read) -> Result<()> {
    let mut copy = spool(&mut reader)?;
    let descriptions = check(&mut copy)?;
    if !descriptions.iter().any(|described| parameters.index(&described.name).is_ok()) {
        return Err(Error::invalid(
            "the tar has none of the model's parameters; load a tar of the same network, or give \
             the parameters the names of the tar's",
        )
        .with("in the tar", listing(&descriptions))
        .with("in the model", listing(parameters.descriptions())));
    }
    for described in &descriptions {
        if let (Ok(index), Some(elements)) =
            (parameters.index(&described.name), described.elements())
        {
            content::check_size(parameters, index, elements)?;
        }
    }
    load(parameters, copy)
}

/// Names, for a message.
fn listing(descriptions: &[Description]) -> String {
    const SHOWN: usize = 5;
    let names: Vec<&str> = descriptions.iter().take(SHOWN).map(|one| one.name.as_str()).collect();
    let more = if descriptions.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

fn load(parameters: &Parameters, tar: File) -> Result<()> {
    let mut keys: BTreeMap<DescriptionIndex, (u64, File)> = BTreeMap::new();
    walk(tar, &mut |member| {
        if let Some(name) = member.name.strip_suffix(KEYS_SUFFIX)
            && let Ok(index) = parameters.index(name)
            && parameters.description(index).elements().is_none()
        {
            let count = Numbers::Keys.read_header(&mut member.entry, member.bytes)?;
            keys.insert(index, (count, spool(&mut member.entry)?));
            return Ok(());
        }
        let Ok(index) = parameters.index(&member.name) else { return Ok(()) };
        let count = Numbers::Values.read_header(&mut member.entry, member.bytes)?;
        if parameters.description(index).elements().is_some() {
            return content::load(parameters, index, count, &mut member.entry);
        }
        let (rows, mut keys) = keys.remove(&index).ok_or_else(|| {
            Error::new(Kind::Damaged, "the keys of a sparse parameter must come before its rows")
        })?;
        content::check_counts(parameters, index, rows, count)?;
        content::load_rows(parameters, index, rows, (&mut keys, &mut member.entry))
    })?;
    Ok(())
}

/// Makes a model of a tar alone. `seed` gives the rows of sparse parameters that it does not have.
///
/// Descriptions come behind the values that they describe, so the tar is copied to a temporary file
/// first and read twice.
pub fn from_tar(mut reader: impl Read, seed: u64) -> Result<Parameters> {
    let mut copy = spool(&mut reader)?;
    let parameters = Parameters::new(check(&mut copy)?, seed)?;
    load(&parameters, copy)?;
    Ok(parameters)
}

/// Reads a tar to its end, finds what is wrong with it, and goes back to its beginning. Returns the
/// descriptions in it.
fn check(tar: &mut File) -> Result<Vec<Description>> {
    let mut descriptions: Vec<Description> = Vec::new();
    let mut numbers: HashMap<String, u64> = HashMap::new();
    let mut names = HashSet::new();
    let (mut found, mut listed) = (Checksums::new(), None);
    let is_ours = walk(&*tar, &mut |member| {
        if !names.insert(member.name.clone()) {
            return Err(Error::new(Kind::Damaged, "the tar has two members of this name"));
        }
        if member.name == checksums::NAME {
            let bytes = read_all(&mut member.entry, member.bytes, CHECKSUMS_BYTES_MAX)?;
            listed = Some(Checksums::decode(&bytes)?);
            return Ok(());
        }
        let mut entry = Summing::new(&mut member.entry);
        if let Some(name) = member.name.strip_suffix(CONFIG_SUFFIX) {
            let bytes = read_all(&mut entry, member.bytes, CONFIG_BYTES_MAX)?;
            let description = config::decode(&bytes)?;
            if description.name != name {
                return Err(Error::new(Kind::Damaged, "a description is of another parameter")
                    .with("described", &description.name));
            }
            descriptions.push(description);
        } else if let Ok(count) = Numbers::Values.read_header(&mut entry, member.bytes) {
            // Keys, and what somebody else has put into the tar, are not values.
            numbers.insert(member.name.clone(), count);
        }
        io::copy(&mut entry, &mut io::sink()).map_err(read_failed)?;
        found.add(member.name.clone(), entry);
        Ok(())
    })?;
    match listed {
        Some(listed) => found.check(&listed)?,
        None if is_ours => {
            return Err(Error::new(Kind::Damaged, "the tar is damaged: its checksums are missing"));
        }
        None => {}
    }
    if descriptions.is_empty() {
        return Err(Error::new(
            Kind::Damaged,
            "the tar has no parameter: it is empty, or it is not a model",
        ));
    }
    for description in &descriptions {
        check_described(description, names.contains(&description.name), &numbers)?;
    }
    tar.seek(SeekFrom::Start(0)).map_err(read_failed)?;
    Ok(descriptions)
}

/// What a tar without checksums can still be held to: a description has values, as many as it says.
fn check_described(
    description: &Description,
    is_there: bool,
    counts: &HashMap<String, u64>,
) -> Result<()> {
    let name = &description.name;
    if !is_there {
        return Err(Error::new(Kind::Damaged, "the tar describes a parameter it does not have")
            .with("parameter", name));
    }
    let counted = counts.get(name).copied();
    if counted.is_none() || description.elements().is_some_and(|size| Some(size) != counted) {
        let [rows, columns] = description.dims;
        return Err(Error::new(
            Kind::Damaged,
            "the values of a parameter have another size than its description says",
        )
        .with("parameter", name)
        .with("described", format!("{rows} x {columns}"))
        .with("values", counted.map_or("unreadable".to_owned(), |count| count.to_string())));
    }
    Ok(())
}

/// A tar under way.
struct TarWriter<W: Write> {
    builder: Builder<W>,
    checksums: Checksums,
}

impl<W: Write> TarWriter<W> {
    fn append(
        &mut self,
        parameters: &Parameters,
        index: DescriptionIndex,
        view: View,
    ) -> Result<()> {
        let description = parameters.description(index);
        let name = &description.name;
        if name == checksums::NAME {
            return Err(Error::invalid("a tar has its checksums under this name; rename it"));
        }
        for suffix in [CONFIG_SUFFIX, KEYS_SUFFIX] {
            if parameters.index(&format!("{name}{suffix}")).is_ok() {
                return Err(Error::invalid(
                    "this parameter's name with .protobuf or .keys is another parameter's name, \
                     which a tar cannot tell apart; rename one",
                ));
            }
        }
        let Content { keys, values, count } = Content::open(parameters, index, view)?;
        if let Some((keys, count)) = keys {
            let bytes = Numbers::Keys.file_bytes(count);
            let header = Numbers::Keys.header(count);
            self.append_member(&format!("{name}{KEYS_SUFFIX}"), bytes, header.chain(keys))?;
        }
        let header = Numbers::Values.header(count);
        self.append_member(name, Numbers::Values.file_bytes(count), header.chain(values))?;
        let described = config::encode(description);
        let name = format!("{name}{CONFIG_SUFFIX}");
        self.append_member(&name, described.len() as u64, &described[..])
    }

    fn append_member(&mut self, name: &str, bytes: u64, reader: impl Read) -> Result<()> {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_size(bytes);
        header.set_username(OWNER).map_err(write_failed)?;
        let mut reader = Summing::new(reader);
        self.builder.append_data(&mut header, name, &mut reader).map_err(write_failed)?;
        if reader.bytes_read() != bytes {
            return Err(Error::new(Kind::Conflict, "the parameter changed its size while saved")
                .with("expected_bytes", bytes)
                .with("bytes", reader.bytes_read()));
        }
        self.checksums.add(name.to_owned(), reader);
        Ok(())
    }
}

/// A file in a tar.
struct Member<'a, R: Read> {
    name: String,
    bytes: u64,
    entry: Entry<'a, R>,
}

/// Shows all files of a tar, which must be complete. Returns whether one of ours is among them.
fn walk<R: Read>(
    reader: R,
    show: &mut dyn FnMut(&mut Member<'_, R>) -> Result<()>,
) -> Result<bool> {
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
        is_ours |= entry.header().username_bytes() == Some(OWNER.as_bytes());
        let mut member = Member { name, bytes: entry.size(), entry };
        let label = member.name.clone();
        show(&mut member).map_err(|error| error.with("member", &label))?;
        last = Some(label);
    }
    let cut_off =
        |what: &str| Err(Error::new(Kind::Damaged, format!("the tar was cut off: {what}")));
    match (ending(archive.into_inner())?, last) {
        (Ending::Mark, _) => Ok(is_ours),
        (Ending::Nothing, None) => cut_off("there is nothing in it"),
        (Ending::Nothing, Some(_)) if is_ours => cut_off("it has no end mark"),
        (Ending::Nothing, Some(last)) if !last.ends_with(CONFIG_SUFFIX) => {
            cut_off("it ends without the description of its last parameter")
        }
        (Ending::Nothing, Some(_)) => Ok(false),
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

/// A member that is kept in memory.
fn read_all(reader: &mut dyn Read, bytes: u64, limit: u64) -> Result<Vec<u8>> {
    if bytes > limit {
        return Err(Error::new(Kind::LimitExceeded, "a member of the tar is too long")
            .with("bytes", bytes)
            .with("limit", limit));
    }
    let mut content = Vec::new();
    reader.read_to_end(&mut content).map_err(read_failed)?;
    Ok(content)
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
