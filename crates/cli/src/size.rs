//! Sizes of files as people read and type them.

use contract::quantity::Quantity;

/// A size in at most four digits: `1.5 GiB`.
pub fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if scaled < 1023.95 {
            break;
        }
        scaled /= 1024.0;
        unit = next;
    }
    format!("{scaled:.1} {unit}")
}

/// Bytes per second as `rclone --bwlimit` and others take them: a number is KiB, or it has a
/// suffix, `500K` or `10M`. Nothing, or 0, is no limit.
pub fn rate(text: &str) -> Result<u64, String> {
    let wrong = || "not a rate: use KiB per second, or a suffix such as 500K, 10M or 1G".to_owned();
    let upper = text.trim().to_ascii_uppercase();
    let upper = upper.strip_suffix("/S").unwrap_or(&upper);
    let upper = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(upper);
    let (number, suffix) = match upper.chars().last() {
        Some(last @ ('K' | 'M' | 'G')) => (&upper[..upper.len() - 1], format!("{last}i")),
        _ => (upper, "Ki".to_owned()),
    };
    let suffix = if suffix == "Ki" { "Ki" } else { suffix.as_str() };
    let quantity: Quantity = format!("{number}{suffix}").parse().map_err(|_| wrong())?;
    Ok(quantity.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let check = |bytes, expect: &str| assert_eq!(human(bytes), expect);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1024, "1.0 KiB");
        check((1 << 20) - 1, "1.0 MiB");
        check(1_610_612_736, "1.5 GiB");
        check(u64::MAX, "16.0 EiB");
    }

    #[test]
    fn rates_are_read_as_people_write_them() {
        assert_eq!(rate("100"), Ok(100 << 10));
        assert_eq!(rate("500K"), Ok(500 << 10));
        assert_eq!(rate("10M"), Ok(10 << 20));
        assert_eq!(rate("1.5MiB/s"), Ok(3 << 19));
        assert_eq!(rate("0"), Ok(0));
        for text in ["", "fast", "-1", "10T", "M"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
