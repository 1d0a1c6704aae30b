//! Rules about every text file: clean ends, no tabs, no merge markers, no paths of one machine.

use super::tree::File;
use std::path::Path;

/// Folders that exist on many machines, so that naming one gives nothing away.
const SHARED_FOLDERS: [&str; 8] =
    ["/", "/home", "/mnt", "/opt", "/srv", "/tmp", "/usr/src", "/workspace"];

/// Blank ends of lines, tabs, merge markers, and an end of file other than one newline.
pub(crate) fn clean(file: &File) -> Vec<String> {
    // A snapshot repeats what a command printed, blanks and all.
    if file.extension() == "snap" {
        return Vec::new();
    }
    let has_tabs_banned = ["rs", "py", "md"].contains(&file.extension());
    let mut offences = Vec::new();
    let mut last = 1;
    for (number, line) in file.lines() {
        last = number;
        let mut report = |what| offences.push(file.offence(number, what));
        if line.ends_with(char::is_whitespace) {
            report("trailing whitespace; remove it");
        }
        if has_tabs_banned && line.contains('\t') {
            report("tab; use spaces");
        }
        if ["<<<<<<< ", "||||||| ", ">>>>>>> "].iter().any(|marker| line.starts_with(marker)) {
            report("merge marker; finish the merge");
        }
    }
    if !file.text.is_empty() && !file.text.ends_with('\n') {
        offences.push(file.offence(last, "no newline at the end; add one"));
    }
    if file.text.ends_with("\n\n") || file.text == "\n" {
        offences.push(file.offence(last, "empty line at the end; remove it"));
    }
    offences
}

/// Folders that only this machine has: around the repository, and the user's own.
pub(crate) fn machine_folders(root: &Path, home: Option<&str>) -> Vec<String> {
    let candidates = [Some(root), root.parent(), home.map(Path::new)];
    let folders = candidates.iter().flatten().filter_map(|folder| folder.to_str());
    let private = folders
        .map(|folder| folder.trim_end_matches('/'))
        .filter(|folder| !folder.is_empty() && !SHARED_FOLDERS.contains(folder));
    private.map(|folder| format!("{folder}/")).collect()
}

/// Mentions of such folders.
pub(crate) fn machine_paths(file: &File, folders: &[String]) -> Vec<String> {
    if file.path == "Cargo.lock" {
        return Vec::new();
    }
    let mut offences = Vec::new();
    for (number, line) in file.lines() {
        if let Some(folder) = folders.iter().find(|folder| starts_a_path(line, folder)) {
            let what =
                format!("`{folder}` exists on one machine; use a relative path or a variable");
            offences.push(file.offence(number, &what));
        }
    }
    offences
}

/// Does the folder occur other than inside a longer path, such as `$HOME/work/`?
fn starts_a_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        !line[..at]
            .ends_with(|before: char| before.is_alphanumeric() || "_-.~/})>".contains(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_clean(path: &str, text: &str, expect: &[&str]) {
        assert_eq!(clean(&File::new(path, text)), expect);
    }

    #[track_caller]
    fn check_machine_paths(path: &str, text: &str, expect: &[&str]) {
        let folders = machine_folders(Path::new("/disk/main"), Some("/home/ann"));
        assert_eq!(machine_paths(&File::new(path, text), &folders), expect);
    }

    #[test]
    fn a_tab_is_reported_with_its_line() {
        check_clean("a.rs", "a\n\tb\n", &["a.rs:2: tab; use spaces"]);
        check_clean("Makefile", "a:\n\tb\n", &[]);
    }

    #[test]
    fn trailing_whitespace_is_reported_with_its_line() {
        check_clean("a.md", "a\nb \n", &["a.md:2: trailing whitespace; remove it"]);
        check_clean("a.md", "a\r\n", &["a.md:1: trailing whitespace; remove it"]);
        check_clean("a.snap", "a \n", &[]);
    }

    #[test]
    fn a_merge_marker_is_reported_with_its_line() {
        check_clean("a.toml", "a\n<<<<<<< HEAD\n", &["a.toml:2: merge marker; finish the merge"]);
    }

    #[test]
    fn a_file_ends_with_exactly_one_newline() {
        check_clean("a", "", &[]);
        check_clean("a", "a\n", &[]);
        check_clean("a", "a\nb", &["a:2: no newline at the end; add one"]);
        check_clean("a", "a\n\n", &["a:2: empty line at the end; remove it"]);
        check_clean("a", "\n", &["a:1: empty line at the end; remove it"]);
    }

    #[test]
    fn a_path_of_this_machine_is_reported_with_its_line() {
        let what = "exists on one machine; use a relative path or a variable";
        check_machine_paths(
            "a.md",
            "a\ncd /disk/main\nls=/home/ann/x\n",
            &[&format!("a.md:2: `/disk/` {what}"), &format!("a.md:3: `/home/ann/` {what}")],
        );
    }

    #[test]
    fn a_path_that_only_resembles_one_of_this_machine_passes() {
        check_machine_paths("a.md", "$HOME/disk/x /disks/x /home/anna/x /home/x\n", &[]);
        check_machine_paths("Cargo.lock", "/disk/main\n", &[]);
    }

    #[test]
    fn folders_that_many_machines_have_are_not_private() {
        assert_eq!(machine_folders(Path::new("/tmp/main"), Some("/")), ["/tmp/main/"]);
        assert_eq!(machine_folders(Path::new("/workspace"), None), [""; 0]);
    }
}
