//! Reads the shape of a JSON value from its start: its top-level names and their texts.
//!
//! A text that ends inside a long value still has a shape, so a few kilobytes of a file are enough
//! to detect its format.

/// The top-level names of a JSON object, or of the first object in an array.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct JsonShape<'a> {
    /// True if the object is the first in an array.
    pub is_array: bool,
    /// The names in file order, with the values that are strings, as written in the file.
    pub fields: Vec<(&'a str, Option<&'a str>)>,
    /// The visible start of the value, for marks at deeper levels.
    pub head: &'a str,
    /// The visible start of each member value.
    values: Vec<&'a str>,
}

impl<'a> JsonShape<'a> {
    /// Returns the shape of the value at the start of `text`, as far as it is visible. `None` if it
    /// is neither an object nor an array of objects.
    #[must_use]
    pub fn of(text: &'a str) -> Option<Self> {
        let mut scan = ShapeScan { rest: text };
        let is_array = scan.eat('[');
        if !scan.eat('{') {
            return None;
        }
        let (mut fields, mut values) = (Vec::new(), Vec::new());
        while let Some(name) = scan.string() {
            if !scan.eat(':') {
                break;
            }
            values.push(scan.rest);
            let value = scan.value();
            fields.push((name, value));
            if !scan.eat(',') {
                break;
            }
        }
        Some(Self { is_array, fields, head: text, values })
    }

    /// Returns the shape of the value of the field `name`, as far as it is visible: of an object,
    /// or of the first object in an array.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Self> {
        let at = self.fields.iter().position(|(field, _)| *field == name)?;
        Self::of(self.values.get(at)?)
    }

    /// Returns true if a field has one of `names`.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.has(name))
    }

    /// Returns at most `most` top-level names of the object at the start of `text`.
    pub(super) fn first_names(text: &'a str, most: usize) -> Vec<&'a str> {
        let mut scan = ShapeScan { rest: text };
        let mut names = Vec::new();
        let mut goes_on = scan.eat('{');
        while goes_on && names.len() < most {
            let Some(name) = scan.string().filter(|_| scan.eat(':')) else { break };
            names.push(name);
            if names.len() < most {
                scan.value();
            }
            goes_on = scan.eat(',');
        }
        names
    }

    /// Returns true if there is a field `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| *field == name)
    }

    /// Returns the text of the field `name`.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(field, _)| *field == name).and_then(|(_, text)| *text)
    }
}

/// A cursor over a text that may be truncated anywhere.
struct ShapeScan<'a> {
    rest: &'a str,
}

impl<'a> ShapeScan<'a> {
    /// Skips whitespace and then `expected`. Returns false if the next character differs.
    fn eat(&mut self, expected: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Skips a whole string and returns the text between its quotes.
    fn string(&mut self) -> Option<&'a str> {
        if !self.eat('"') {
            return None;
        }
        let mut escaped = false;
        for (at, byte) in self.rest.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    let (text, rest) = self.rest.split_at_checked(at)?;
                    self.rest = rest.get(1..)?;
                    return Some(text);
                }
                _ => {}
            }
        }
        self.rest = "";
        None
    }

    /// Skips a value and returns its text, if it is a complete string.
    fn value(&mut self) -> Option<&'a str> {
        self.rest = self.rest.trim_start();
        let mut depth = 0_usize;
        loop {
            match self.rest.chars().next() {
                Some('"') if depth == 0 => return self.string(),
                Some('"') => drop(self.string()),
                Some(',' | '}' | ']') if depth == 0 => return None,
                Some(other) => {
                    self.rest = self.rest.get(other.len_utf8()..)?;
                    match other {
                        '{' | '[' => depth += 1,
                        '}' | ']' => depth -= 1,
                        _ => {}
                    }
                }
                None => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_up_to_the_end_of_the_text() {
        let whole = r#" {"type":"a\"b","n":{"x":["}",1]}, "b" : true,"s":"t"} tail"#;
        let shape = JsonShape::of(whole).unwrap();
        assert_eq!(
            shape.fields,
            [("type", Some("a\\\"b")), ("n", None), ("b", None), ("s", Some("t"))]
        );
        let cut = JsonShape::of(r#"[{"role":"user","content":"a long te"#).unwrap();
        assert!(cut.is_array && cut.has("content") && !cut.has("text"));
        assert_eq!((cut.text("role"), cut.text("content")), (Some("user"), None));
        assert_eq!(JsonShape::of("17"), None);
        let deep = JsonShape::of(r#"{"a":{"b":"c"},"d":[{"e":1},{"f":2}],"g":[],"h":{"i"#).unwrap();
        assert_eq!(deep.member("a").and_then(|a| a.text("b")), Some("c"));
        let first = deep.member("d").unwrap();
        assert!(first.is_array && first.has("e") && !first.has("f"));
        assert_eq!((deep.member("g"), deep.member("x")), (None, None));
        assert!(deep.member("h").unwrap().fields.is_empty());
    }

    turntree_properties::properties! {
        #[test]
        fn any_text_has_a_shape_or_not(text in r#"[\[{]?("[a\\"]{0,3}"?|[\[\]{}:,1 é])*"#) {
            let _ = JsonShape::of(&text);
        }
    }
}
