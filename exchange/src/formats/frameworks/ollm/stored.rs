//! Sections as their original JSON: objects are maps, arrays are lists, anything else is a blob.

use bytes::Bytes;
use serde::de::IgnoredAny;
use turntree::context::sections::META;
use turntree::context::{Context, JSON_MEDIA, Shape};
use turntree::error::Result;
use turntree::object::{Kind, ObjectSource};
use turntree::tree::Item;

use super::super::json_writer::quoted;
use super::META_ORDER;
use crate::text::json::Text;

/// Reads values of a context.
pub(super) struct StoredValues<'a> {
    pub(super) source: &'a dyn ObjectSource,
    pub(super) context: &'a Context,
}

impl StoredValues<'_> {
    /// An entry of a map, as JSON.
    pub(super) fn entry(&self, section: &str, key: &str) -> Result<Option<String>> {
        match self.context.section(self.source, section)? {
            Some(found) if found.shape == Shape::Map => {}
            _ => return Ok(None),
        }
        let map = self.context.map(self.source, section)?;
        map.get(self.source, key.as_bytes())?.map(|item| self.item(&item)).transpose()
    }

    /// Returns the entries of a map in their original order, then later ones, by key.
    pub(super) fn fields(&self, section: &str) -> Result<Vec<(String, String)>> {
        let order = self.entry(META, &format!("{META_ORDER}{section}"))?.unwrap_or_default();
        let order: Vec<String> = serde_json::from_str(&order).unwrap_or_default();
        let place: std::collections::HashMap<&str, usize> =
            order.iter().enumerate().map(|(at, key)| (key.as_str(), at)).collect();
        let mut fields = Vec::new();
        for entry in self.context.map(self.source, section)?.iter(self.source) {
            let (key, item) = entry?;
            fields.push((String::from_utf8_lossy(&key).into_owned(), self.item(&item)?));
        }
        fields.sort_by_key(|(key, _)| place.get(key.as_str()).copied().unwrap_or(usize::MAX));
        Ok(fields)
    }

    /// The items of a list.
    pub(super) fn list(&self, section: &str) -> Result<Vec<String>> {
        let list = self.context.list(self.source, section)?;
        let items = list.iter(self.source, 0..list.len());
        items.map(|item| self.item(&item?)).collect()
    }

    /// Returns a section as JSON; `None` when it does not exist.
    pub(super) fn value(&self, section: &str) -> Result<Option<String>> {
        let Some(found) = self.context.section(self.source, section)? else { return Ok(None) };
        Ok(Some(match found.shape {
            Shape::Map => object(&self.fields(section)?),
            Shape::List => format!("[{}]", self.list(section)?.join(",")),
            Shape::Blob => json_of(&self.source.read_as(Kind::Blob, &found.id)?, true),
        }))
    }

    /// A value that was stored as text, for example by a state document, stays text.
    fn item(&self, item: &Item) -> Result<String> {
        let bytes = self.source.read_as(Kind::Blob, &item.link.id)?;
        Ok(json_of(&bytes, item.meta == JSON_MEDIA.as_bytes()))
    }
}

/// An object of these fields.
pub(super) fn object(fields: &[(String, String)]) -> String {
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", quoted(name))).collect();
    format!("{{{}}}", fields.join(","))
}

fn json_of(bytes: &Bytes, may_be_json: bool) -> String {
    let is_json =
        may_be_json && Text::new(bytes).is_some_and(|text| text.parse::<IgnoredAny>().is_ok());
    let text = String::from_utf8_lossy(bytes);
    if is_json { text.into_owned() } else { quoted(&text) }
}
