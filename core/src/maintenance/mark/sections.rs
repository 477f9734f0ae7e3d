//! Numbers the names of sections, so that the record of each of many objects stays small.

use std::collections::HashMap;

use bytes::Bytes;

/// The number for nodes of the context itself, outside of all sections.
pub(in crate::maintenance) const CONTEXT: u32 = 0;

/// The sections seen, in order.
#[derive(Debug)]
pub(in crate::maintenance) struct Sections {
    names: Vec<String>,
    numbers: HashMap<Bytes, u32>,
}

impl Sections {
    /// Starts without sections; `context` names everything outside of sections.
    pub(in crate::maintenance) fn new(context: &str) -> Self {
        Self { names: vec![context.to_owned()], numbers: HashMap::new() }
    }

    /// Returns the number of a section, and assigns one to a new section.
    pub(in crate::maintenance) fn number(&mut self, name: Bytes) -> u32 {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(CONTEXT);
        self.names.push(String::from_utf8_lossy(&name).into_owned());
        self.numbers.insert(name, number);
        number
    }

    /// Returns the name of a section.
    pub(in crate::maintenance) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }
}
