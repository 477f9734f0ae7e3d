//! Parses queries: words, phrases and word prefixes.

use turntree::error::{Error, Result};

use super::words::words_of;

/// Limits of a query in bytes and words.
const MAX_QUERY_BYTES: usize = 4096;
const MAX_QUERY_WORDS: usize = 64;

/// A term: words that must be adjacent in a text. Most terms have one word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    /// At least one word.
    pub(super) words: Vec<String>,
    /// True if the last word is a prefix.
    pub(super) is_prefix: bool,
    /// True for words in quotes.
    pub(super) is_quoted: bool,
    /// The term as it was typed.
    pub(super) typed: String,
}

/// The terms of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Terms(pub(super) Vec<Term>);

impl Terms {
    /// Parses a query. `"quoted words"` must be adjacent, and so must the words of a piece without
    /// spaces, such as `a::b`. `wor*` matches words by their prefix. There is no other syntax.
    ///
    /// # Errors
    /// `InvalidInput` if the query has no word, `LimitExceeded` for more than 4,096 bytes or 64
    /// words.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_QUERY_BYTES {
            let (limit, found) = (MAX_QUERY_BYTES as u64, text.len() as u64);
            return Err(Error::limit("bytes of a search", limit, found));
        }
        let mut terms: Vec<Term> = Vec::new();
        for (at, part) in text.split('"').enumerate() {
            let quoted = at % 2 == 1;
            let pieces: Vec<&str> =
                if quoted { vec![part] } else { part.split_whitespace().collect() };
            for piece in pieces {
                let words = words_of(piece);
                let is_prefix = piece.ends_with('*');
                let is_same = |term: &Term| term.words == words && term.is_prefix == is_prefix;
                if !words.is_empty() && !terms.iter().any(is_same) {
                    let typed = piece.trim().to_owned();
                    terms.push(Term { words, is_prefix, is_quoted: quoted, typed });
                }
            }
        }
        let words = terms.iter().map(|term| term.words.len()).sum::<usize>();
        if words > MAX_QUERY_WORDS {
            return Err(Error::limit("words of a search", MAX_QUERY_WORDS as u64, words as u64));
        }
        if terms.is_empty() {
            let message = "there is no word to search for: expected letters or digits";
            return Err(Error::invalid(message));
        }
        Ok(Self(terms))
    }

    /// Returns the distinct words, each with whether it is a prefix.
    pub(super) fn words(&self) -> Vec<(&str, bool)> {
        let mut words = Vec::new();
        for term in &self.0 {
            let last = term.words.len() - 1;
            for (at, word) in term.words.iter().enumerate() {
                let word = (word.as_str(), term.is_prefix && at == last);
                if !words.contains(&word) {
                    words.push(word);
                }
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use turntree::error::ErrorKind;

    use super::*;

    fn formatted(text: &str) -> Vec<String> {
        let terms = Terms::parse(text).unwrap().0;
        let formatted = |term: Term| term.words.join("+") + if term.is_prefix { "*" } else { "" };
        terms.into_iter().map(formatted).collect()
    }

    #[test]
    fn queries_parse_words_phrases_and_prefixes() {
        assert_eq!(formatted("Retry budget"), ["retry", "budget"]);
        assert_eq!(
            formatted("\"retry budget\" pars* \"fn ma*\""),
            ["retry+budget", "pars*", "fn+ma*"]
        );
        assert_eq!(formatted("core::store src/a.rs é"), ["core+store", "src+a+rs", "e"]);
        assert_eq!(formatted("\"open to the end"), ["open+to+the+end"]);
        assert_eq!(formatted("twice twice"), ["twice"]);
        assert_eq!(formatted("検索"), ["検+索"]);
        assert_eq!(
            formatted("a* OR (b AND NOT c) NEAR:^{d}"),
            ["a*", "or", "b", "and", "not", "c", "near+d"]
        );
    }

    #[test]
    fn queries_without_words_or_with_too_many_are_rejected() {
        for text in ["", "  ", "\"", "* !! \0", "\"\"\"\""] {
            let error = Terms::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text:?}");
        }
        let words: Vec<String> = (0..=MAX_QUERY_WORDS).map(|at| format!("w{at}")).collect();
        for text in ["a".repeat(MAX_QUERY_BYTES + 1), words.join(" ")] {
            assert_eq!(Terms::parse(&text).unwrap_err().kind(), ErrorKind::LimitExceeded);
        }
    }
}
