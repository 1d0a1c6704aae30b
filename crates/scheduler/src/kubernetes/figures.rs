//! The figures of trainers, where they write them to a volume that this machine has, too.
//!
//! A cursor is a list of places, `RANK:BYTES` for every trainer that has written something. What is no
//! JSON object is passed over: the files are the programs'.

use super::files;
use crate::backend::{Cursor, METRICS_LINES_MAX, Metrics, MetricsLine};
use crate::replica::ReplicaId;
use contract::role::Role;
use contract::{Error, Kind, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The most that is read of one file at once. A line longer than this is passed over.
const PIECE_BYTES_MAX: usize = 256 << 10;

/// The file of one trainer: whose, a directory that is trusted, and the way from there.
pub(super) struct Source {
    pub(super) replica: ReplicaId,
    pub(super) root: PathBuf,
    pub(super) way: PathBuf,
}

/// What trainers have written since a cursor.
pub(super) fn read(sources: &[Source], cursor: &Cursor) -> Result<Metrics> {
    let mut places = parse(&cursor.0)?;
    let mut lines = Vec::new();
    for source in sources {
        let Source { replica, root, way } = source;
        let place = places.entry(replica.rank).or_default();
        // A program may begin its file anew.
        if files::length(root, way)?.is_none_or(|length| length < *place) {
            *place = 0;
        }
        let piece = files::piece(root, way, *place, PIECE_BYTES_MAX)?.unwrap_or_default();
        let room = METRICS_LINES_MAX - lines.len();
        let whole = piece.split_inclusive(|byte| *byte == b'\n').take(room);
        let mut taken = 0;
        for line in whole.filter(|line| line.ends_with(b"\n")) {
            taken += line.len();
            lines.extend(object(line).map(|figures| MetricsLine { replica: *replica, figures }));
        }
        if taken == 0 && room > 0 && piece.len() == PIECE_BYTES_MAX {
            taken = piece.len();
        }
        *place += taken as u64;
    }
    places.retain(|_, place| *place > 0);
    let places: Vec<String> =
        places.iter().map(|(rank, place)| format!("{rank}:{place}")).collect();
    Ok(Metrics { lines, next: Cursor(places.join(",")) })
}

/// The newest figures of a trainer.
pub(super) fn newest(source: &Source) -> Result<Option<Value>> {
    let Source { root, way, .. } = source;
    let Some(length) = files::length(root, way)? else { return Ok(None) };
    let from = length.saturating_sub(PIECE_BYTES_MAX as u64);
    let piece = files::piece(root, way, from, PIECE_BYTES_MAX)?.unwrap_or_default();
    let whole = piece.split_inclusive(|byte| *byte == b'\n').rev();
    Ok(whole.filter(|line| line.ends_with(b"\n")).find_map(object))
}

fn object(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok().filter(Value::is_object)
}

fn parse(cursor: &str) -> Result<BTreeMap<u32, u64>> {
    let place = |text: &str| {
        let (rank, place) = text.split_once(':')?;
        let place = place.parse().ok().filter(|place| i64::try_from(*place).is_ok())?;
        Some((rank.parse().ok()?, place))
    };
    let all = cursor.split(',').filter(|text| !text.is_empty()).map(place);
    all.collect::<Option<_>>().ok_or_else(|| {
        let message = "not a cursor of figures on Kubernetes: use one that was given to you";
        Error::new(Kind::Invalid, message).with("cursor", cursor.escape_debug())
    })
}

/// The trainers of a job, of which some may have been scaled away.
pub(super) fn trainers(count: u32) -> impl Iterator<Item = ReplicaId> {
    (0..count).map(|rank| ReplicaId::new(Role::Trainer, rank))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;

    fn sources(root: &Path) -> Vec<Source> {
        let source = |replica: ReplicaId| Source {
            replica,
            root: root.to_owned(),
            way: format!("{replica}.jsonl").into(),
        };
        trainers(2).map(source).collect()
    }

    fn figures(metrics: &Metrics) -> Vec<(u32, Value)> {
        metrics.lines.iter().map(|line| (line.replica.rank, line.figures.clone())).collect()
    }

    #[test]
    fn whole_lines_of_all_trainers_come_once() {
        let folder = tempfile::tempdir().unwrap();
        let write = |rank: u32, text: &str| {
            std::fs::write(folder.path().join(format!("trainer-{rank}.jsonl")), text).unwrap();
        };
        let sources = sources(folder.path());
        let next = |cursor: &Cursor| read(&sources, cursor).unwrap();
        let none = next(&Cursor::default());
        assert_eq!((figures(&none), none.next.clone()), (vec![], Cursor::default()));
        write(1, "{\"a\": 1}\nnonsense\n[1]\n{\"a\": 2}\n{\"a\": ");
        let first = next(&none.next);
        assert_eq!(figures(&first), [(1, json!({"a": 1})), (1, json!({"a": 2}))]);
        assert_eq!(newest(&sources[1]).unwrap(), Some(json!({"a": 2})));
        assert_eq!(newest(&sources[0]).unwrap(), None);
        write(0, "{\"b\": 1}\n");
        let second = next(&first.next);
        assert_eq!(figures(&second), [(0, json!({"b": 1}))]);
        // It was begun anew.
        write(1, "{\"a\": 3}\n");
        let third = next(&second.next);
        assert_eq!(figures(&third), [(1, json!({"a": 3}))]);
        assert_eq!(next(&third.next), Metrics { lines: vec![], next: third.next.clone() });
        for wrong in ["5", "0:x", "0:-1", "a:1"] {
            let error = read(&sources, &Cursor(wrong.into())).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{wrong}");
        }
    }

    #[test]
    fn many_lines_come_in_pieces_and_endless_ones_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let count = METRICS_LINES_MAX + 5;
        let text: String = (0..count).map(|number| format!("{{\"n\":{number}}}\n")).collect();
        std::fs::write(folder.path().join("trainer-0.jsonl"), text).unwrap();
        let endless = "x".repeat(PIECE_BYTES_MAX + 10) + "\n{\"n\":-1}\n";
        std::fs::write(folder.path().join("trainer-1.jsonl"), endless).unwrap();
        let sources = sources(folder.path());
        let first = read(&sources, &Cursor::default()).unwrap();
        assert_eq!(first.lines.len(), METRICS_LINES_MAX);
        let second = read(&sources, &first.next).unwrap();
        assert_eq!((second.lines.len(), &second.lines[4].figures), (5, &json!({"n": count - 1})));
        let third = read(&sources, &second.next).unwrap();
        assert_eq!(figures(&third), [(1, json!({"n": -1}))]);
    }
}
