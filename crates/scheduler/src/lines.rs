//! What a replica prints as lines of text. What is not UTF-8 is shown as U+FFFD; the log itself keeps
//! it. Pure.

/// A longer line comes in pieces of this size.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Cuts a stream of bytes into lines, whatever pieces it comes in.
#[derive(Debug, Default)]
pub struct Lines {
    /// The beginning of a line whose end has not come yet.
    rest: Vec<u8>,
}

impl Lines {
    /// Takes the next bytes, and passes on each line that is complete now, without its end.
    pub fn feed(&mut self, bytes: &[u8], mut show: impl FnMut(&str)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let Some(end) = piece.strip_suffix(b"\n") else {
                self.keep(piece, &mut show);
                continue;
            };
            if self.rest.is_empty() {
                emit(end, &mut show);
            } else {
                self.rest.extend_from_slice(end);
                emit(&std::mem::take(&mut self.rest), &mut show);
            }
        }
    }

    /// Nothing follows: passes on what has no line end.
    pub fn finish(&mut self, mut show: impl FnMut(&str)) {
        if !self.rest.is_empty() {
            emit(&std::mem::take(&mut self.rest), &mut show);
        }
    }

    fn keep(&mut self, piece: &[u8], show: &mut impl FnMut(&str)) {
        self.rest.extend_from_slice(piece);
        if self.rest.len() > LINE_BYTES_MAX {
            emit(&std::mem::take(&mut self.rest), show);
        }
    }
}

fn emit(line: &[u8], show: &mut impl FnMut(&str)) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= LINE_BYTES_MAX {
        return show(&String::from_utf8_lossy(line));
    }
    for piece in line.chunks(LINE_BYTES_MAX) {
        show(&String::from_utf8_lossy(piece));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(pieces: &[&[u8]], expect: &[&str]) {
        let (mut lines, mut shown) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.feed(piece, |line| shown.push(line.to_owned()));
        }
        lines.finish(|line| shown.push(line.to_owned()));
        assert_eq!(shown, expect, "{pieces:?}");
    }

    #[test]
    fn lines_are_whole_whatever_the_pieces() {
        check(&[b"one\ntwo\n"], &["one", "two"]);
        check(&[b"o", b"ne", b"\n\ntw", b"o"], &["one", "", "two"]);
        check(&[b"caf\xc3", b"\xa9\r\n"], &["café"]);
        check(&[b"\xff\n"], &["\u{fffd}"]);
        check(&[], &[]);
    }

    #[test]
    fn a_line_without_end_does_not_fill_the_memory() {
        let mut lines = Lines::default();
        let mut shown = Vec::new();
        for _ in 0..10 {
            lines.feed(&[b'x'; LINE_BYTES_MAX], |line| shown.push(line.len()));
        }
        assert!(shown.len() >= 4 && shown.iter().all(|bytes| *bytes <= 2 * LINE_BYTES_MAX));
        let mut whole = Vec::new();
        let mut line = vec![b'x'; 2 * LINE_BYTES_MAX + 1];
        line.push(b'\n');
        Lines::default().feed(&line, |line| whole.push(line.len()));
        assert_eq!(whole, [LINE_BYTES_MAX, LINE_BYTES_MAX, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn nothing_is_lost_wherever_the_stream_is_cut(
            pieces in prop::collection::vec("[a-c\n]{0,6}", 0..20),
        ) {
            let (mut lines, mut out) = (Lines::default(), Vec::new());
            for piece in &pieces {
                lines.feed(piece.as_bytes(), |line| out.push(line.to_owned()));
            }
            lines.finish(|line| out.push(line.to_owned()));
            let all = pieces.concat();
            prop_assert_eq!(out, all.lines().collect::<Vec<_>>());
        }
    }
}
