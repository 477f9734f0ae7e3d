//! The shape of a JSON value from its beginning: the names at its top and their texts.
//!
//! A text that ends inside a long value still has a shape, so a few kilobytes of a file are enough to
//! say what it is.

/// The names at the top of a JSON object, or of the first object in an array.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct JsonShape<'a> {
    /// True if the object is the first in an array.
    pub is_array: bool,
    /// The names in file order with their values where these are text, as they stand in the file.
    pub fields: Vec<(&'a str, Option<&'a str>)>,
    /// All that is seen from the beginning of the value, for marks that lie deeper.
    pub head: &'a str,
    /// What is seen from the beginning of each value.
    values: Vec<&'a str>,
}

impl<'a> JsonShape<'a> {
    /// The shape of the value at the beginning of `text`, as far as it can be seen. Nothing when it
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

    /// Returns the shape of the value of the field called `name`, as far as it can be seen: of an
    /// object, or of the first object in an array.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Self> {
        let at = self.fields.iter().position(|(field, _)| *field == name)?;
        Self::of(self.values.get(at)?)
    }

    /// Returns true if there is a field called one of `names`.
    pub(crate) fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.has(name))
    }

    /// Returns the names at the top of the object that begins `text`, at most `most` of them.
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

    /// Returns true if there is a field called `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| *field == name)
    }

    /// The text of the field called `name`.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(field, _)| *field == name).and_then(|(_, text)| *text)
    }
}

/// A cursor over a text that may end anywhere.
struct ShapeScan<'a> {
    rest: &'a str,
}

impl<'a> ShapeScan<'a> {
    /// Passes white space and then `expected`, if it is there.
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

    /// Passes a whole string and gives what stands between its quotes.
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

    /// Passes a value and gives its text, if it is text and ends here.
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
    fn a_shape_is_seen_up_to_where_the_text_ends() {
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
