//! Which crate may use which, and where versions are set: the rules about the members'
//! `Cargo.toml`s.

use super::tree::File;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The allowed arrows, as ARCHITECTURE.md draws them. Every crate may use `contract`.
const ARROWS: [(&str, &[&str]); 13] = [
    ("contract", &[]),
    ("recordio", &[]),
    ("wire", &[]),
    ("table", &[]),
    ("pserver", &["wire", "table"]),
    ("master", &["wire", "recordio"]),
    ("engine", &[]),
    ("trainer", &["engine", "pserver", "table", "master", "recordio"]),
    ("scheduler", &["wire"]),
    ("cloud", &["scheduler"]),
    ("client", &[]),
    (
        "cli",
        &[
            "recordio",
            "wire",
            "table",
            "pserver",
            "master",
            "engine",
            "trainer",
            "scheduler",
            "cloud",
            "client",
        ],
    ),
    ("python", &["trainer", "engine", "master", "pserver", "table", "recordio", "client"]),
];

/// Its stories use whatever they need.
const FREE: &str = "e2e";

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

/// Arrows that the design does not have, and dependencies not inherited from the workspace.
pub(crate) fn arrows(manifest: &File) -> Vec<String> {
    let name = crate_name(manifest);
    let allowed = ARROWS.iter().find(|(from, _)| *from == name).map(|(_, to)| *to);
    if allowed.is_none() && name != FREE {
        let what = format!(
            "crate `{name}` is not in the design; add it to ARCHITECTURE.md and to ARROWS in \
             e2e/tests/tidy/manifest.rs"
        );
        return vec![manifest.offence(1, &what)];
    }

    let mut offences = Vec::new();
    for dependency in dependencies(manifest) {
        let to = &dependency.name;
        let mut report = |what: &str| offences.push(manifest.offence(dependency.line, what));
        if let Some(allowed) = allowed
            && dependency.is_normal
            && is_ours(to)
            && to != "contract"
            && !allowed.contains(&to.as_str())
        {
            report(&format!("`{name}` may not use `{to}`; move the code along the arrows"));
        }
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

fn is_ours(dependency: &str) -> bool {
    dependency == FREE || ARROWS.iter().any(|(name, _)| *name == dependency)
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

    #[track_caller]
    fn check(folder: &str, manifest: &str, expect: &[&str]) {
        let file = File::new(&format!("{folder}/Cargo.toml"), manifest);
        assert_eq!(arrows(&file), expect);
    }

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
    fn an_arrow_of_the_design_is_allowed() {
        check("crates/pserver", "[dependencies]\nwire.workspace = true\n", &[]);
        check("crates/wire", "[dependencies]\ncontract.workspace = true\n", &[]);
    }

    #[test]
    fn an_arrow_against_the_design_is_reported_with_its_line() {
        check(
            "crates/wire",
            "[dependencies]\ncontract.workspace = true\npserver.workspace = true\n",
            &["crates/wire/Cargo.toml:3: `wire` may not use `pserver`; move the code along the \
               arrows"],
        );
    }

    #[test]
    fn an_arrow_for_one_platform_is_an_arrow_too() {
        check(
            "crates/contract",
            "[target.'cfg(unix)'.dependencies]\nrecordio = { workspace = true, optional = true }\n",
            &["crates/contract/Cargo.toml:2: `contract` may not use `recordio`; move the code \
               along the arrows"],
        );
    }

    #[test]
    fn tests_and_stories_may_use_any_crate() {
        check("crates/wire", "[dev-dependencies]\npserver.workspace = true\n", &[]);
        check("e2e", "[dependencies]\ncloud.workspace = true\n", &[]);
    }

    #[test]
    fn a_crate_outside_the_design_is_reported() {
        check(
            "crates/misc",
            "",
            &["crates/misc/Cargo.toml:1: crate `misc` is not in the design; add it to \
               ARCHITECTURE.md and to ARROWS in e2e/tests/tidy/manifest.rs"],
        );
    }

    #[test]
    fn a_version_or_feature_of_a_member_is_reported() {
        let what = "sets more than `workspace` and `optional`; put version and features in \
                    [workspace.dependencies]";
        check(
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
        check("crates/engine", manifest, &[]);
        check(
            "crates/trainer",
            manifest,
            &["crates/trainer/Cargo.toml:2: `trainer` names `burn-flex`; only `engine` may"],
        );
    }
}
