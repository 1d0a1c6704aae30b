//! Rules about source files: how they open, how long they are, what must not be left in them.

use super::tree::File;

const LINES_MAX: usize = 800;

/// An `unsafe` block has its argument within so many lines above, comments not counted.
const SAFETY_LINES_MAX: usize = 3;

/// What is left behind, and what to do instead. Spelled in halves, so that this file passes.
const PLACEHOLDERS: [(&str, &str); 8] = [
    (concat!("to", "do!("), "write the code"),
    (concat!("unimple", "mented!("), "write the code"),
    (concat!("NotImple", "mentedError"), "write the code"),
    (concat!("FIX", "ME"), "repair it now"),
    (concat!("#[ig", "nore"), "make the test pass, or print why it cannot run here"),
    (concat!("xf", "ail"), "make the test pass, or print why it cannot run here"),
    (concat!("#[al", "low("), "say `#[expect(…, reason = \"…\")]`"),
    (concat!("#![al", "low("), "say `#![expect(…, reason = \"…\")]`"),
];

/// Rust opens with `//!`; Python, unless empty, with a docstring, after a shebang at most.
pub(crate) fn opening_doc(file: &File) -> Vec<String> {
    let (has_doc, doc) = match file.extension() {
        "rs" => (file.text.starts_with("//!"), "a `//!` doc"),
        "py" => (file.text.is_empty() || opens_with_docstring(&file.text), "a docstring"),
        _ => return Vec::new(),
    };
    if has_doc {
        return Vec::new();
    }
    vec![file.offence(1, &format!("does not open with {doc}; say what the file is"))]
}

/// A source file that nobody can hold in the head.
pub(crate) fn size(file: &File) -> Vec<String> {
    let lines = file.lines().count();
    if !is_source(file) || lines <= LINES_MAX {
        return Vec::new();
    }
    let what =
        format!("{lines} lines, more than {LINES_MAX}; split it by what its parts are about");
    vec![file.offence(LINES_MAX + 1, &what)]
}

/// Work put off, tests switched off, warnings silenced without a reason.
pub(crate) fn placeholders(file: &File) -> Vec<String> {
    if !is_source(file) {
        return Vec::new();
    }
    let mut offences = Vec::new();
    for (number, line) in file.lines() {
        for (placeholder, remedy) in PLACEHOLDERS {
            if has_word(line, placeholder) {
                offences.push(file.offence(number, &format!("`{placeholder}` is left; {remedy}")));
            }
        }
    }
    offences
}

/// Unsafe blocks and implementations without an argument.
pub(crate) fn unsafe_blocks(file: &File) -> Vec<String> {
    if file.extension() != "rs" {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let opens = |line: &str| {
        !is_comment(line)
            && [concat!("unsa", "fe {"), concat!("unsa", "fe impl")]
                .iter()
                .any(|opening| has_word(line, opening))
    };
    let unargued = (0..lines.len()).filter(|&at| opens(lines[at]) && !is_argued(&lines[..at]));
    unargued
        .map(|at| file.offence(at + 1, "unsafe without `SAFETY:` above; argue why it is sound"))
        .collect()
}

fn is_source(file: &File) -> bool {
    ["rs", "py", "js", "ts"].contains(&file.extension())
}

fn opens_with_docstring(text: &str) -> bool {
    let body = match text.split_once('\n') {
        Some((first, rest)) if first.starts_with("#!") => rest,
        _ => text,
    };
    body.starts_with("\"\"\"") || body.starts_with("r\"\"\"")
}

/// Does the word occur other than as the end of a longer one?
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

fn is_argued(above: &[&str]) -> bool {
    let mut code_lines = 0;
    for line in above.iter().rev() {
        if line.contains("SAFETY:") {
            return true;
        }
        code_lines += usize::from(!is_comment(line));
        if code_lines >= SAFETY_LINES_MAX {
            return false;
        }
    }
    false
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: fn(&File) -> Vec<String>, path: &str, text: &str, expect: &[&str]) {
        assert_eq!(rule(&File::new(path, text)), expect);
    }

    #[test]
    fn a_rust_file_without_its_doc_is_reported() {
        check(opening_doc, "a.rs", "//! What it is.\n", &[]);
        check(
            opening_doc,
            "a.rs",
            "use std::fs;\n",
            &["a.rs:1: does not open with a `//!` doc; say what the file is"],
        );
    }

    #[test]
    fn a_python_file_without_its_docstring_is_reported() {
        check(opening_doc, "a.py", "", &[]);
        check(opening_doc, "a.py", "#!/usr/bin/env python3\n\"\"\"What it is.\"\"\"\n", &[]);
        check(
            opening_doc,
            "a.py",
            "#!/usr/bin/env python3\nimport os\n",
            &["a.py:1: does not open with a docstring; say what the file is"],
        );
    }

    #[test]
    fn the_line_after_the_budget_is_reported() {
        check(size, "a.rs", &"\n".repeat(LINES_MAX), &[]);
        check(size, "a.json", &"\n".repeat(LINES_MAX + 1), &[]);
        check(
            size,
            "a.rs",
            &"\n".repeat(LINES_MAX + 1),
            &["a.rs:801: 801 lines, more than 800; split it by what its parts are about"],
        );
    }

    #[test]
    fn every_placeholder_is_reported_with_its_line() {
        for (placeholder, remedy) in PLACEHOLDERS {
            check(
                placeholders,
                "a.rs",
                &format!("fn a() {{\n    {placeholder}\n"),
                &[&format!("a.rs:2: `{placeholder}` is left; {remedy}")],
            );
            check(placeholders, "a.rs", &format!("my_{placeholder}\n"), &[]);
            check(placeholders, "a.md", placeholder, &[]);
        }
    }

    #[test]
    fn an_unsafe_block_without_an_argument_is_reported() {
        for opening in [concat!("unsa", "fe { a() }"), concat!("unsa", "fe impl Send for A {}")] {
            check(
                unsafe_blocks,
                "a.rs",
                &format!("// SAFETY: too far up.\na();\nb();\nc();\n{opening}\n"),
                &["a.rs:5: unsafe without `SAFETY:` above; argue why it is sound"],
            );
        }
    }

    #[test]
    fn an_argument_may_be_long() {
        let opening = concat!("unsa", "fe { a() }");
        let text = format!("// SAFETY: a,\n// b,\n// c,\n// d.\nlet x =\n    {opening};\n");
        check(unsafe_blocks, "a.rs", &text, &[]);
        check(unsafe_blocks, "a.rs", &format!("// An {opening} in prose.\n"), &[]);
    }
}
