//! Paths of the shared file system: `/pfs/<datacenter>/home/<user>/…` and
//! `/pfs/<datacenter>/public/…`.
//!
//! A [`PfsPath`] is normal by construction: whoever holds one need not look for `..` again. That
//! is about text only; links on a disk are followed, or not, by whoever opens the file.

use std::fmt;

use crate::name::{check_datacenter, check_user};
use crate::{Error, Kind, Result};

/// A place in a user's home or in the public area, and who may use it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PfsPath {
    datacenter: String,
    /// The user whose home it is; `None` in the public area.
    owner: Option<String>,
    /// Below the home or the public area. Never empty, `.` or `..`.
    components: Vec<String>,
}

/// What somebody wants to do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// List, stat, download.
    Read,
    /// Create, change, remove.
    Write,
}

/// The longest path.
pub const PATH_BYTES_MAX: usize = 4096;
const COMPONENT_BYTES_MAX: usize = 255;
const FORMS: &str =
    "use /pfs/<datacenter>/home/<user>/…, /pfs/<datacenter>/public/… or /pfs/public/…";

impl PfsPath {
    /// Reads a path; `current` is the datacenter that `/pfs/public` means.
    ///
    /// Repeated slashes, `.` and a slash at the end are dropped. `..` is resolved, and may not
    /// climb out of the home or the public area.
    pub fn parse(text: &str, current: &str) -> Result<Self> {
        check_length(text)?;
        let refuse =
            || Error::invalid(format!("not a path of the file system: {FORMS}")).with("path", text);
        let mut parts = text.strip_prefix("/pfs/").ok_or_else(refuse)?.split('/');
        let mut next = || parts.by_ref().find(|part| !part.is_empty()).ok_or_else(refuse);
        let root = match next()? {
            "public" => PfsPath::public(current)?,
            datacenter => match next()? {
                "home" => PfsPath::home(datacenter, next()?)?,
                "public" => PfsPath::public(datacenter)?,
                _ => return Err(refuse()),
            },
        };
        root.join_parts(parts, text)
    }

    /// The top of a user's home.
    pub fn home(datacenter: &str, user: &str) -> Result<Self> {
        check_user(user)?;
        Ok(PfsPath { owner: Some(user.to_owned()), ..PfsPath::public(datacenter)? })
    }

    /// The top of a datacenter's public area.
    pub fn public(datacenter: &str) -> Result<Self> {
        check_datacenter(datacenter)?;
        Ok(PfsPath { datacenter: datacenter.to_owned(), owner: None, components: Vec::new() })
    }

    /// A path below this one. `..` may climb, but not out of the home or the public area.
    pub fn join(&self, relative: &str) -> Result<Self> {
        check_length(relative)?;
        if relative.starts_with('/') {
            let message = "cannot join an absolute path: leave out the first slash";
            return Err(Error::invalid(message).with("path", relative));
        }
        self.clone().join_parts(relative.split('/'), relative)
    }

    /// The datacenter that keeps it.
    pub fn datacenter(&self) -> &str {
        &self.datacenter
    }

    /// The user whose home it is in; `None` in the public area.
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// The components below the home or the public area.
    pub fn components(&self) -> &[String] {
        &self.components
    }

    /// The last component; `None` at the top.
    pub fn file_name(&self) -> Option<&str> {
        self.components.last().map(String::as_str)
    }

    /// The directory that has it; `None` at the top.
    pub fn parent(&self) -> Option<Self> {
        let (_, above) = self.components.split_last()?;
        Some(PfsPath { components: above.to_vec(), ..self.clone() })
    }

    /// Whether `user` may do this: everything at home, read in public, nothing elsewhere.
    pub fn allows(&self, user: &str, access: Access) -> bool {
        match &self.owner {
            Some(owner) => owner == user,
            None => access == Access::Read,
        }
    }

    /// [`PfsPath::allows`] as an error of kind [`Kind::Forbidden`].
    pub fn check_access(&self, user: &str, access: Access) -> Result<()> {
        if self.allows(user, access) {
            return Ok(());
        }
        let message = match self.owner {
            Some(_) => "this is another user's home: use a path in your own",
            None => "the public area is read-only: write to your home",
        };
        Err(Error::new(Kind::Forbidden, message).with("path", self).with("user", user))
    }

    fn join_parts<'a>(mut self, parts: impl Iterator<Item = &'a str>, text: &str) -> Result<Self> {
        let refuse = |why: &str| Error::invalid(why).with("path", text.escape_debug());
        for part in parts {
            match part {
                "" | "." => {}
                ".." => {
                    let climb = "the path climbs out of the home or the public area with ..";
                    self.components.pop().ok_or_else(|| refuse(climb))?;
                }
                part if part.chars().any(char::is_control) => {
                    return Err(refuse("the path has a control character: rename the file"));
                }
                part if part.chars().any(is_invisible) => {
                    let why = "the path has a character that is invisible or turns the direction of \
                               writing: rename the file";
                    return Err(refuse(why));
                }
                part if part.chars().all(is_like_a_dot) && !part.is_ascii() => {
                    return Err(refuse(
                        "a name in the path looks like .. and is not: rename the file",
                    ));
                }
                part if part.len() > COMPONENT_BYTES_MAX => {
                    return Err(refuse("a file name in the path is longer than 255 bytes"));
                }
                part => self.components.push(part.to_owned()),
            }
        }
        check_length(&self.to_string())?;
        Ok(self)
    }
}

/// Characters by which one name passes for another: zero width, line separators, and those that
/// turn the direction of writing. Joiners, which some languages need, are not among them.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// Dots that other systems may take for `.`.
fn is_like_a_dot(c: char) -> bool {
    matches!(c, '.' | '\u{2024}' | '\u{2025}' | '\u{ff0e}' | '\u{fe52}')
}

fn check_length(text: &str) -> Result<()> {
    if text.len() > PATH_BYTES_MAX {
        return Err(Error::invalid("the path is too long")
            .with("bytes", text.len())
            .with("bytes_max", PATH_BYTES_MAX));
    }
    Ok(())
}

impl fmt::Display for PfsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/pfs/{}/", self.datacenter)?;
        match &self.owner {
            Some(user) => write!(f, "home/{user}")?,
            None => f.write_str("public")?,
        }
        self.components.iter().try_for_each(|component| write!(f, "/{component}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<PfsPath> {
        PfsPath::parse(text, "dc1")
    }

    #[test]
    fn paths_become_normal() {
        let check = |text: &str, shown: &str| assert_eq!(parse(text).unwrap().to_string(), shown);
        check("/pfs/dc1/home/wuyi/a/b", "/pfs/dc1/home/wuyi/a/b");
        check("/pfs/dc1/home/wuyi/", "/pfs/dc1/home/wuyi");
        check("/pfs//dc1/home//wuyi/./a//b/", "/pfs/dc1/home/wuyi/a/b");
        check("/pfs/dc1/home/wuyi/a/../b", "/pfs/dc1/home/wuyi/b");
        check("/pfs/dc1/home/a@b.c/x y", "/pfs/dc1/home/a@b.c/x y");
        check("/pfs/dc2/public/dataset", "/pfs/dc2/public/dataset");
        check("/pfs/public/dataset", "/pfs/dc1/public/dataset");
        check("/pfs/public", "/pfs/dc1/public");
        check("/pfs/public/数据／集.é", "/pfs/dc1/public/数据／集.é");
    }

    #[test]
    fn other_paths_are_refused() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        insta::assert_snapshot!(error("/etc/passwd"), @"not a path of the file system: use /pfs/<datacenter>/home/<user>/…, /pfs/<datacenter>/public/… or /pfs/public/… (path: /etc/passwd)");
        insta::assert_snapshot!(error("/pfs/dc1/home/wuyi/../eve/x"), @"the path climbs out of the home or the public area with .. (path: /pfs/dc1/home/wuyi/../eve/x)");
        insta::assert_snapshot!(error("/pfs/dc1/home/wuyi/a\nb"), @r#"the path has a control character: rename the file (path: /pfs/dc1/home/wuyi/a\nb)"#);
        insta::assert_snapshot!(error("/pfs/dc1/home/../x"), @"a user name has no `..`, starts with neither `.` nor `-`, and has no white space around (name: ..)");
        for text in [
            "",
            "/pfs",
            "/pfs/",
            "/pfs/dc1",
            "/pfs/dc1/home",
            "/pfs/dc1/etc/x",
            "pfs/dc1/home/u",
            "/pfs/../etc/home/x",
            "/pfs/public/..",
            "/pfs/dc1/home/u/a\0b",
            "/pfs/./home/u",
            "/pfsx/dc1/home/u",
            "/pfs/dc1/home/u/a\u{202e}fdp.exe",
            "/pfs/dc1/home/u/a\u{200b}b",
            "/pfs/dc1/home/u/\u{ff0e}\u{ff0e}/x",
            "/pfs/dc1/home/u/\u{2025}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&format!("/pfs/dc1/home/u/{}", "a".repeat(256))).is_err());
        assert!(parse(&format!("/pfs/dc1/home/u{}", "/a".repeat(2048))).is_err());
    }

    #[test]
    fn a_home_is_its_owners_and_public_is_read_only() {
        let check = |text: &str, read: bool, write: bool| {
            let path = parse(text).unwrap();
            for (access, allowed) in [(Access::Read, read), (Access::Write, write)] {
                assert_eq!(path.allows("wuyi", access), allowed);
                let kind = path.check_access("wuyi", access).err().map(|error| error.kind());
                assert_eq!(kind, (!allowed).then_some(Kind::Forbidden));
            }
        };
        check("/pfs/dc1/home/wuyi/a", true, true);
        check("/pfs/dc1/home/eve/a", false, false);
        check("/pfs/public/a", true, false);
        let foreign = parse("/pfs/dc1/home/eve/a").unwrap();
        insta::assert_snapshot!(foreign.check_access("wuyi", Access::Read).unwrap_err(), @"this is another user's home: use a path in your own (path: /pfs/dc1/home/eve/a, user: wuyi)");
    }

    #[test]
    fn a_path_can_be_walked() {
        let home = PfsPath::home("dc1", "wuyi").unwrap();
        let file = home.join("jobs/ctr/./train.py").unwrap();
        assert_eq!(file.to_string(), "/pfs/dc1/home/wuyi/jobs/ctr/train.py");
        assert_eq!(file.file_name(), Some("train.py"));
        assert_eq!(file.parent(), Some(home.join("jobs/ctr").unwrap()));
        assert_eq!(file.join("../..").unwrap(), home.join("jobs").unwrap());
        assert_eq!((home.parent(), home.file_name()), (None, None));
        assert!(home.join("..").is_err());
        assert!(home.join("/etc").is_err());
        assert_eq!((file.datacenter(), file.owner()), ("dc1", Some("wuyi")));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn whatever_is_accepted_is_normal_and_stays_inside(
            text in "/pfs(/(dc1|home|public|wuyi|eve|\\.|\\.\\.|a|)){0,8}|.*",
        ) {
            if let Ok(path) = parse(&text) {
                let shown = path.to_string();
                prop_assert!(!shown.contains("//") && !shown.split('/').any(|part| part == ".."));
                let parts: Vec<_> = shown.split('/').skip(3).collect();
                let is_home = parts.starts_with(&["home", "wuyi"]);
                prop_assert_eq!(path.allows("wuyi", Access::Write), is_home);
                prop_assert_eq!(parse(&shown).unwrap(), path);
            }
        }
    }
}
