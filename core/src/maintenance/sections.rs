//! Names of sections as numbers: what is remembered of each of many objects must be small.

use std::collections::HashMap;

use bytes::Bytes;

/// The number of nodes of contexts themselves, which are in no section.
pub(super) const CONTEXT: u32 = 0;

/// The sections met so far.
#[derive(Debug)]
pub(super) struct Sections {
    names: Vec<String>,
    numbers: HashMap<Bytes, u32>,
}

impl Sections {
    /// None yet; what is in no section is called `context`.
    pub(super) fn new(context: &str) -> Self {
        Self { names: vec![context.to_owned()], numbers: HashMap::new() }
    }

    /// The number of a section, a new one when it was not met before.
    pub(super) fn number(&mut self, name: Bytes) -> u32 {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(CONTEXT);
        self.names.push(String::from_utf8_lossy(&name).into_owned());
        self.numbers.insert(name, number);
        number
    }

    /// The name of a section.
    pub(super) fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", String::as_str)
    }
}
