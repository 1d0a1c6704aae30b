//! Where to cut a file of lines.

use contract::{Error, Result};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

/// What is read at a time in the search for the beginning of a line.
const SEARCHED_BYTES: usize = 64 << 10;

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

/// Where the text of `bytes` at `offset` can be cut in two, near its middle and between two lines;
/// `None` if it is one line.
pub(super) fn middle(
    text: &mut (impl Read + Seek),
    offset: u64,
    bytes: u64,
) -> Result<Option<u64>> {
    let unreadable = |source| Error::io("cannot read data file", source);
    let (end, wanted) = (offset + bytes, offset + bytes / 2);
    if wanted == offset {
        return Ok(None);
    }
    text.seek(SeekFrom::Start(wanted - 1)).map_err(unreadable)?;
    let mut rest = BufReader::new(Read::take(&mut *text, end - (wanted - 1)));
    let line_end = wanted - 1 + skip_line(&mut rest).map_err(unreadable)?;
    if line_end < end {
        return Ok(Some(line_end));
    }
    // The line around the middle is the last one: cut in front of it.
    let found = last_line_end(text, offset, wanted - 1).map_err(unreadable)?;
    Ok(found.map(|found| found + 1))
}

/// Where the last line end of `begin..end` is.
fn last_line_end(
    text: &mut (impl Read + Seek),
    begin: u64,
    mut end: u64,
) -> std::io::Result<Option<u64>> {
    let mut block = vec![0; SEARCHED_BYTES];
    while end > begin {
        let bytes = (end - begin).min(SEARCHED_BYTES as u64);
        end -= bytes;
        let block = &mut block[..bytes as usize];
        text.seek(SeekFrom::Start(end))?;
        text.read_exact(block)?;
        if let Some(place) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(end + place as u64));
        }
    }
    Ok(None)
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

    #[test]
    fn a_text_is_halved_between_two_lines_or_not_at_all() {
        let check = |text: &str, expect: Option<(&str, &str)>| {
            // What is around it does not matter.
            let whole = format!("before\n{text}after");
            let found = middle(&mut Cursor::new(whole), 7, text.len() as u64).unwrap();
            assert_eq!(found.map(|at| text.split_at(at as usize - 7)), expect, "{text:?}");
        };
        check("", None);
        check("\n", None);
        check("one line\n", None);
        check("no end", None);
        check("ab\ncd\n", Some(("ab\n", "cd\n")));
        check("a\nb\nc\nd\n", Some(("a\nb\n", "c\nd\n")));
        check("a long line\nb\n", Some(("a long line\n", "b\n")));
        check("a\nb\na long line\n", Some(("a\nb\n", "a long line\n")));
        check("\n\n", Some(("\n", "\n")));
        let far = format!("a\n{}", "x".repeat(3 * SEARCHED_BYTES));
        check(&far, Some(far.split_at(2)));
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
