//! What the names in the mounted directory mean. Pure.

use contract::path::PfsPath;
use contract::{Error, Kind, Result};

/// What is mounted.
#[derive(Debug, Clone)]
pub(crate) enum Top {
    /// Everything that a user sees, as below `/pfs`.
    Whole {
        /// The home, which has datacenter and user in it.
        home: PfsPath,
        /// The public area.
        public: PfsPath,
    },
    /// One directory.
    Part(PfsPath),
}

/// What some names from the top lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A directory that is only there to lead to others, with their names.
    Between(Vec<String>),
    /// Something in the cloud.
    Cloud(PfsPath),
}

impl Top {
    pub(crate) fn place(&self, names: &[&str]) -> Result<Meaning> {
        let (home, public) = match self {
            Top::Part(path) => return join(path, names).map(Meaning::Cloud),
            Top::Whole { home, public } => (home, public),
        };
        let (datacenter, user) = (home.datacenter(), home.owner().unwrap_or_default());
        let between = |names: &[&str]| {
            Ok(Meaning::Between(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        match names {
            [] => between(&[datacenter, "public"]),
            ["public", below @ ..] => join(public, below).map(Meaning::Cloud),
            [first] if *first == datacenter => between(&["home", "public"]),
            [first, "public", below @ ..] if *first == datacenter => {
                join(public, below).map(Meaning::Cloud)
            }
            [first, "home"] if *first == datacenter => between(&[user]),
            [first, "home", owner, below @ ..] if *first == datacenter && *owner == user => {
                join(home, below).map(Meaning::Cloud)
            }
            _ => Err(Error::new(Kind::NotFound, "no such file or directory")),
        }
    }
}

fn join(top: &PfsPath, names: &[&str]) -> Result<PfsPath> {
    names.iter().try_fold(top.clone(), |path, name| path.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn top() -> Top {
        Top::Whole {
            home: PfsPath::home("dc1", "wuyi").unwrap(),
            public: PfsPath::public("dc1").unwrap(),
        }
    }

    #[test]
    fn the_paths_are_those_below_pfs() {
        let check = |names: &[&str], expect: &str| match top().place(names).unwrap() {
            Meaning::Cloud(path) => assert_eq!(path.to_string(), expect),
            Meaning::Between(names) => assert_eq!(names.join(" "), expect),
        };
        check(&[], "dc1 public");
        check(&["dc1"], "home public");
        check(&["dc1", "home"], "wuyi");
        check(&["dc1", "home", "wuyi", "a", "b"], "/pfs/dc1/home/wuyi/a/b");
        check(&["dc1", "public", "a"], "/pfs/dc1/public/a");
        check(&["public", "a"], "/pfs/dc1/public/a");
        for names in [&["dc2"][..], &["dc1", "home", "eve"], &["dc1", "secret"], &["home"]] {
            assert_eq!(top().place(names).unwrap_err().kind(), Kind::NotFound, "{names:?}");
        }
    }

    #[test]
    fn a_part_leads_nowhere_else() {
        let part = Top::Part(PfsPath::home("dc1", "wuyi").unwrap().join("data").unwrap());
        let Meaning::Cloud(path) = part.place(&["x"]).unwrap() else { panic!("between") };
        assert_eq!(path.to_string(), "/pfs/dc1/home/wuyi/data/x");
        assert_eq!(part.place(&["a\u{200b}"]).unwrap_err().kind(), Kind::Invalid);
    }
}
