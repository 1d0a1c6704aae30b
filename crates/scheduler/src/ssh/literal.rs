//! The part of Python that a configuration file consists of: names that are given literals.
//!
//! The original imported `conf.py`, so anything could happen in it. This reads the file instead:
//! text in every quoting style, numbers, truth values, `None`, lists and tuples, names given
//! earlier, and `+`. Whatever would have to be computed is refused with its line and the name that
//! was to get it, because a value that is guessed starts a job on the wrong machines.

use std::collections::BTreeMap;

use contract::{Error, Result};

mod lexer;

use lexer::{Token, TokenKind, tokens};

/// A value of a configuration file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Text(String),
    Whole(i64),
    Fraction(f64),
    Truth(bool),
    None,
    /// A list or a tuple: the difference matters to nobody here.
    List(Vec<Literal>),
}

impl Literal {
    /// What it is, for a message that wanted something else.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Literal::Text(_) => "a text",
            Literal::Whole(_) => "a number",
            Literal::Fraction(_) => "a fraction",
            Literal::Truth(_) => "a truth value",
            Literal::None => "None",
            Literal::List(_) => "a list",
        }
    }
}

/// A name's value, and the line where it got it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Assignment {
    pub(super) value: Literal,
    pub(super) line: usize,
}

/// Reads a file; a name that is assigned twice has its last value.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, Assignment>> {
    if text.len() > FILE_BYTES_MAX {
        return Err(Error::invalid("the file is too long to be a configuration")
            .with("bytes", text.len())
            .with("bytes_max", FILE_BYTES_MAX));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = Parser { tokens: &tokens(text)?, names: BTreeMap::new(), name: None };
    while !parser.tokens.is_empty() {
        parser.statement()?;
    }
    Ok(parser.names)
}

const FILE_BYTES_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 32;

struct Parser<'a> {
    tokens: &'a [Token],
    names: BTreeMap<String, Assignment>,
    /// What is being assigned, for messages.
    name: Option<String>,
}

impl Parser<'_> {
    fn statement(&mut self) -> Result<()> {
        self.name = None;
        let (first, second) = (self.peek(0), self.peek(1));
        match (first, second) {
            (Some(TokenKind::End), _) => {}
            // A text alone is a comment over several lines.
            (Some(TokenKind::Text(_)), _) => {
                self.value(0)?;
            }
            (Some(TokenKind::Name(name)), Some(TokenKind::Symbol('='))) => {
                let (name, line) = (name.clone(), self.line());
                self.tokens = &self.tokens[2..];
                self.name = Some(name.clone());
                let value = self.value(0)?;
                self.names.insert(name, Assignment { value, line });
            }
            _ => return Err(self.refuse("only NAME = VALUE is read, nothing is executed")),
        }
        match self.peek(0) {
            None => {}
            Some(TokenKind::End) => self.tokens = &self.tokens[1..],
            Some(_) => return Err(self.refuse(COMPUTED)),
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<Literal> {
        let mut value = self.term(depth)?;
        while self.take('+') {
            let right = self.term(depth)?;
            value = match (value, right) {
                (Literal::Text(left), Literal::Text(right)) => Literal::Text(left + &right),
                (Literal::List(left), Literal::List(right)) => {
                    Literal::List(left.into_iter().chain(right).collect())
                }
                (Literal::Whole(left), Literal::Whole(right)) => {
                    let sum = left.checked_add(right);
                    Literal::Whole(sum.ok_or_else(|| self.refuse("the sum is too large"))?)
                }
                (left, right) => {
                    let what = format!("{} and {} cannot be added", left.kind(), right.kind());
                    return Err(self.refuse(&what));
                }
            };
        }
        Ok(value)
    }

    fn term(&mut self, depth: usize) -> Result<Literal> {
        if depth > DEPTH_MAX {
            return Err(self.refuse("brackets are nested too deep"));
        }
        let kind = match self.peek(0) {
            Some(kind) if *kind != TokenKind::End => kind.clone(),
            _ => return Err(self.refuse("a value is missing")),
        };
        self.tokens = &self.tokens[1..];
        match kind {
            TokenKind::Text(mut text) => {
                // Neighbours are one text, as in Python.
                while let Some(TokenKind::Text(more)) = self.peek(0) {
                    text.push_str(more);
                    self.tokens = &self.tokens[1..];
                }
                Ok(Literal::Text(text))
            }
            TokenKind::Whole(number) => Ok(Literal::Whole(number)),
            TokenKind::Fraction(number) => Ok(Literal::Fraction(number)),
            TokenKind::Name(name) => self.named(&name),
            TokenKind::Symbol('-') => match self.term(depth + 1)? {
                Literal::Whole(number) => Ok(Literal::Whole(number.saturating_neg())),
                Literal::Fraction(number) => Ok(Literal::Fraction(-number)),
                _ => Err(self.refuse("only a number can follow -")),
            },
            TokenKind::Symbol('[') => Ok(Literal::List(self.items(']', depth)?.0)),
            TokenKind::Symbol('(') => match self.items(')', depth)? {
                // One value in parentheses, without a comma, is that value.
                (mut items, false) if items.len() == 1 => Ok(items.remove(0)),
                (items, _) => Ok(Literal::List(items)),
            },
            TokenKind::Symbol(_) | TokenKind::End => Err(self.refuse(COMPUTED)),
        }
    }

    /// Values up to the closing bracket, and whether there was a comma.
    fn items(&mut self, close: char, depth: usize) -> Result<(Vec<Literal>, bool)> {
        let (mut items, mut has_comma) = (Vec::new(), false);
        loop {
            if self.take(close) {
                return Ok((items, has_comma));
            }
            items.push(self.value(depth + 1)?);
            if self.take(',') {
                has_comma = true;
            } else if self.take(close) {
                return Ok((items, has_comma));
            } else {
                return Err(self.refuse(COMPUTED));
            }
        }
    }

    fn named(&self, name: &str) -> Result<Literal> {
        match name {
            "True" => Ok(Literal::Truth(true)),
            "False" => Ok(Literal::Truth(false)),
            "None" => Ok(Literal::None),
            _ => self.names.get(name).map(|known| known.value.clone()).ok_or_else(|| {
                self.refuse("it uses a name that has no value yet").with("name", name)
            }),
        }
    }

    fn peek(&self, ahead: usize) -> Option<&TokenKind> {
        self.tokens.get(ahead).map(|token| &token.kind)
    }

    fn take(&mut self, symbol: char) -> bool {
        let is_next = self.peek(0) == Some(&TokenKind::Symbol(symbol));
        if is_next {
            self.tokens = &self.tokens[1..];
        }
        is_next
    }

    fn line(&self) -> usize {
        self.tokens.first().map_or(0, |token| token.line)
    }

    fn refuse(&self, what: &str) -> Error {
        let message = match &self.name {
            Some(name) => format!("bad {name}: {what}"),
            None => format!("cannot be read: {what}"),
        };
        Error::invalid(message).with("line", self.line())
    }
}

const COMPUTED: &str = "write the value itself: a text, a number, True, False, None or a list \
                        of them; nothing is executed";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value(text: &str) -> Literal {
        let mut names = parse(&format!("X = {text}\n")).unwrap();
        names.remove("X").unwrap().value
    }

    fn text(text: &str) -> Literal {
        Literal::Text(text.to_owned())
    }

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn texts_are_read_in_every_quoting_style() {
        for source in [
            "'a b'",
            "\"a b\"",
            "'''a b'''",
            "\"\"\"a b\"\"\"",
            "'a' ' b'",
            "'a' + ' b'",
            "u'a b'",
            "('a'\n ' b')",
            "'a \\\nb'",
            "'a\\x20b'",
            "'a\\u0020b'",
            "'a\\40b'",
        ] {
            assert_eq!(value(source), text("a b"), "{source}");
        }
        assert_eq!(value(r"r'a\n'"), text(r"a\n"));
        assert_eq!(value(r"'\d\'\\'"), text(r"\d'\"));
        assert_eq!(value("'''a\n\"'b'''"), text("a\n\"'b"));
        assert_eq!(value("'节点'"), text("节点"));
        assert_eq!(value("''"), text(""));
    }

    #[test]
    fn numbers_truth_and_nothing_are_read() {
        assert_eq!(value("7164"), Literal::Whole(7164));
        assert_eq!(value("-1"), Literal::Whole(-1));
        assert_eq!(value("7_164"), Literal::Whole(7164));
        assert_eq!(value("0x10"), Literal::Whole(16));
        assert_eq!(value("0.5"), Literal::Fraction(0.5));
        assert_eq!(value("1e3"), Literal::Fraction(1000.0));
        assert_eq!(value("(7000 + 164)"), Literal::Whole(7164));
        assert_eq!(value("True"), Literal::Truth(true));
        assert_eq!(value("None"), Literal::None);
    }

    #[test]
    fn lists_and_tuples_may_span_lines_and_hold_comments() {
        let expected = Literal::List(vec![text("a"), text("b")]);
        for source in [
            "['a', 'b']",
            "('a', 'b')",
            "[\n  'a',  # first\n\n  'b',\n]",
            "['a'] + ['b']",
            "['a',\n# 'c',\n'b']",
        ] {
            assert_eq!(value(source), expected, "{source}");
        }
        assert_eq!(value("('a',)"), Literal::List(vec![text("a")]));
        assert_eq!(value("('a')"), text("a"));
        assert_eq!(value("[]"), Literal::List(vec![]));
    }

    #[test]
    fn names_given_earlier_can_be_used_and_the_last_value_counts() {
        let names = parse("base = '/home'\nROOT = base + '/paddle'; base = 'x'\n").unwrap();
        assert_eq!(names["ROOT"], Assignment { value: text("/home/paddle"), line: 2 });
        assert_eq!(names["base"].value, text("x"));
    }

    #[test]
    fn comments_and_texts_between_assignments_are_skipped() {
        let names = parse("# -*- coding: utf-8 -*-\n'''\nnetwork\n'''\nA = 1 # one\n\"x\"\n");
        assert_eq!(names.unwrap()["A"].value, Literal::Whole(1));
        assert!(parse("").unwrap().is_empty());
        assert!(parse("\u{feff}A = 1\r\nB = 2\r\n").unwrap().contains_key("B"));
    }

    #[test]
    fn what_would_have_to_be_executed_is_refused_with_its_line_and_name() {
        insta::assert_snapshot!(error("import os\n"), @"cannot be read: only NAME = VALUE is read, nothing is executed (line: 1)");
        insta::assert_snapshot!(error("A = 1\nHOSTS = open('machines').readlines()\n"), @"bad HOSTS: it uses a name that has no value yet (line: 2, name: open)");
        insta::assert_snapshot!(error("A = 'n%d' % 3"), @"bad A: write the value itself: a text, a number, True, False, None or a list of them; nothing is executed (line: 1)");
        insta::assert_snapshot!(error("A = 'n{}'.format(3)"), @"bad A: write the value itself: a text, a number, True, False, None or a list of them; nothing is executed (line: 1)");
        insta::assert_snapshot!(error("A = {'a': 1}"), @"bad A: write the value itself: a text, a number, True, False, None or a list of them; nothing is executed (line: 1)");
        insta::assert_snapshot!(error("A = [1 for x in y]"), @"bad A: write the value itself: a text, a number, True, False, None or a list of them; nothing is executed (line: 1)");
        insta::assert_snapshot!(error("A = f'x'"), @"a text with the prefix f is not read: use '…' or r'…' (line: 1)");
        insta::assert_snapshot!(error("A += 1"), @"cannot be read: only NAME = VALUE is read, nothing is executed (line: 1)");
        insta::assert_snapshot!(error("A ="), @"bad A: a value is missing (line: 1)");
        insta::assert_snapshot!(error("A = 1 + 'x'"), @"bad A: a number and a text cannot be added (line: 1)");
        insta::assert_snapshot!(error("A = [1, 2"), @"a bracket is not closed (line: 1)");
        insta::assert_snapshot!(error("A = '''x\n\n"), @"a text is not closed (line: 1)");
        insta::assert_snapshot!(error("A = 'x\nB = 'y'"), @"a text is not closed (line: 1)");
        insta::assert_snapshot!(error("A = 99999999999999999999"), @"a number is too large (line: 1)");
        insta::assert_snapshot!(error("if True:\n  A = 1"), @"cannot be read: only NAME = VALUE is read, nothing is executed (line: 1)");
        insta::assert_snapshot!(error(&format!("A = {}", "[".repeat(50) + &"]".repeat(50))), @"bad A: brackets are nested too deep (line: 1)");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn no_text_makes_it_panic(text in "[-A-c='\"#\\[\\](),+.\\\\\n\r 0-9é]{0,60}|.*") {
            let _ = parse(&text);
        }

        #[test]
        fn what_python_would_print_is_read_back(wanted in "[^\r\n'\\\\]*") {
            prop_assert_eq!(value(&format!("'{wanted}'")), text(&wanted));
        }
    }
}
