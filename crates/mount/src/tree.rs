//! Which number the kernel knows which name by. Pure.
//!
//! A node has a parent and a name, so renaming a directory changes one node, however much is below
//! it. The kernel says when it has forgotten a number.

use crate::draft::Draft;
use std::collections::HashMap;
use std::sync::Arc;

/// The number of the top.
pub(crate) const TOP: u64 = 1;

/// All numbers that the kernel may use.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: HashMap<u64, Node>,
    names: HashMap<(u64, String), u64>,
    next: u64,
}

/// A file or directory that the kernel has seen.
#[derive(Debug)]
pub(crate) struct Node {
    parent: u64,
    name: String,
    is_directory: bool,
    /// How often the kernel was told of it.
    lookups: u64,
    /// Whether its name was removed, or taken by another.
    pub(crate) is_gone: bool,
    /// Its content while it is written to.
    pub(crate) draft: Option<Arc<Draft>>,
    /// The etag of the content that the kernel may have pages of.
    pub(crate) cached: Option<String>,
    /// How many have it open.
    pub(crate) opens: usize,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        let top = Node::new(TOP, String::new(), true);
        Tree { nodes: HashMap::from([(TOP, top)]), names: HashMap::new(), next: TOP + 1 }
    }

    pub(crate) fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get(&number)
    }

    pub(crate) fn node_mut(&mut self, number: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&number)
    }

    /// The number of a name in a directory, if it has one.
    pub(crate) fn child(&self, parent: u64, name: &str) -> Option<u64> {
        self.names.get(&(parent, name.to_owned())).copied()
    }

    /// The number of a name, which the kernel is told of once more. A directory that became a file
    /// is another node.
    pub(crate) fn enter(&mut self, parent: u64, name: &str, is_directory: bool) -> u64 {
        if let Some(number) = self.child(parent, name) {
            match self.nodes.get_mut(&number) {
                Some(node) if node.is_directory == is_directory => {
                    node.lookups += 1;
                    return number;
                }
                _ => self.remove(parent, name),
            }
        }
        let number = self.next;
        self.next += 1;
        let node = Node { lookups: 1, ..Node::new(parent, name.to_owned(), is_directory) };
        self.nodes.insert(number, node);
        self.names.insert((parent, name.to_owned()), number);
        number
    }

    /// The kernel forgets what it was told so often.
    pub(crate) fn forget(&mut self, number: u64, lookups: u64) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        self.drop_unused(number);
    }

    /// Drops a node that neither the kernel nor an open file needs.
    pub(crate) fn drop_unused(&mut self, number: u64) {
        let Some(node) = self.nodes.get(&number) else { return };
        if number == TOP || node.lookups > 0 || node.opens > 0 {
            return;
        }
        let key = (node.parent, node.name.clone());
        self.nodes.remove(&number);
        if self.names.get(&key) == Some(&number) {
            self.names.remove(&key);
        }
    }

    /// A name is no longer there; its node stays for those who have it open.
    pub(crate) fn remove(&mut self, parent: u64, name: &str) {
        if let Some(number) = self.names.remove(&(parent, name.to_owned()))
            && let Some(node) = self.nodes.get_mut(&number)
        {
            node.is_gone = true;
        }
    }

    /// A node gets another name, and replaces what had it.
    pub(crate) fn rename(&mut self, from: (u64, &str), to: (u64, &str)) {
        let Some(number) = self.names.remove(&(from.0, from.1.to_owned())) else {
            return self.remove(to.0, to.1);
        };
        self.remove(to.0, to.1);
        if let Some(node) = self.nodes.get_mut(&number) {
            (node.parent, node.name) = (to.0, to.1.to_owned());
            self.names.insert((to.0, to.1.to_owned()), number);
        }
    }

    /// The names from the top to a node; `None` if one of them is gone.
    pub(crate) fn names(&self, mut number: u64) -> Option<Vec<&str>> {
        let mut names = Vec::new();
        while number != TOP {
            let node = self.nodes.get(&number).filter(|node| !node.is_gone)?;
            names.push(node.name.as_str());
            number = node.parent;
        }
        names.reverse();
        Some(names)
    }

    /// The files of a directory that are written to.
    pub(crate) fn drafts(&self, parent: u64) -> Vec<(String, Arc<Draft>)> {
        let is_here = |node: &&Node| node.parent == parent && !node.is_gone;
        let written = self.nodes.values().filter(is_here);
        written.filter_map(|node| Some((node.name.clone(), node.draft.clone()?))).collect()
    }

    /// Whether anybody still writes to a file.
    pub(crate) fn has_drafts(&self) -> bool {
        self.nodes.values().any(|node| node.draft.is_some())
    }
}

impl Node {
    fn new(parent: u64, name: String, is_directory: bool) -> Node {
        Node {
            parent,
            name,
            is_directory,
            lookups: 0,
            is_gone: false,
            draft: None,
            cached: None,
            opens: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_directory_takes_along_what_is_below() {
        let mut tree = Tree::new();
        let a = tree.enter(TOP, "a", true);
        let file = tree.enter(a, "file", false);
        let b = tree.enter(TOP, "b", true);
        tree.rename((TOP, "a"), (b, "c"));
        assert_eq!(tree.names(file), Some(vec!["b", "c", "file"]));
        assert_eq!(tree.child(TOP, "a"), None);
    }

    #[test]
    fn what_is_replaced_or_removed_has_no_name_and_keeps_its_number() {
        let mut tree = Tree::new();
        let (old, new) = (tree.enter(TOP, "x", false), tree.enter(TOP, "y", false));
        tree.rename((TOP, "y"), (TOP, "x"));
        assert_eq!((tree.names(old), tree.names(new)), (None, Some(vec!["x"])));
        assert_eq!(tree.enter(TOP, "x", false), new);
        tree.remove(TOP, "x");
        assert_ne!(tree.enter(TOP, "x", false), new);
    }

    #[test]
    fn a_number_lives_until_the_kernel_and_the_last_reader_forget_it() {
        let mut tree = Tree::new();
        let file = tree.enter(TOP, "x", false);
        tree.enter(TOP, "x", false);
        tree.node_mut(file).unwrap().opens = 1;
        tree.forget(file, 2);
        assert!(tree.node(file).is_some());
        tree.node_mut(file).unwrap().opens = 0;
        tree.drop_unused(file);
        assert!(tree.node(file).is_none() && tree.child(TOP, "x").is_none());
    }

    #[test]
    fn a_directory_that_became_a_file_is_another_node() {
        let mut tree = Tree::new();
        let directory = tree.enter(TOP, "x", true);
        assert_ne!(tree.enter(TOP, "x", false), directory);
    }
}
