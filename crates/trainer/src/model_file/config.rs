//! `ParameterConfig`, the original's description of a parameter, as the tar format has it.
//!
//! Only what this project knows is kept; other fields are skipped when read.

use crate::description::Description;
use contract::mode::Mode;
use contract::{Error, Kind, Result};
use prost::Message;
use table::initializer::Initializer;
use table::optimizer::Settings;

/// The longest that is read.
pub(super) const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The fields of the original's message (proto2), with its numbers and defaults.
#[derive(Clone, PartialEq, Message)]
struct ParameterConfig {
    #[prost(string, required, tag = "1")]
    name: String,
    #[prost(uint64, required, tag = "2")]
    size: u64,
    #[prost(double, optional, tag = "3", default = "1.0")]
    learning_rate: Option<f64>,
    #[prost(double, optional, tag = "4")]
    momentum: Option<f64>,
    #[prost(double, optional, tag = "5")]
    initial_mean: Option<f64>,
    #[prost(double, optional, tag = "6", default = "0.01")]
    initial_std: Option<f64>,
    #[prost(double, optional, tag = "7")]
    decay_rate: Option<f64>,
    #[prost(double, optional, tag = "8")]
    decay_rate_l1: Option<f64>,
    #[prost(uint64, repeated, packed = "false", tag = "9")]
    dims: Vec<u64>,
    #[prost(int32, optional, tag = "11")]
    initial_strategy: Option<i32>,
    #[prost(bool, optional, tag = "12")]
    initial_smart: Option<bool>,
    #[prost(bool, optional, tag = "16")]
    sparse_remote_update: Option<bool>,
    #[prost(double, optional, tag = "17")]
    gradient_clipping_threshold: Option<f64>,
    #[prost(bool, optional, tag = "18")]
    is_static: Option<bool>,
    #[prost(bool, optional, tag = "22")]
    sparse_update: Option<bool>,
}

const NORMAL: i32 = 0;
const UNIFORM: i32 = 1;

/// A description as bytes.
pub(super) fn encode(description: &Description) -> Vec<u8> {
    let Settings { learning_rate, momentum, l1, l2, clip } = description.settings;
    let (strategy, mean, std) = match description.initializer {
        Initializer::Zero => (NORMAL, 0.0, 0.0),
        Initializer::Constant { value } => (NORMAL, f64::from(value), 0.0),
        Initializer::Normal { mean, std } => (NORMAL, mean, std),
        Initializer::Uniform { low, high } => (UNIFORM, (low + high) / 2.0, (high - low) / 2.0),
    };
    let unless = |number: f32, default: f32| (number != default).then(|| f64::from(number));
    let is_sparse = description.is_sparse.then_some(true);
    ParameterConfig {
        name: description.name.clone(),
        size: description.elements().unwrap_or(0),
        learning_rate: unless(learning_rate, 1.0),
        momentum: momentum.map(f64::from),
        initial_mean: Some(mean),
        initial_std: Some(std),
        decay_rate: unless(l2, 0.0),
        decay_rate_l1: unless(l1, 0.0),
        dims: description.dims.map(|size| size as u64).to_vec(),
        initial_strategy: Some(strategy),
        initial_smart: Some(false),
        sparse_remote_update: is_sparse,
        gradient_clipping_threshold: clip.map(f64::from),
        is_static: description.is_static.then_some(true),
        sparse_update: is_sparse,
    }
    .encode_to_vec()
}

/// A description of bytes that `encode` or the original wrote.
pub(super) fn decode(bytes: &[u8]) -> Result<Description> {
    let config = ParameterConfig::decode(bytes).map_err(|source| {
        Error::new(Kind::Damaged, "the description of a parameter cannot be read").because(source)
    })?;
    let dims = dims(&config)?;
    let is_sparse = config.sparse_update() || config.sparse_remote_update();
    let description = Description {
        initializer: initializer(&config, dims)?,
        settings: Settings {
            learning_rate: config.learning_rate() as f32,
            momentum: config.momentum.map(|momentum| momentum as f32),
            l1: config.decay_rate_l1() as f32,
            l2: config.decay_rate() as f32,
            // In the original 0 is none.
            clip: Some(config.gradient_clipping_threshold() as f32).filter(|clip| *clip != 0.0),
        },
        is_static: config.is_static(),
        mode: Mode::default(),
        name: config.name,
        dims,
        is_sparse,
    };
    description.check()?;
    Ok(description)
}

fn dims(config: &ParameterConfig) -> Result<[usize; 2]> {
    let unfit = || {
        Error::new(Kind::Damaged, "the dims of a parameter do not make its size")
            .with("parameter", &config.name)
            .with("dims", format!("{:?}", config.dims))
            .with("size", config.size)
    };
    let dims = match config.dims[..] {
        [] => [1, config.size],
        [columns] => [1, columns],
        // The original keeps more of them for convolutions; rows are what matters here.
        [rows, ref rest @ ..] => {
            let columns = rest.iter().try_fold(1_u64, |product, size| product.checked_mul(*size));
            [rows, columns.ok_or_else(unfit)?]
        }
    };
    if dims[0].checked_mul(dims[1]) != Some(config.size) {
        return Err(unfit());
    }
    Ok([
        usize::try_from(dims[0]).map_err(|_| unfit())?,
        usize::try_from(dims[1]).map_err(|_| unfit())?,
    ])
}

fn initializer(config: &ParameterConfig, dims: [usize; 2]) -> Result<Initializer> {
    let (mean, std) = match config.initial_smart() {
        true => (0.0, 1.0 / (dims[0].max(1) as f64).sqrt()),
        false => (config.initial_mean(), config.initial_std()),
    };
    match config.initial_strategy() {
        NORMAL if mean == 0.0 && std == 0.0 => Ok(Initializer::Zero),
        NORMAL if std == 0.0 => Ok(Initializer::Constant { value: mean as f32 }),
        NORMAL => Ok(Initializer::Normal { mean, std }),
        UNIFORM => Ok(Initializer::Uniform { low: mean - std, high: mean + std }),
        other => Err(Error::new(Kind::Unsupported, "there is no such way to begin a parameter")
            .with("parameter", &config.name)
            .with("initial_strategy", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn initializers() -> impl Strategy<Value = Initializer> {
        let number = -1e3..1e3_f64;
        prop_oneof![
            Just(Initializer::Zero),
            (1..100_u8).prop_map(|value| Initializer::Constant { value: f32::from(value) }),
            (number, 1e-3..10_f64).prop_map(|(mean, std)| Initializer::Normal { mean, std }),
            // Whole numbers: their mean and difference are exact.
            (-99..0_i32, 1..99_i32).prop_map(|(low, high)| Initializer::Uniform {
                low: low.into(),
                high: high.into()
            }),
        ]
    }

    prop_compose! {
        fn descriptions()(
            name in "[a-z_.]{1,20}",
            dims in (1..1000_usize, 1..1000_usize),
            flags: [bool; 2],
            initializer in initializers(),
            numbers: [u8; 4],
            options: [bool; 2],
        ) -> Description {
            let settings = Settings {
                learning_rate: f32::from(numbers[0]),
                momentum: options[0].then(|| f32::from(numbers[1]) / 256.0),
                l1: f32::from(numbers[2]),
                l2: f32::from(numbers[3]),
                clip: options[1].then(|| f32::from(numbers[0]) + 1.0),
            };
            let rows = if flags[0] && options[0] { 0 } else { dims.0 };
            Description {
                initializer,
                settings,
                is_sparse: flags[0],
                is_static: flags[1],
                ..Description::dense(name, [rows, dims.1])
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn what_is_encoded_is_decoded(description in descriptions()) {
            prop_assert_eq!(decode(&encode(&description)).unwrap(), description);
        }

        #[test]
        fn any_bytes_are_described_or_refused(bytes: Vec<u8>) {
            if let Ok(description) = decode(&bytes) {
                description.check().unwrap();
            }
        }
    }

    /// `name: "w" size: 6 dims: 2 dims: 3 initial_smart: true device: -1 is_shared: false`
    const ORIGINAL: &[u8] = &[
        0x0a, 0x01, b'w', 0x10, 0x06, 0x48, 0x02, 0x48, 0x03, 0x50, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0x01, 0x60, 0x01, 0xb8, 0x01, 0x00,
    ];

    #[test]
    fn a_message_of_the_original_is_read_with_its_defaults() {
        let std = 1.0 / 2_f64.sqrt();
        let expected = Description {
            initializer: Initializer::Normal { mean: 0.0, std },
            ..Description::dense("w", [2, 3])
        };
        assert_eq!(decode(ORIGINAL).unwrap(), expected);
    }

    #[test]
    fn dims_must_make_the_size() {
        let mut bytes = ORIGINAL.to_vec();
        bytes[4] = 7;
        let error = decode(&bytes).unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged);
        assert!(error.to_string().contains("[2, 3]"), "{error}");
    }
}
