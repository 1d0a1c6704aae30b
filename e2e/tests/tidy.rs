//! The repository's own rules. A failure lists every offence as `path:line: what is wrong; what
//! to do`. This file only applies the rules to the tree; they are pure functions in `tidy/`, each
//! tried there on bad input.

mod tidy {
    pub(crate) mod makefile;
    pub(crate) mod manifest;
    pub(crate) mod page;
    pub(crate) mod source;
    pub(crate) mod text;
    pub(crate) mod tree;
}

use tidy::tree::{File, Tree};
use tidy::{makefile, manifest, page, source, text, tree};

#[test]
fn required_files_are_there() {
    report(&tree::required(&Tree::here().paths));
}

#[test]
fn arrows_between_crates_are_those_of_the_architecture() {
    let page = Tree::here().file("ARCHITECTURE.md");
    report(&manifest::arrows(&page, &members()));
}

#[test]
fn versions_and_features_are_set_in_the_workspace() {
    report(&members().into_iter().flat_map(manifest::settings).collect::<Vec<_>>());
}

#[test]
fn every_source_file_opens_with_its_doc() {
    report_on_each(source::opening_doc);
}

#[test]
fn files_stay_within_the_size_budget() {
    report_on_each(source::size);
}

#[test]
fn no_placeholders_are_left() {
    report_on_each(source::placeholders);
}

#[test]
fn every_unsafe_block_argues_its_safety() {
    report_on_each(source::unsafe_blocks);
}

#[test]
fn paths_named_in_architecture_exist() {
    let tree = Tree::here();
    report(&page::paths(&tree.file("ARCHITECTURE.md"), &tree.paths));
}

#[test]
fn links_between_pages_resolve() {
    report_on_each(|file| page::links(file, &Tree::here().paths));
}

#[test]
fn environment_variables_and_their_page_agree() {
    let names: Vec<&str> = contract::env::VARIABLES.iter().map(|variable| variable.name).collect();
    report(&page::environment(&Tree::here().file("docs/environment.md"), &names));
}

#[test]
fn every_command_of_the_makefile_is_described() {
    report(&makefile::descriptions(&Tree::here().file("Makefile")));
}

#[test]
fn no_machine_paths_in_tracked_text() {
    let home = std::env::var("HOME").ok();
    let folders = text::machine_folders(&Tree::here().root, home.as_deref());
    report_on_each(|file| text::machine_paths(file, &folders));
}

#[test]
fn text_is_clean() {
    report_on_each(text::clean);
}

fn members() -> Vec<&'static File> {
    let workspace = Tree::here().file("Cargo.toml");
    Tree::here().files.iter().filter(|file| manifest::is_member(&workspace, file)).collect()
}

fn report_on_each(rule: impl Fn(&File) -> Vec<String>) {
    report(&Tree::here().files.iter().flat_map(rule).collect::<Vec<_>>());
}

#[track_caller]
fn report(offences: &[String]) {
    assert!(offences.is_empty(), "{} offences\n{}", offences.len(), offences.join("\n"));
}
