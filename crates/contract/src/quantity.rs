//! Amounts of CPU, memory and devices, written as Kubernetes writes them: `1500m`, `2`, `512Mi`.
//!
//! Exact: an amount is a whole number of thousandths, and a text that is finer or larger than
//! that is refused, never rounded. Not here: negative amounts, exponents, and the suffixes below
//! `m` and above `Pi`, which no replica needs.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

use crate::Error;

/// An amount of something, from 0 to about `16Pi`, in steps of one thousandth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    milli: u64,
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Quantity = Quantity { milli: 0 };

    /// An amount in thousandths: `from_milli(1500)` is one and a half.
    pub const fn from_milli(milli: u64) -> Self {
        Quantity { milli }
    }

    /// A whole amount. The type keeps it in range.
    pub const fn whole(amount: u32) -> Self {
        Quantity { milli: amount as u64 * MILLI }
    }

    /// So many bytes; a fraction of a byte counts as one.
    pub fn bytes(self) -> u64 {
        self.milli.div_ceil(MILLI)
    }

    /// So many thousandths of a core.
    pub fn cores_milli(self) -> u64 {
        self.milli
    }

    /// The amount if it is whole: devices cannot be cut.
    pub fn count(self) -> Option<u64> {
        self.milli.is_multiple_of(MILLI).then_some(self.milli / MILLI)
    }

    /// The sum, if it is in range.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.milli.checked_add(other.milli).map(Quantity::from_milli)
    }

    /// The amount of `replicas` replicas, if it is in range.
    pub fn checked_mul(self, replicas: u64) -> Option<Self> {
        self.milli.checked_mul(replicas).map(Quantity::from_milli)
    }
}

const MILLI: u64 = 1000;
const TEXT_BYTES_MAX: usize = 64;
const FORMS: &str = "a number with an optional suffix m, k, M, G, T, P, Ki, Mi, Gi, Ti or Pi, \
                     such as 2, 1500m, 0.5, 100M or 512Mi";

/// Suffixes with their value in thousandths, the largest first.
const SUFFIXES: [(&str, u64); 12] = [
    ("Pi", MILLI << 50),
    ("P", MILLI * 1_000_000_000_000_000),
    ("Ti", MILLI << 40),
    ("T", MILLI * 1_000_000_000_000),
    ("Gi", MILLI << 30),
    ("G", MILLI * 1_000_000_000),
    ("Mi", MILLI << 20),
    ("M", MILLI * 1_000_000),
    ("Ki", MILLI << 10),
    ("k", MILLI * 1_000),
    ("", MILLI),
    ("m", 1),
];

/// The shortest exact form: that of the largest suffix which divides the amount.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let divides = |(_, unit): &&(&str, u64)| self.milli.is_multiple_of(*unit);
        match SUFFIXES.iter().find(divides) {
            Some((suffix, unit)) if self.milli > 0 => write!(f, "{}{suffix}", self.milli / unit),
            _ => f.write_str("0"),
        }
    }
}

impl FromStr for Quantity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |why: &str| Error::invalid(format!("not a quantity: {why}"));
        if text.len() > TEXT_BYTES_MAX {
            return Err(refuse("the text is too long").with("bytes_max", TEXT_BYTES_MAX));
        }
        let refuse = |why: &str| refuse(why).with("quantity", text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = !whole.is_empty() && !fraction.is_empty() && !fraction.contains('.');
        let unit = SUFFIXES.iter().find(|(known, _)| is_number && *known == suffix);
        let (_, unit) = unit.ok_or_else(|| refuse(&format!("use {FORMS}")))?;
        let too_large = || refuse("it is larger than 16Pi");
        let too_fine = || refuse("it is finer than one thousandth (1m)");
        // Digits before and after the point make one number; the power of ten takes the point back.
        let fraction = fraction.trim_end_matches('0');
        let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| too_large())?;
        let scaled = digits.checked_mul((*unit).into()).ok_or_else(too_large)?;
        let scale = 10_u128.checked_pow(fraction.len() as u32).ok_or_else(too_fine)?;
        if !scaled.is_multiple_of(scale) {
            return Err(too_fine());
        }
        u64::try_from(scaled / scale).map(Quantity::from_milli).map_err(|_| too_large())
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a string, or a whole JSON number.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a quantity: {FORMS}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, amount: u64) -> Result<Quantity, E> {
        self.visit_str(&amount.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, milli: u64, shown: &str) {
        let quantity: Quantity = text.parse().unwrap();
        assert_eq!((quantity.cores_milli(), quantity.to_string().as_str()), (milli, shown));
    }

    #[test]
    fn the_forms_of_kubernetes_are_read_exactly() {
        check("0", 0, "0");
        check("000Ki", 0, "0");
        check("2", 2_000, "2");
        check("1500m", 1_500, "1500m");
        check("1.5", 1_500, "1500m");
        check("0.50", 500, "500m");
        check("2000m", 2_000, "2");
        check("100M", 100_000_000_000, "100M");
        check("64Ki", 65_536_000, "64Ki");
        check("512Mi", 536_870_912_000, "512Mi");
        check("1024Mi", 1_073_741_824_000, "1Gi");
        check("0.5Gi", 536_870_912_000, "512Mi");
        check("1k", 1_000_000, "1k");
        check("16383Ti", 16_383 * (1_000 << 40), "16383Ti");
    }

    #[test]
    fn amounts_are_given_in_the_unit_asked_for() {
        let quantity = |text: &str| text.parse::<Quantity>().unwrap();
        assert_eq!(quantity("1Gi").bytes(), 1 << 30);
        assert_eq!(quantity("1500m").bytes(), 2);
        assert_eq!(quantity("3").count(), Some(3));
        assert_eq!(quantity("3500m").count(), None);
        assert_eq!(quantity("1Gi").checked_mul(3), Some(quantity("3Gi")));
        assert_eq!(quantity("1Gi").checked_add(quantity("1Gi")), Some(quantity("2Gi")));
        assert_eq!(quantity("16383Ti").checked_mul(2), None);
        assert_eq!(Quantity::whole(u32::MAX).count(), Some(u32::MAX.into()));
    }

    #[test]
    fn anything_else_is_refused_with_the_accepted_forms() {
        for text in ["", "Gi", "-1", "+1", "1K", "1GB", "1 Gi", "1e3", ".5", "5.", "1.2.3", "١"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
        let error = |text: &str| text.parse::<Quantity>().unwrap_err().to_string();
        insta::assert_snapshot!(
            error("1GB"),
            @"not a quantity: use a number with an optional suffix m, k, M, G, T, P, Ki, Mi, Gi, Ti or Pi, such as 2, 1500m, 0.5, 100M or 512Mi (quantity: 1GB)"
        );
        insta::assert_snapshot!(error("0.0001"), @"not a quantity: it is finer than one thousandth (1m) (quantity: 0.0001)");
        insta::assert_snapshot!(error("17Pi"), @"not a quantity: it is larger than 16Pi (quantity: 17Pi)");
        insta::assert_snapshot!(error(&"9".repeat(65)), @"not a quantity: the text is too long (bytes_max: 64)");
    }

    #[test]
    fn json_may_give_a_string_or_a_whole_number() {
        let read = |json| serde_json::from_str::<Quantity>(json);
        assert_eq!(read("\"512Mi\"").unwrap().bytes(), 512 << 20);
        assert_eq!(read("3").unwrap(), Quantity::whole(3));
        for json in ["-3", "1.5", "null", "[]", "18446744073709551615"] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_quantity_reads_back(milli: u64) {
            let quantity = Quantity::from_milli(milli);
            prop_assert_eq!(quantity.to_string().parse::<Quantity>().unwrap(), quantity);
            let json = serde_json::to_string(&quantity).unwrap();
            prop_assert_eq!(serde_json::from_str::<Quantity>(&json).unwrap(), quantity);
        }

        #[test]
        fn round_amounts_read_back(amount in 0..16_u64, unit in prop::sample::select(&SUFFIXES[..])) {
            let quantity = Quantity::from_milli(amount * unit.1);
            prop_assert_eq!(format!("{amount}{}", unit.0).parse::<Quantity>().unwrap(), quantity);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9.]{0,70}[a-zA-Z]{0,2}|.*") {
            let _ = text.parse::<Quantity>();
        }
    }
}
