//! Models as safetensors: the length of a header (u64), the header (JSON), then the numbers.
//!
//! Written and read by hand, because the format is simple and its library holds the whole model in
//! memory. Tensors are F32 and have the dims of their parameter.

use super::content::{self, Content, io_error};
use crate::parameters::{Parameters, View};
use contract::{Error, Kind, Result};
use disk::{Access, PendingFile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The longest header that is read, as in the format's own library.
const HEADER_BYTES_MAX: u64 = 100_000_000;
/// The header ends on a multiple of this, so that the numbers are aligned.
const ALIGNMENT: usize = 8;
const METADATA: &str = "__metadata__";

/// An entry of the header.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    /// Where its numbers begin and end, from the end of the header.
    data_offsets: [u64; 2],
}

/// Writes all parameters to a file, which appears complete or not at all.
pub fn to_safetensors(parameters: &Parameters, path: &Path, view: View) -> Result<()> {
    // Opening costs nothing, but for keys without a bound: their number is to be known.
    let places = 0..parameters.descriptions().len();
    let mut contents =
        places.map(|place| Content::open(parameters, place, view)).collect::<Result<Vec<_>>>()?;
    let header = plan(parameters, &contents)?;
    let failed = |source| io_error("cannot write the model", source).with("file", path.display());
    let mut file = PendingFile::create(path, Access::Ordinary)?;
    file.write_all(&(header.len() as u64).to_le_bytes()).map_err(failed)?;
    file.write_all(&header).map_err(failed)?;
    for content in &mut contents {
        if let Some((keys, _)) = &mut content.keys {
            std::io::copy(keys, &mut file).map_err(failed)?;
        }
        std::io::copy(&mut content.values, &mut file).map_err(failed)?;
    }
    file.publish()
}

/// Sets the parameters that are both in the model and in the file.
///
/// # Errors
/// If a parameter has another size or type in the file than in the model, or the file is damaged.
pub fn init_from_safetensors(parameters: &Parameters, path: &Path) -> Result<()> {
    load(parameters, path).map_err(|error| error.with("file", path.display()))
}

fn plan(parameters: &Parameters, contents: &[Content<'_>]) -> Result<Vec<u8>> {
    let mut tensors = BTreeMap::new();
    let mut end = 0;
    let mut add = |name: String, dtype: &str, shape: Vec<u64>, bytes: u64| {
        let tensor = Tensor { dtype: dtype.to_owned(), shape, data_offsets: [end, end + bytes] };
        end += bytes;
        if name == METADATA || tensors.insert(name.clone(), tensor).is_some() {
            return Err(Error::invalid("a parameter of this name cannot be saved; rename it")
                .with("parameter", name));
        }
        Ok(())
    };
    for (description, content) in parameters.descriptions().iter().zip(contents) {
        let [mut rows, columns] = description.dims.map(|size| size as u64);
        if let Some((_, keys)) = content.keys {
            rows = keys;
            add(keys_name(&description.name), "U64", vec![rows], rows * 8)?;
        }
        add(description.name.clone(), "F32", vec![rows, columns], content.count * 4)?;
    }
    let mut header = serde_json::to_vec(&tensors).map_err(|source| {
        Error::invalid("the model cannot be described as JSON").because(source)
    })?;
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    Ok(header)
}

fn load(parameters: &Parameters, path: &Path) -> Result<()> {
    let failed = |source| Error::io("cannot read the model", source);
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut reader = BufReader::new(file);
    let (tensors, begin) = read_header(&mut reader, bytes)?;
    for (place, description) in parameters.descriptions().iter().enumerate() {
        let name = &description.name;
        let Some(values) = tensors.get(name) else { continue };
        let named = |error: Error| error.with("parameter", name);
        let count = values.check("F32", 4).map_err(named)?;
        if description.elements().is_some() {
            reader.seek(SeekFrom::Start(begin + values.data_offsets[0])).map_err(failed)?;
            content::load(parameters, place, count, &mut reader)?;
            continue;
        }
        let keys = tensors.get(&keys_name(name)).ok_or_else(|| {
            named(Error::new(Kind::Damaged, "the file has rows of this parameter but no keys"))
        })?;
        let rows = keys.check("U64", 8).map_err(named)?;
        content::check_counts(parameters, place, rows, count)?;
        reader.seek(SeekFrom::Start(begin + values.data_offsets[0])).map_err(failed)?;
        let mut keys_reader = BufReader::new(File::open(path).map_err(failed)?);
        keys_reader.seek(SeekFrom::Start(begin + keys.data_offsets[0])).map_err(failed)?;
        content::load_rows(parameters, place, rows, (&mut keys_reader, &mut reader))?;
    }
    Ok(())
}

/// The tensors, and where in the file their numbers begin.
fn read_header(reader: &mut dyn Read, bytes: u64) -> Result<(BTreeMap<String, Tensor>, u64)> {
    let damaged = |message: &str| Error::new(Kind::Damaged, message).with("bytes", bytes);
    let mut length = [0; 8];
    reader.read_exact(&mut length).map_err(|_| damaged("the file ends in its header"))?;
    let length = u64::from_le_bytes(length);
    if length > HEADER_BYTES_MAX || length + 8 > bytes {
        return Err(damaged("the header is longer than the file or than is allowed")
            .with("header", length)
            .with("limit", HEADER_BYTES_MAX));
    }
    let mut header = vec![0; length as usize];
    reader.read_exact(&mut header).map_err(|_| damaged("the file ends in its header"))?;
    let begin = length + 8;
    let entries: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&header)
        .map_err(|source| damaged("the header is not JSON").because(source))?;
    let mut tensors = BTreeMap::new();
    for (name, entry) in entries {
        if name == METADATA {
            continue;
        }
        let tensor: Tensor = serde_json::from_value(entry).map_err(|source| {
            damaged("the header describes a tensor wrongly").with("tensor", &name).because(source)
        })?;
        let [from, to] = tensor.data_offsets;
        if from > to || to > bytes - begin {
            return Err(damaged("a tensor is not in the file").with("tensor", name));
        }
        tensors.insert(name, tensor);
    }
    Ok((tensors, begin))
}

impl Tensor {
    /// Numbers in it, if it is of this type and its size is what its shape says.
    fn check(&self, dtype: &str, number_bytes: u64) -> Result<u64> {
        if self.dtype != dtype {
            return Err(Error::new(Kind::Unsupported, "tensors of this type cannot be loaded")
                .with("dtype", &self.dtype)
                .with("expected", dtype));
        }
        let [from, to] = self.data_offsets;
        let count = self.shape.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
        match count {
            Some(count) if count.checked_mul(number_bytes) == Some(to - from) => Ok(count),
            _ => Err(Error::new(Kind::Damaged, "a tensor has another size than its shape")
                .with("shape", format!("{:?}", self.shape))
                .with("bytes", to - from)),
        }
    }
}

fn keys_name(name: &str) -> String {
    format!("{name}.keys")
}
