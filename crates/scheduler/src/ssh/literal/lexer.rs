//! Characters of a configuration file → tokens with their lines. Comments, blank lines and line
//! ends inside brackets are gone; what a token may be used for is the parser's affair.

use std::iter::Peekable;
use std::str::Chars;

use contract::{Error, Result};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) line: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum TokenKind {
    Name(String),
    Text(String),
    Whole(i64),
    Fraction(f64),
    Symbol(char),
    /// The end of a statement.
    End,
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut lexer = Lexer { rest: text.chars().peekable(), line: 1, open: Vec::new() };
    let mut tokens: Vec<Token> = Vec::new();
    while let Some(token) = lexer.next()? {
        // Empty statements say nothing.
        let is_empty = token.kind == TokenKind::End
            && tokens.last().is_none_or(|last| last.kind == TokenKind::End);
        if !is_empty {
            tokens.push(token);
        }
    }
    if let Some(line) = lexer.open.last() {
        return Err(Error::invalid("a bracket is not closed").with("line", line));
    }
    // So that the last statement ends as all others do.
    tokens.push(Token { kind: TokenKind::End, line: lexer.line });
    Ok(tokens)
}

struct Lexer<'a> {
    rest: Peekable<Chars<'a>>,
    line: usize,
    /// The lines of the brackets that are open.
    open: Vec<usize>,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Option<Token>> {
        loop {
            let line = self.line;
            let token = |kind| Ok(Some(Token { kind, line }));
            let Some(&character) = self.rest.peek() else { return Ok(None) };
            match character {
                '\n' => {
                    self.advance();
                    if self.open.is_empty() {
                        return token(TokenKind::End);
                    }
                }
                '#' => while self.rest.next_if(|c| *c != '\n').is_some() {},
                c if c.is_whitespace() => self.advance(),
                '\\' => {
                    self.advance();
                    self.rest.next_if_eq(&'\r');
                    if self.rest.peek() != Some(&'\n') {
                        return Err(self.refuse("a backslash outside a text ends its line"));
                    }
                    self.advance();
                }
                ';' => {
                    self.advance();
                    return token(TokenKind::End);
                }
                '\'' | '"' => return token(TokenKind::Text(self.text(false)?)),
                c if c.is_ascii_digit() => return token(self.number()?),
                c if c.is_alphabetic() || c == '_' => {
                    let name = self.name();
                    return match self.rest.peek() {
                        Some('\'' | '"') => token(TokenKind::Text(self.prefixed(&name)?)),
                        _ => token(TokenKind::Name(name)),
                    };
                }
                symbol => {
                    match symbol {
                        '[' | '(' | '{' => self.open.push(line),
                        ']' | ')' | '}' => {
                            self.open.pop();
                        }
                        _ => {}
                    }
                    self.advance();
                    return token(TokenKind::Symbol(symbol));
                }
            }
        }
    }

    fn advance(&mut self) {
        if self.rest.next() == Some('\n') {
            self.line += 1;
        }
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.rest.next_if(|c| c.is_alphanumeric() || *c == '_') {
            name.push(c);
        }
        name
    }

    fn number(&mut self) -> Result<TokenKind> {
        let mut digits = String::new();
        let is_part = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
        while let Some(c) = self.rest.next_if(is_part) {
            // The sign of an exponent belongs to the number.
            let is_exponent = matches!(c, 'e' | 'E') && !digits.starts_with("0x");
            digits.push(c);
            if is_exponent && let Some(sign) = self.rest.next_if(|c| matches!(c, '-' | '+')) {
                digits.push(sign);
            }
        }
        let plain = digits.replace('_', "");
        let whole = match plain.get(..2) {
            Some("0x" | "0X") => i64::from_str_radix(&plain[2..], 16),
            Some("0o" | "0O") => i64::from_str_radix(&plain[2..], 8),
            Some("0b" | "0B") => i64::from_str_radix(&plain[2..], 2),
            _ => plain.parse(),
        };
        match (whole, plain.parse::<f64>()) {
            (Ok(number), _) => Ok(TokenKind::Whole(number)),
            (Err(_), _) if plain.bytes().all(|c| c.is_ascii_digit()) => {
                Err(self.refuse("a number is too large"))
            }
            (Err(_), Ok(number)) => Ok(TokenKind::Fraction(number)),
            (Err(_), Err(_)) => Err(self.refuse("not a number").with("number", digits)),
        }
    }

    fn prefixed(&mut self, prefix: &str) -> Result<String> {
        match prefix {
            "r" | "R" => self.text(true),
            "u" | "U" => self.text(false),
            _ => {
                let what = format!("a text with the prefix {prefix} is not read: use '…' or r'…'");
                Err(self.refuse(&what))
            }
        }
    }

    fn text(&mut self, is_raw: bool) -> Result<String> {
        let begin = self.line;
        let unclosed = || Error::invalid("a text is not closed").with("line", begin);
        let Some(quote) = self.rest.next() else { return Err(unclosed()) };
        let mut is_long = false;
        if self.rest.next_if_eq(&quote).is_some() {
            if self.rest.next_if_eq(&quote).is_none() {
                return Ok(String::new());
            }
            is_long = true;
        }
        let mut text = String::new();
        loop {
            match self.rest.peek().copied() {
                None => return Err(unclosed()),
                Some('\n') if !is_long => return Err(unclosed()),
                Some(c) if c == quote => {
                    self.advance();
                    if !is_long {
                        return Ok(text);
                    }
                    let mut ahead = self.rest.clone();
                    if ahead.next() == Some(quote) && ahead.next() == Some(quote) {
                        self.rest = ahead;
                        return Ok(text);
                    }
                    text.push(c);
                }
                Some('\\') => {
                    self.advance();
                    self.escape(is_raw, &mut text)?;
                }
                Some(c) => {
                    self.advance();
                    text.push(c);
                }
            }
        }
    }

    /// What follows a backslash; an escape that Python does not know stands for itself.
    fn escape(&mut self, is_raw: bool, text: &mut String) -> Result<()> {
        let Some(&c) = self.rest.peek() else { return Ok(()) };
        self.advance();
        if is_raw {
            text.push('\\');
            text.push(c);
            return Ok(());
        }
        match c {
            '\n' => {}
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '\\' | '\'' | '"' => text.push(c),
            'x' => text.push(self.code(16, 2)?),
            'u' => text.push(self.code(16, 4)?),
            'U' => text.push(self.code(16, 8)?),
            '0'..='7' => {
                let mut code = c.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    if let Some(digit) = self.rest.next_if(|c| c.is_digit(8)) {
                        code = code * 8 + digit.to_digit(8).unwrap_or(0);
                    }
                }
                text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => {
                text.push('\\');
                text.push(c);
            }
        }
        Ok(())
    }

    fn code(&mut self, radix: u32, digits: usize) -> Result<char> {
        let mut code = 0;
        for _ in 0..digits {
            let digit = self.rest.next_if(|c| c.is_digit(radix)).and_then(|c| c.to_digit(radix));
            code = code * radix + digit.ok_or_else(|| self.refuse(BAD_ESCAPE))?;
        }
        char::from_u32(code).ok_or_else(|| self.refuse(BAD_ESCAPE))
    }

    fn refuse(&self, what: &str) -> Error {
        Error::invalid(what).with("line", self.line)
    }
}

const BAD_ESCAPE: &str = "not a character: write it as it is";
