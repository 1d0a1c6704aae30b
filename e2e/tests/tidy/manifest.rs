//! Which crate uses which, and where versions are set: the rules about the members' `Cargo.toml`s.

use super::tree::File;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The section of ARCHITECTURE.md whose table lists the arrows.
const SECTION: &str = "## Arrows";

/// The only crate that names `burn`.
const TENSOR_CRATE: &str = "engine";

/// Is this file the manifest of a member of the workspace?
pub(crate) fn is_member(workspace: &File, file: &File) -> bool {
    let Some(folder) = file.path.strip_suffix("/Cargo.toml") else { return false };
    let document = parse(workspace);
    let members = table(&document, "workspace").and_then(|workspace| workspace.get("members"));
    let members = members.and_then(|members| members.get_ref().as_array());
    members.is_some_and(|members| {
        members.iter().filter_map(|member| member.get_ref().as_str()).any(|pattern| {
            match (pattern.strip_suffix("/*"), folder.rsplit_once('/')) {
                (Some(parent), Some((folder, _))) => parent == folder,
                _ => pattern == folder,
            }
        })
    })
}

/// Differences between the table of arrows on the page and the members' manifests.
pub(crate) fn arrows(page: &File, manifests: &[&File]) -> Vec<String> {
    let mut offences = Vec::new();
    let mut rows = BTreeMap::new();
    for row in rows_of(page) {
        let (name, line) = (row.name, row.line);
        if rows.insert(name, row).is_some() {
            offences.push(page.offence(line, &format!("`{name}` has two rows; keep one")));
        }
    }
    let names: BTreeSet<&str> = manifests.iter().map(|manifest| crate_name(manifest)).collect();
    for manifest in manifests {
        let name = crate_name(manifest);
        let Some(row) = rows.remove(name) else {
            let what = format!("crate `{name}` has no row under \"{SECTION}\" of {}", page.path);
            offences.push(manifest.offence(1, &what));
            continue;
        };
        let mut used = BTreeSet::new();
        let dependencies = dependencies(manifest);
        for to in dependencies.iter().filter(|to| to.is_normal && names.contains(&*to.name)) {
            if used.insert(&*to.name) && !row.uses.contains(&*to.name) {
                let what = format!(
                    "`{name}` may not use `{}`; move the code along the arrows of {}",
                    to.name, page.path
                );
                offences.push(manifest.offence(to.line, &what));
            }
        }
        for to in row.uses.difference(&used) {
            let what = format!("`{name}` does not use `{to}`; drop it from the row");
            offences.push(page.offence(row.line, &what));
        }
    }
    for row in rows.values() {
        let what = format!("there is no crate `{}`; drop the row", row.name);
        offences.push(page.offence(row.line, &what));
    }
    offences
}

/// A row of the table of arrows.
struct Row<'a> {
    line: usize,
    name: &'a str,
    uses: BTreeSet<&'a str>,
}

fn rows_of(page: &File) -> impl Iterator<Item = Row<'_>> {
    let section = page.lines().skip_while(|(_, line)| *line != SECTION).skip(1);
    section.take_while(|(_, line)| !line.starts_with("## ")).filter_map(|(line, row)| {
        let mut names = row.strip_prefix("| `")?.split('`').step_by(2);
        Some(Row { line, name: names.next()?, uses: names.collect() })
    })
}

/// Dependencies not inherited from the workspace, and Burn outside its crate.
pub(crate) fn settings(manifest: &File) -> Vec<String> {
    let name = crate_name(manifest);
    let mut offences = Vec::new();
    for dependency in dependencies(manifest) {
        let to = &dependency.name;
        let mut report = |what: &str| offences.push(manifest.offence(dependency.line, what));
        if !dependency.is_inherited {
            report(&format!(
                "`{to}` sets more than `workspace` and `optional`; put version and features in \
                 [workspace.dependencies]"
            ));
        }
        if to.starts_with("burn") && name != TENSOR_CRATE {
            report(&format!("`{name}` names `{to}`; only `{TENSOR_CRATE}` may"));
        }
    }
    offences
}

struct Dependency {
    name: String,
    line: usize,
    /// Neither for tests nor for the build script.
    is_normal: bool,
    is_inherited: bool,
}

fn dependencies(manifest: &File) -> Vec<Dependency> {
    let document = parse(manifest);
    let targets = table(&document, "target").into_iter().flat_map(|targets| targets.values());
    let homes = targets.filter_map(|target| target.get_ref().as_table());

    let mut dependencies = Vec::new();
    for home in std::iter::once(&document).chain(homes) {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, value) in table(home, kind).into_iter().flatten() {
                dependencies.push(Dependency {
                    name: name.get_ref().to_string(),
                    line: manifest.text[..name.span().start].matches('\n').count() + 1,
                    is_normal: kind == "dependencies",
                    is_inherited: is_inherited(value),
                });
            }
        }
    }
    dependencies
}

fn is_inherited(dependency: &Spanned<DeValue<'_>>) -> bool {
    dependency.get_ref().as_table().is_some_and(|settings| {
        settings.iter().all(|(key, value)| match key.get_ref().as_ref() {
            "workspace" => value.get_ref().as_bool() == Some(true),
            "optional" => true,
            _ => false,
        }) && settings.contains_key("workspace")
    })
}

/// A crate is called after its folder.
fn crate_name(manifest: &File) -> &str {
    manifest.path.rsplit('/').nth(1).unwrap_or_default()
}

fn parse(manifest: &File) -> DeTable<'_> {
    DeTable::parse(&manifest.text).expect("cargo has read it").into_inner()
}

fn table<'a, 'i>(parent: &'a DeTable<'i>, key: &str) -> Option<&'a DeTable<'i>> {
    parent.get(key).and_then(|value| value.get_ref().as_table())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manifests of `wire` and `pserver` with these dependencies, and the page with these rows.
    #[track_caller]
    fn check_arrows(wire: &str, pserver: &str, rows: &str, expect: &[&str]) {
        let manifests = [("wire", wire), ("pserver", pserver)]
            .map(|(name, text)| File::new(&format!("crates/{name}/Cargo.toml"), text));
        let text = format!("| `x` | |\n## Arrows\n{rows}\n## Life\n| `y` | `z` |\n");
        let page = File::new("ARCHITECTURE.md", &text);
        assert_eq!(arrows(&page, &[&manifests[0], &manifests[1]]), expect);
    }

    #[track_caller]
    fn check_settings(folder: &str, manifest: &str, expect: &[&str]) {
        let file = File::new(&format!("{folder}/Cargo.toml"), manifest);
        assert_eq!(settings(&file), expect);
    }

    const USES_WIRE: &str = "[dependencies]\nwire.workspace = true\nserde.workspace = true\n";

    #[test]
    fn members_are_read_from_the_workspace() {
        let workspace = File::new("Cargo.toml", "[workspace]\nmembers = ['crates/*', 'e2e']\n");
        for (path, expect) in [
            ("crates/wire/Cargo.toml", true),
            ("e2e/Cargo.toml", true),
            ("crates/recordio/fuzz/Cargo.toml", false),
            ("bench/Cargo.toml", false),
            ("Cargo.toml", false),
            ("crates/wire/src/lib.rs", false),
        ] {
            assert_eq!(is_member(&workspace, &File::new(path, "")), expect, "{path}");
        }
    }

    #[test]
    fn a_table_that_lists_every_arrow_is_right() {
        check_arrows("", USES_WIRE, "| `wire` | |\n| `pserver` | `wire` |", &[]);
    }

    #[test]
    fn an_arrow_that_is_not_on_the_page_is_reported_with_its_line() {
        check_arrows(
            "[dependencies]\nserde.workspace = true\npserver.workspace = true\n",
            "",
            "| `wire` | |\n| `pserver` | |",
            &["crates/wire/Cargo.toml:3: `wire` may not use `pserver`; move the code along the \
               arrows of ARCHITECTURE.md"],
        );
    }

    #[test]
    fn an_arrow_that_is_only_on_the_page_is_reported_with_its_line() {
        check_arrows(
            "",
            USES_WIRE,
            "| `wire` | `pserver` |\n| `pserver` | `wire`, `wine` |",
            &[
                "ARCHITECTURE.md:3: `wire` does not use `pserver`; drop it from the row",
                "ARCHITECTURE.md:4: `pserver` does not use `wine`; drop it from the row",
            ],
        );
    }

    #[test]
    fn an_arrow_for_one_platform_is_an_arrow_too() {
        check_arrows(
            "[target.'cfg(unix)'.dependencies]\npserver = { workspace = true, optional = true }\n",
            "",
            "| `wire` | |\n| `pserver` | |",
            &["crates/wire/Cargo.toml:2: `wire` may not use `pserver`; move the code along the \
               arrows of ARCHITECTURE.md"],
        );
    }

    #[test]
    fn tests_may_use_any_crate() {
        let wire = "[dev-dependencies]\npserver.workspace = true\n";
        check_arrows(wire, "", "| `wire` | |\n| `pserver` | |", &[]);
    }

    #[test]
    fn every_crate_has_one_row_and_every_row_a_crate() {
        check_arrows(
            "",
            "",
            "| `wire` | |\n| `misc` | |\n| `wire` | |",
            &[
                "ARCHITECTURE.md:5: `wire` has two rows; keep one",
                "crates/pserver/Cargo.toml:1: crate `pserver` has no row under \"## Arrows\" of \
                 ARCHITECTURE.md",
                "ARCHITECTURE.md:4: there is no crate `misc`; drop the row",
            ],
        );
    }

    #[test]
    fn a_version_or_feature_of_a_member_is_reported() {
        let what = "sets more than `workspace` and `optional`; put version and features in \
                    [workspace.dependencies]";
        check_settings(
            "e2e",
            "[dependencies]\nserde = '1'\n\
             [dev-dependencies]\nclap = { workspace = true, features = ['derive'] }\n\
             [build-dependencies]\ncc = { path = 'cc' }\n",
            &[
                &format!("e2e/Cargo.toml:2: `serde` {what}"),
                &format!("e2e/Cargo.toml:4: `clap` {what}"),
                &format!("e2e/Cargo.toml:6: `cc` {what}"),
            ],
        );
    }

    #[test]
    fn burn_outside_the_engine_is_reported() {
        let manifest = "[dev-dependencies]\nburn-flex.workspace = true\n";
        check_settings("crates/engine", manifest, &[]);
        check_settings(
            "crates/trainer",
            manifest,
            &["crates/trainer/Cargo.toml:2: `trainer` names `burn-flex`; only `engine` may"],
        );
    }
}
