//! Generates words, prose and lines of a program from a fixed seed.

use std::fmt::Write as _;

/// Number of distinct words.
const VOCABULARY: usize = 2048;

/// Words per line of prose.
const WORDS_IN_LINE: u64 = 12;

/// A generator of numbers and text: SplitMix64 over a vocabulary of made-up words.
#[derive(Debug, Clone)]
pub struct Text {
    state: u64,
    words: Vec<String>,
}

impl Text {
    /// Creates the generator with `seed`. All seeds share one vocabulary.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut text = Self { state: 1, words: Vec::new() };
        text.words = (0..VOCABULARY).map(|_| text.syllables()).collect();
        text.state = seed;
        text
    }

    /// Returns a number below `end`, which must not be zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Returns a number from `low` to `high`, skewed to small ones: the third power of a uniform
    /// distribution.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        const UNIT: u64 = 1 << 10;
        let draw = self.below(UNIT);
        low + (high - low) * draw * draw * draw / (UNIT * UNIT * UNIT)
    }

    /// Returns a word, with a skewed distribution.
    pub fn word(&mut self) -> &str {
        let index = self.skewed(0, self.words.len() as u64 - 1);
        usize::try_from(index).ok().and_then(|index| self.words.get(index)).map_or("", |w| w)
    }

    /// Returns at least `bytes` of prose, in lines.
    pub fn prose(&mut self, bytes: u64) -> String {
        let mut prose = String::new();
        let mut words = 0;
        while (prose.len() as u64) < bytes {
            prose.push_str(self.word());
            words += 1;
            prose.push(if words % WORDS_IN_LINE == 0 { '\n' } else { ' ' });
        }
        prose
    }

    /// Returns a line of a program.
    pub fn code_line(&mut self) -> String {
        let mut line = String::from("    let ");
        line.push_str(self.word());
        line.push('_');
        line.push_str(self.word());
        line.push_str(" = self.");
        line.push_str(self.word());
        line.push('(');
        line.push_str(self.word());
        // Writing to a string cannot fail.
        let _ = writeln!(line, ", {});", self.below(1000));
        line
    }

    fn syllables(&mut self) -> String {
        const CONSONANTS: [char; 16] =
            ['b', 'c', 'd', 'f', 'g', 'h', 'k', 'l', 'm', 'n', 'p', 'r', 's', 't', 'v', 'w'];
        const VOWELS: [char; 5] = ['a', 'e', 'i', 'o', 'u'];
        let mut word = String::new();
        for _ in 0..1 + self.below(4) {
            for letters in [&CONSONANTS[..], &VOWELS[..]] {
                let index = usize::try_from(self.below(letters.len() as u64)).unwrap_or(0);
                word.extend(letters.get(index));
            }
        }
        word
    }
}
