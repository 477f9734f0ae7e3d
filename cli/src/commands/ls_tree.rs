//! `ls-tree`: lists the items of a list or map.

use std::fmt::Write as _;
use std::io::Write;

use bytes::Bytes;
use clap::Args;
use turntree::object::{Kind, Object, ObjectId, ObjectSource};
use turntree::repo::Repository;
use turntree::tree::{Item, List, Map};
use turntree::{Error, ErrorKind};

use super::Verb;
use crate::porcelain::read::revision::object;
use crate::program::invocation::Invocation;
use crate::view::error::{Answer, Result};
use crate::view::json;

/// List the items of a tree: kind, id, meta in hex, key or index
///
/// A tree is a list or a map; the tree of a snapshot is the map of its sections.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  turntree ls-tree HEAD
  turntree ls-tree HEAD:files
  turntree ls-tree HEAD:agents/main/messages")]
pub(crate) struct LsTree {
    /// Root of a tree, or a snapshot: an id, or a revision with or without a path
    #[arg(value_name = "ID")]
    object: String,
}

impl Verb for LsTree {
    fn reads_only(&self) -> bool {
        true
    }

    fn run(&self, run: &mut Invocation) -> Result<Answer> {
        let repo = run.open()?;
        let named = object(&repo, &self.object)?;
        let id = root_of(&repo, named)?;
        let (shape, items) = items(&repo, &id)?;
        if !run.out.json {
            for (key, item) in &items {
                let (link, meta) = (&item.link, hex(&item.meta));
                writeln!(run.out, "{} {} {meta}\t{key}", link.kind, link.id)?;
            }
            return Ok(Answer::Yes);
        }
        let entries = items.into_iter().map(|(key, item)| json::TreeEntry {
            key,
            kind: item.link.kind.name(),
            id: item.link.id.to_string(),
            meta: hex(&item.meta),
        });
        run.out.record(&json::Tree { id: id.to_string(), shape, entries: entries.collect() })?;
        Ok(Answer::Yes)
    }
}

/// The root itself, or the root of a snapshot's context.
fn root_of(repo: &Repository, id: ObjectId) -> Result<ObjectId> {
    match repo.read(&id)? {
        None => Err(Error::not_found(format!("object {id} is not in the store")).into()),
        Some(Object { kind: Kind::Node, .. }) => Ok(id),
        Some(Object { kind: Kind::Commit | Kind::Tag, .. }) => {
            Ok(repo.commit(&repo.peel(&id)?)?.tree)
        }
        Some(Object { kind, .. }) => {
            Err(Error::invalid(format!("{id} is a {kind}, not a tree")).into())
        }
    }
}

type Items = Vec<(String, Item)>;

fn items(repo: &Repository, root: &ObjectId) -> Result<(&'static str, Items)> {
    let source = repo.store();
    match Map::open(source, root) {
        Ok(map) => {
            let text = |key: Bytes| String::from_utf8_lossy(&key).into_owned();
            let items = map.iter(source).map(|entry| entry.map(|(key, item)| (text(key), item)));
            Ok(("map", items.collect::<turntree::Result<_>>()?))
        }
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            let list = List::open(source, root)?;
            let items = list.iter(source, 0..list.len()).enumerate();
            let items = items.map(|(index, item)| Ok::<_, Error>((index.to_string(), item?)));
            Ok(("list", items.collect::<turntree::Result<_>>()?))
        }
        Err(error) => Err(error.into()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
