//! The figures of a replica: a file of JSON lines that grows, read as far as it is complete.

use super::files::View;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A file of JSON lines that a program writes.
pub(super) struct Figures {
    view: View,
    path: PathBuf,
    seen_bytes: u64,
    /// The folder of the file, once it was there. When the last process in a root of its own has
    /// ended, what was mounted in that root is gone, and no path leads to the file any more.
    folder: Option<View>,
}

/// The most that is read at once. A line longer than this is passed over.
const PIECE_BYTES_MAX: u64 = 256 << 10;

impl Figures {
    /// All lines of the file, from its beginning.
    pub(super) fn new(view: View, path: PathBuf) -> Self {
        let mut figures = Figures { view, path, seen_bytes: 0, folder: None };
        figures.look_for_folder();
        figures
    }

    /// Only lines that are not there yet.
    pub(super) fn from_now_on(view: View, path: PathBuf) -> Self {
        let file = view.open_to_read(&path).and_then(|file| file.metadata());
        let mut figures = Figures::new(view, path);
        figures.seen_bytes = file.map_or(0, |metadata| metadata.len());
        figures
    }

    /// The lines that were completed since the last call. What is not a JSON object is passed
    /// over: the file is the program's.
    pub(super) fn next(&mut self) -> Vec<serde_json::Value> {
        let Some(piece) = self.read() else { return Vec::new() };
        let Some(end) = piece.iter().rposition(|byte| *byte == b'\n') else {
            if piece.len() as u64 == PIECE_BYTES_MAX {
                self.seen_bytes += PIECE_BYTES_MAX;
            }
            return Vec::new();
        };
        self.seen_bytes += end as u64 + 1;
        let lines = piece[..end].split(|byte| *byte == b'\n');
        let objects = lines.filter_map(|line| serde_json::from_slice(line).ok());
        objects.filter(serde_json::Value::is_object).collect()
    }

    fn look_for_folder(&mut self) {
        let parent = self.path.parent();
        self.folder = self.folder.take().or_else(|| self.view.within(parent?).ok());
    }

    fn open(&mut self) -> Option<File> {
        if let Ok(file) = self.view.open_to_read(&self.path) {
            self.look_for_folder();
            return Some(file);
        }
        let name = self.path.file_name()?;
        self.folder.as_ref()?.open_to_read(Path::new(name)).ok()
    }

    fn read(&mut self) -> Option<Vec<u8>> {
        let mut file = self.open()?;
        let bytes = file.metadata().ok()?.len();
        if bytes < self.seen_bytes {
            // The program began the file anew.
            self.seen_bytes = 0;
        }
        file.seek(SeekFrom::Start(self.seen_bytes)).ok()?;
        let mut piece = Vec::new();
        file.take(PIECE_BYTES_MAX).read_to_end(&mut piece).ok()?;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_lines_are_read_when_no_path_leads_to_them_any_more() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("log");
        std::fs::create_dir(&folder).unwrap();
        let view = View { has_other_user: true, ..View::default() };
        let mut figures = Figures::new(view, folder.join("metrics.jsonl"));
        assert_eq!(figures.next(), Vec::<serde_json::Value>::new());
        std::fs::write(folder.join("metrics.jsonl"), "{\"event\": \"end\"}\n").unwrap();
        std::fs::rename(&folder, top.path().join("gone")).unwrap();
        assert_eq!(figures.next(), [json!({"event": "end"})]);
        assert_eq!(figures.next(), Vec::<serde_json::Value>::new());
    }

    #[test]
    fn whole_lines_come_once_and_nonsense_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let mut figures = Figures::new(View::default(), path.clone());
        assert_eq!(figures.next(), Vec::<serde_json::Value>::new());
        std::fs::write(&path, "{\"cost\": 1}\nnonsense\n[1]\n{\"cost\": 2}\n{\"co").unwrap();
        assert_eq!(figures.next(), [json!({"cost": 1}), json!({"cost": 2})]);
        assert_eq!(figures.next(), Vec::<serde_json::Value>::new());
        let mut later = Figures::from_now_on(View::default(), path.clone());
        std::fs::write(&path, "{\"cost\": 1}\nnonsense\n[1]\n{\"cost\": 2}\n{\"cost\": 3}\n")
            .unwrap();
        assert_eq!(figures.next(), [json!({"cost": 3})]);
        assert_eq!(later.next(), Vec::<serde_json::Value>::new());
        std::fs::write(&path, "{\"cost\": 4}\n").unwrap();
        assert_eq!(figures.next(), [json!({"cost": 4})]);
    }
}
