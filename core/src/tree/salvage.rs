//! Reads the intact part of a damaged list: its items in order, and the number of items in each
//! lost node.

use super::Item;
use super::cursor::Cursor;
use super::list::List;
use crate::error::Result;
use crate::object::ObjectSource;

/// A part of a damaged list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SalvagedPart {
    /// The next item. Its object may be lost.
    Item(Item),
    /// Number of items of a lost node.
    Lost(u64),
}

impl List {
    /// Iterates over all items in order, skipping lost nodes: their parents record how many items
    /// each had. Ends after the first error of another kind.
    pub fn salvage<'a>(
        &self,
        source: &'a dyn ObjectSource,
    ) -> impl Iterator<Item = Result<SalvagedPart>> + use<'a> {
        let mut cursor = Some(Cursor::new(&self.root, 0));
        std::iter::from_fn(move || {
            let at = cursor.as_mut()?;
            let next = next(at, source);
            if next.is_err() {
                cursor = None;
            }
            next.transpose()
        })
    }
}

fn next(cursor: &mut Cursor, source: &dyn ObjectSource) -> Result<Option<SalvagedPart>> {
    while let Some((level, entry)) = cursor.peek() {
        if level == 0 {
            let item = entry.item.clone();
            cursor.skip();
            return Ok(Some(SalvagedPart::Item(item)));
        }
        let count = entry.count;
        match cursor.open(source) {
            Err(error) if error.is_loss() => {
                cursor.skip();
                return Ok(Some(SalvagedPart::Lost(count)));
            }
            opened => opened?,
        }
    }
    Ok(None)
}
