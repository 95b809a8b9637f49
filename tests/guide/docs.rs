//! The pages of `cargo doc`, so that links of the book lead to items and not to a search.

use std::collections::{BTreeMap, BTreeSet};

/// The address of the docs, and the items that they have.
#[derive(Default)]
pub(super) struct Docs {
    url: String,
    /// The file and the anchors of each item and module, by its path in the crate: `agent::Chat`.
    items: BTreeMap<String, (String, BTreeSet<String>)>,
}

impl Docs {
    /// `files` are the pages of the crate: the path of each below the crate's folder, and its text.
    pub(super) fn new(url: &str, files: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut items = BTreeMap::new();
        for (file, text) in files {
            if let Some(path) = path_of(&file) {
                let ids = text.split(" id=\"").skip(1).filter_map(|rest| rest.split_once('"'));
                let ids = ids.map(|(id, _)| id.to_owned()).collect();
                items.insert(path, (file, ids));
            }
        }
        Self { url: url.to_owned(), items }
    }

    /// Where this path leads: to the page of the item, or to a search if it is on no page.
    pub(super) fn link(&self, path: &str, anchor: &str) -> String {
        let found = self
            .found(path)
            .map(|(file, own)| (file, if anchor.is_empty() { own } else { anchor.to_owned() }));
        match found {
            Some((file, anchor)) if anchor.is_empty() => format!("{}/harness/{file}", self.url),
            Some((file, anchor)) => format!("{}/harness/{file}#{anchor}", self.url),
            None => format!("{}/harness/index.html?search={path}", self.url),
        }
    }

    /// The page with this path, and the anchor of a member.
    fn found(&self, path: &str) -> Option<(&str, String)> {
        let parts: Vec<&str> = path.split("::").filter(|part| *part != "crate").collect();
        // An item; a method, variant or field of one; a field of a variant.
        for members in 0..=2.min(parts.len()) {
            let (item, members) = parts.split_at(parts.len() - members);
            let Some((file, ids)) = self.item(item) else { continue };
            let anchors: Vec<String> = match members {
                [] => return Some((file, String::new())),
                [name] => [
                    "method",
                    "tymethod",
                    "variant",
                    "structfield",
                    "associatedconstant",
                    "associatedtype",
                ]
                .map(|kind| format!("{kind}.{name}"))
                .into(),
                [variant, field, ..] => vec![format!("variant.{variant}.field.{field}")],
            };
            if let Some(anchor) = anchors.into_iter().find(|anchor| ids.contains(anchor)) {
                return Some((file, anchor));
            }
        }
        None
    }

    /// The item with this path, or else the one with this name and the shortest path.
    fn item(&self, parts: &[&str]) -> Option<(&str, &BTreeSet<String>)> {
        let path = parts.join("::");
        let by_name = || {
            let end = format!("::{path}");
            let named =
                self.items.iter().filter(|(path, _)| path.ends_with(&end) && !parts.is_empty());
            named.min_by_key(|(path, _)| path.split("::").count()).map(|(_, item)| item)
        };
        self.items.get(&path).or_else(by_name).map(|(file, ids)| (&**file, ids))
    }
}

/// The path of the item that has this page: `agent::Chat` for `agent/struct.Chat.html`.
fn path_of(file: &str) -> Option<String> {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    match name.strip_suffix(".html")? {
        "index" => {}
        item => parts.push(item.split_once('.')?.1),
    }
    Some(parts.join("::"))
}
