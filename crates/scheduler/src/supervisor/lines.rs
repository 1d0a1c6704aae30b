//! A stream of bytes as whole lines. Pure.

/// Bytes that have not become a line yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    rest: Vec<u8>,
}

/// A line longer than this is cut: a view shows it in pieces, the log has it whole.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

impl Lines {
    /// The whole lines that are complete with these bytes, as text; often none.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<String> {
        let end = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.rest.len() + bytes.len() > LINE_BYTES_MAX => bytes.len(),
            None => 0,
        };
        if end == 0 {
            self.rest.extend_from_slice(bytes);
            return None;
        }
        let mut whole = std::mem::take(&mut self.rest);
        whole.extend_from_slice(&bytes[..end]);
        self.rest.extend_from_slice(&bytes[end..]);
        Some(text(&whole))
    }

    /// What is left at the end of the stream, which need not end with a line's end.
    pub(super) fn finish(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.rest);
        (!rest.is_empty()).then(|| text(&rest))
    }
}

fn text(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_whole_lines_come_out() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"caf\xc3"), None);
        assert_eq!(lines.push(b"\xa9\nnext\nand").unwrap(), "caf\u{e9}\nnext\n");
        assert_eq!(lines.finish().unwrap(), "and\n");
        assert_eq!(lines.finish(), None);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(&[b'.'; LINE_BYTES_MAX]), None);
        assert_eq!(lines.push(b".").unwrap().len(), LINE_BYTES_MAX + 2);
        assert_eq!(lines.finish(), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn nothing_is_lost_wherever_the_stream_is_cut(
            pieces in prop::collection::vec("[a-c\n]{0,6}", 0..20),
        ) {
            let mut lines = Lines::default();
            let mut out: String =
                pieces.iter().filter_map(|piece| lines.push(piece.as_bytes())).collect();
            out.extend(lines.finish());
            let mut all = pieces.concat();
            if !all.is_empty() && !all.ends_with('\n') {
                all.push('\n');
            }
            prop_assert_eq!(out, all);
        }
    }
}
