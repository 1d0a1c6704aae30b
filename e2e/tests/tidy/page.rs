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

/// Versions of protocols that the page does not name as their sources do. A service is named
/// `` `name` N `` in the row "service version", the wire itself `N` in the row "wire version".
pub(crate) fn wire_versions(page: &File, sources: &[File]) -> Vec<String> {
    let mut offences = Vec::new();
    let mut found = 0;
    let mut expect = |row: &str, cell: &str| {
        found += 1;
        let has_cell = |line: &str| line.split(['|', ',']).any(|found| found.trim() == cell);
        match page.lines().find(|(_, line)| line.contains(row)) {
            Some((_, line)) if has_cell(line) => {}
            Some((number, _)) => {
                offences.push(page.offence(number, &format!("{row} must be `{cell}`; correct it")));
            }
            None => offences.push(page.offence(1, &format!("there is no row for the {row}"))),
        }
    };
    for source in sources {
        for line in source.text.lines() {
            let number =
                |rest: &str| -> String { rest.chars().take_while(char::is_ascii_digit).collect() };
            if let Some((_, rest)) = line.split_once("pub const VERSION: u16 = ") {
                expect("wire version", &number(rest));
            }
            let service = line.split_once("Service { name: \"").filter(|_| !line.contains("//"));
            let named = service.and_then(|(_, rest)| rest.split_once("\", version: "));
            if let Some((name, rest)) = named {
                expect("service version", &format!("`{name}` {}", number(rest)));
            }
        }
    }
    if found == 0 {
        offences.push(page.offence(1, "no source declares a version; mend the rule"));
    }
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
    fn a_version_that_differs_from_its_source_is_reported_with_its_line() {
        let sources = [
            File::new("frame.rs", "pub const VERSION: u16 = 1;\n"),
            File::new(
                "a.rs",
                "pub const SERVICE: Service = Service { name: \"a\", version: 12 };\n",
            ),
            File::new("b.rs", "Service { name: \"b\", version: 3 };\n"),
        ];
        let check = |text: &str, expect: &[&str]| {
            assert_eq!(wire_versions(&File::new("docs/wire.md", text), &sources), expect);
        };
        check("| 8 | wire version, u16 | 1 |\n| service version | `a` 12, `b` 3 |\n", &[]);
        check(
            "| 8 | wire version, u16 | 2 |\n| service version | `a` 1, `b` 3 |\n",
            &[
                "docs/wire.md:1: wire version must be `1`; correct it",
                "docs/wire.md:2: service version must be ``a` 12`; correct it",
            ],
        );
        let empty = File::new("docs/wire.md", "");
        assert_eq!(wire_versions(&empty, &sources).len(), 3);
        assert_eq!(wire_versions(&empty, &[]).len(), 1, "a rule that finds nothing checks nothing");
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
