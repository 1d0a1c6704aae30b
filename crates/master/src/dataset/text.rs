//! Where to cut a file of lines.

use contract::{Error, Result};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

/// Cuts a text of `bytes` into ranges of about `piece_bytes`, each of which ends with a line or with
/// the text. Reads only from each wanted cut to the next line end; a line that is longer than a piece
/// makes a longer piece.
pub(super) fn cut(
    text: &mut (impl Read + Seek),
    bytes: u64,
    piece_bytes: u64,
) -> Result<Vec<(u64, u64)>> {
    let unreadable = |source| Error::io("cannot read data file", source);
    let mut ranges = Vec::new();
    let mut begin = 0;
    while begin < bytes {
        let wanted = begin.saturating_add(piece_bytes);
        let mut end = bytes;
        if wanted < bytes {
            // The line that the byte in front of the cut belongs to is the piece's last.
            text.seek(SeekFrom::Start(wanted - 1)).map_err(unreadable)?;
            let mut rest = BufReader::new(&mut *text);
            let line = skip_line(&mut rest).map_err(unreadable)?;
            end = bytes.min(wanted - 1 + line);
        }
        ranges.push((begin, end - begin));
        begin = end;
    }
    Ok(ranges)
}

/// Bytes up to and with the next line end, however far it is, without keeping them.
fn skip_line(text: &mut impl BufRead) -> std::io::Result<u64> {
    text.skip_until(b'\n').map(|bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Cursor;

    #[test]
    fn pieces_end_with_the_line_that_reaches_the_wanted_size() {
        let check = |text: &str, piece_bytes: u64, expect: &[&str]| {
            let ranges = cut(&mut Cursor::new(text), text.len() as u64, piece_bytes).unwrap();
            let pieces: Vec<_> = ranges
                .iter()
                .map(|(offset, bytes)| &text[*offset as usize..(offset + bytes) as usize])
                .collect();
            assert_eq!(pieces, expect);
        };
        check("", 4, &[]);
        check("ab\ncd\n", 3, &["ab\n", "cd\n"]);
        check("ab\ncd\n", 2, &["ab\n", "cd\n"]);
        check("ab\ncd\n", 4, &["ab\ncd\n"]);
        check("a long line\nb\n", 4, &["a long line\n", "b\n"]);
        check("\n\n\nx", 2, &["\n\n", "\nx"]);
        check("no end", 2, &["no end"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_byte_is_in_one_piece_and_no_line_is_torn(
            text in "[ab\n]{0,200}",
            piece_bytes in 1..40_u64,
        ) {
            let bytes = text.len() as u64;
            let ranges = cut(&mut Cursor::new(&text), bytes, piece_bytes).unwrap();
            let mut next = 0;
            for (offset, length) in ranges {
                prop_assert_eq!(offset, next);
                prop_assert!(length >= piece_bytes || offset + length == bytes);
                next = offset + length;
                prop_assert!(next == bytes || text.as_bytes()[next as usize - 1] == b'\n');
            }
            prop_assert_eq!(next, bytes);
        }
    }
}
