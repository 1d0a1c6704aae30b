//! `paddle version`: the block that scripts of the original look for, each line true of this build.

use cli::output::{Format, Output};
use contract::Result;
use serde_json::{Map, Value};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print as text or JSON
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

const FEATURES: [(&str, bool); 6] = [
    // On x86-64 the numeric libraries carry AVX code and choose it at run time.
    ("with_avx", cfg!(target_arch = "x86_64")),
    // No device backend is compiled in.
    ("with_gpu", false),
    // Parameters and gradients are 32-bit floats.
    ("with_double", false),
    // This command ships in the wheel that carries the Python packages.
    ("with_python", true),
    // TCP is the only transport.
    ("with_rdma", false),
    // Timings come from tracing, not from compiled-in timers.
    ("with_timer", false),
];

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let version = env!("CARGO_PKG_VERSION");
    let mut output = Output::open();
    match args.output {
        Format::Text => {
            output.line(format_args!("PaddlePaddle {version}, compiled with"))?;
            for (name, is_on) in FEATURES {
                output.line(format_args!("    {name}: {}", if is_on { "ON" } else { "OFF" }))?;
            }
        }
        Format::Json => {
            let features = FEATURES.map(|(name, is_on)| (name.to_owned(), Value::Bool(is_on)));
            let mut block = Map::from_iter([("version".to_owned(), Value::from(version))]);
            block.extend(features);
            output.json(&block)?;
        }
    }
    output.close()?;
    Ok(ExitCode::SUCCESS)
}
