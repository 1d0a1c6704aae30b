//! Rules about the pages people read: they name only what exists.

use super::tree::{File, holds};
use std::collections::HashSet;

/// Characters that paths of this repository do not have: patterns, placeholders, URLs, options.
const NOT_IN_PATHS: &str = " <>*{}()[]$%~=:|\"'\\,…";

/// Backticked paths that are neither a file nor a folder of the repository.
pub(crate) fn paths(page: &File, paths: &[String]) -> Vec<String> {
    let mut offences = Vec::new();
    for (number, line) in prose(page) {
        for token in line.split('`').skip(1).step_by(2).filter(|token| is_path(token)) {
            if !holds(paths, token) {
                let what = format!("`{token}` does not exist; write the path from the root");
                offences.push(page.offence(number, &what));
            }
        }
    }
    offences
}

/// Links to files that are not there, of a markdown page.
pub(crate) fn links(page: &File, paths: &[String]) -> Vec<String> {
    if page.extension() != "md" {
        return Vec::new();
    }
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut offences = Vec::new();
    for (number, line) in prose(page) {
        for link in targets(line).iter().filter(|link| is_relative(link)) {
            let target = link.split('#').next().unwrap_or_default();
            if !resolve(folder, target).is_some_and(|target| holds(paths, &target)) {
                offences.push(page.offence(number, &format!("link to `{link}` is dead; mend it")));
            }
        }
    }
    offences
}

/// Variables without a row `` | `NAME` `` on their page, and rows without a variable.
pub(crate) fn environment(page: &File, names: &[&str]) -> Vec<String> {
    let mut declared = HashSet::new();
    let mut described = HashSet::new();
    let mut offences = Vec::new();
    for name in names {
        if !declared.insert(*name) {
            let what = format!("`{name}` is twice in contract::env::VARIABLES; keep one");
            offences.push(page.offence(1, &what));
        }
    }
    for (number, line) in page.lines() {
        let Some((name, _)) = line.strip_prefix("| `").and_then(|row| row.split_once('`')) else {
            continue;
        };
        if !declared.contains(name) {
            let what =
                format!("`{name}` is not in contract::env::VARIABLES; add it or drop the row");
            offences.push(page.offence(number, &what));
        }
        if !described.insert(name) {
            offences.push(page.offence(number, &format!("`{name}` has two rows; keep one")));
        }
    }
    let undescribed = names.iter().filter(|name| !described.contains(**name));
    offences.extend(
        undescribed.map(|name| page.offence(1, &format!("`{name}` has no row; describe it"))),
    );
    offences
}

/// The numbered lines outside fenced code.
fn prose(page: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    page.lines().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

fn is_path(token: &str) -> bool {
    token.contains('/')
        && !token.starts_with(['/', '-', '@'])
        && !token.contains(|character| NOT_IN_PATHS.contains(character))
}

/// What a line links to: `[text](target "title")` and `[name]: target`, not inside backticks.
fn targets(line: &str) -> Vec<String> {
    let text: String = line.split('`').step_by(2).collect();
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let definition = text
        .strip_prefix('[')
        .filter(|rest| !rest.starts_with('^'))
        .and_then(|rest| rest.split_once(']'))
        .and_then(|(_, rest)| rest.strip_prefix(": "));
    let targets = inline.chain(definition);
    targets.filter_map(|target| target.split_whitespace().next()).map(String::from).collect()
}

fn is_relative(link: &str) -> bool {
    !link.starts_with(['#', '/']) && !link.contains("://") && !link.starts_with("mailto:")
}

/// The path of a link from the root; nothing if it leaves the repository.
fn resolve(folder: &str, link: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in folder.split('/').chain(link.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Vec<String> {
        ["README.md", "docs/environment.md", "crates/wire/src/lib.rs"].map(String::from).into()
    }

    #[track_caller]
    fn check_paths(text: &str, expect: &[&str]) {
        assert_eq!(paths(&File::new("ARCHITECTURE.md", text), &tree()), expect);
    }

    #[track_caller]
    fn check_links(text: &str, expect: &[&str]) {
        assert_eq!(links(&File::new("docs/a.md", text), &tree()), expect);
    }

    #[track_caller]
    fn check_environment(text: &str, names: &[&str], expect: &[&str]) {
        assert_eq!(environment(&File::new("docs/environment.md", text), names), expect);
    }

    #[test]
    fn a_path_that_does_not_exist_is_reported_with_its_line() {
        check_paths(
            "See `crates/wire/`\nand `wire/src/lib.rs`.\n",
            &["ARCHITECTURE.md:2: `wire/src/lib.rs` does not exist; write the path from the root"],
        );
    }

    #[test]
    fn only_what_looks_like_a_path_is_one() {
        check_paths(
            "`contract` `/pfs/x` `<user>/x` `a/*.rs` `http://x/y` `log/{a,b}` `a / b`\n",
            &[],
        );
        check_paths("```\n`not/here`\n```\n", &[]);
    }

    #[test]
    fn a_dead_link_is_reported_with_its_line() {
        check_links(
            "[`a`](environment.md#top) [b](../README.md)\n[c](README.md)\n[d]: ../../x \"title\"\n",
            &[
                "docs/a.md:2: link to `README.md` is dead; mend it",
                "docs/a.md:3: link to `../../x` is dead; mend it",
            ],
        );
    }

    #[test]
    fn links_elsewhere_are_not_followed() {
        check_links("[a](https://x/y) [b](#here) [c](mailto:a@b) `[d](e)`\n[^1]: note\n", &[]);
        assert_eq!(links(&File::new("a.rs", "//! [a](b)\n"), &tree()), [""; 0]);
    }

    #[test]
    fn a_variable_without_a_row_is_reported() {
        check_environment(
            "| `A` | a |\n",
            &["A", "B"],
            &["docs/environment.md:1: `B` has no row; describe it"],
        );
    }

    #[test]
    fn a_row_without_a_variable_is_reported_with_its_line() {
        check_environment(
            "| name | meaning |\n| `A` | a |\n",
            &[],
            &["docs/environment.md:2: `A` is not in contract::env::VARIABLES; add it or drop the \
               row"],
        );
    }

    #[test]
    fn duplicates_of_a_variable_are_reported() {
        check_environment(
            "| `A` | a |\n| `A` | a |\n",
            &["A", "A"],
            &[
                "docs/environment.md:1: `A` is twice in contract::env::VARIABLES; keep one",
                "docs/environment.md:2: `A` has two rows; keep one",
            ],
        );
    }
}
