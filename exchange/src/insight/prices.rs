//! The cost of tokens by model: a dated table that users can edit.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use turntree::error::{Error, Result};

use super::usage::TokenUsage;

/// The built-in table, parsed when a price is first looked up: a list of turns without usage needs
/// none. A test checks that it can be parsed.
static BUILT_IN: LazyLock<DatedModels> =
    LazyLock::new(|| DatedModels::parse(include_str!("prices.toml")).unwrap_or_default());

/// Number of tokens that a price is for.
const MILLION: f64 = 1e6;

/// Marks a prefix at the end of a model name.
const WILDCARD: char = '*';

/// Minimum number of digits of a date suffix. A shorter number is a version.
const DATE_DIGITS: usize = 4;

/// Suffixes of a model name that mark a release of it.
const RELEASES: [&str; 4] = ["latest", "preview", "v1", "v2"];

/// Separators after the provider in the name of a model.
const PROVIDER_SEPARATORS: [&str; 2] = ["/", "anthropic."];

/// The prices of models. The default has no prices.
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    /// True if the built-in table has these prices and the parsed table others, which come first.
    pub adds_to_built_in: bool,
    source: Source,
}

#[derive(Debug, Clone)]
enum Source {
    BuiltIn,
    Parsed(DatedModels),
}

impl Default for Source {
    fn default() -> Self {
        Self::Parsed(DatedModels::default())
    }
}

/// A table in a file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DatedModels {
    #[serde(default)]
    date: String,
    #[serde(default)]
    models: BTreeMap<String, Price>,
}

/// The price of a million tokens of a model, in US dollars.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Price {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
    /// The price of a thousand web searches.
    web_search: Option<f64>,
    /// The prices of fast answers.
    fast: Option<FastPrice>,
    /// The prices of answers with a long input.
    long: Option<LongPrice>,
}

/// The price of a million tokens of fast answers.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct FastPrice {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
}

/// The price of a million tokens of answers whose input has more than `above` tokens.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct LongPrice {
    above: u64,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    cache_write_1h: Option<f64>,
}

/// A cost by the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TableCost {
    /// US dollars.
    pub(super) dollars: f64,
    /// True if a fee or a surcharge is missing, because the table does not have it.
    pub(super) lacks_part: bool,
}

/// Number of searches that a price is for.
const THOUSAND: f64 = 1e3;

/// The service level that a table may have prices for.
const FAST: &str = "fast";

impl PriceTable {
    /// Parses a table: `date`, and the prices of each model. Without a date it adds models to the
    /// built-in table.
    ///
    /// # Errors
    /// `InvalidInput` with a description of the error.
    pub fn parse(text: &str) -> Result<Self> {
        let table = DatedModels::parse(text)?;
        if !table.date.is_empty() {
            return Ok(Self { adds_to_built_in: false, source: Source::Parsed(table) });
        }
        if table.models.is_empty() {
            return Err(Error::invalid(
                "not a table of prices: it has neither a date nor a model; \
                 [models.NAME] has the prices 'input' and 'output' of a model",
            ));
        }
        let DatedModels { date, mut models } = BUILT_IN.clone();
        models.extend(table.models);
        let source = Source::Parsed(DatedModels { date, models });
        Ok(Self { adds_to_built_in: true, source })
    }

    /// Returns the built-in table.
    #[must_use]
    pub fn built_in() -> Self {
        Self { adds_to_built_in: false, source: Source::BuiltIn }
    }

    /// Returns the date of the prices as text.
    #[must_use]
    pub fn date(&self) -> &str {
        &self.table().date
    }

    fn table(&self) -> &DatedModels {
        match &self.source {
            Source::BuiltIn => &BUILT_IN,
            Source::Parsed(table) => table,
        }
    }

    /// Returns the cost of tokens of `model` in US dollars, or `None` if the table has no price.
    #[must_use]
    pub fn cost(&self, model: &str, tokens: &TokenUsage) -> Option<f64> {
        Some(self.price(model)?.cost(tokens, "")?.dollars)
    }

    /// Returns the price with the longest matching name. Some providers write the version with a
    /// dot where the vendor writes a dash.
    pub(super) fn price(&self, model: &str) -> Option<&Price> {
        let model = model.to_lowercase();
        let bare = PROVIDER_SEPARATORS.iter().filter_map(|mark| model.rsplit_once(*mark));
        let names: Vec<String> = [model.as_str()]
            .into_iter()
            .chain(bare.map(|(_, name)| name))
            .flat_map(|name| [name.to_owned(), name.replace('.', "-")])
            .collect();
        let fits = |known: &str| {
            let known = known.to_lowercase();
            names.iter().any(|name| is_release_of(&known, name))
        };
        let fitting = self.table().models.iter().filter(|(known, _)| fits(known));
        fitting.max_by_key(|(known, _)| known.len()).map(|(_, price)| price)
    }
}

impl DatedModels {
    fn parse(text: &str) -> Result<Self> {
        let table: Self = basic_toml::from_str(text)
            .map_err(|error| Error::invalid(format!("not a table of prices: {error}")))?;
        let is_sound = |price: &f64| (0.0..1e9).contains(price);
        for (name, price) in &table.models {
            let mut all = price.all().to_vec();
            all.push(price.web_search);
            all.extend(price.fast.iter().flat_map(|fast| price.with_fast_prices(fast).all()));
            all.extend(price.long.iter().flat_map(|long| price.with_long_prices(long).all()));
            if !all.iter().flatten().all(is_sound) {
                return Err(Error::invalid(format!(
                    "a price of {name} is not an amount of dollars"
                )));
            }
        }
        Ok(table)
    }
}

impl Price {
    const fn all(&self) -> [Option<f64>; 5] {
        let Self { input, output, cache_read, cache_write, cache_write_1h, .. } = *self;
        [Some(input), Some(output), cache_read, cache_write, cache_write_1h]
    }

    const fn with_fast_prices(&self, fast: &FastPrice) -> Self {
        let FastPrice { input, output, cache_read, cache_write, cache_write_1h } = *fast;
        let tokens = Self { input, output, cache_read, cache_write, cache_write_1h, ..*self };
        Self { fast: None, long: None, ..tokens }
    }

    const fn with_long_prices(&self, long: &LongPrice) -> Self {
        let LongPrice { input, output, cache_read, cache_write, cache_write_1h, .. } = *long;
        let tokens = Self { input, output, cache_read, cache_write, cache_write_1h, ..*self };
        Self { fast: None, long: None, ..tokens }
    }

    /// Returns the cost of an answer, or `None` if a price is missing. If the service level has no
    /// price, uses the usual price and sets `lacks_part`.
    pub(super) fn cost(&self, tokens: &TokenUsage, service: &str) -> Option<TableCost> {
        let fast = self.fast.as_ref().filter(|_| service == FAST);
        let long = self.long.as_ref().filter(|long| tokens.input > long.above);
        let price = match (fast, long) {
            (Some(fast), _) => self.with_fast_prices(fast),
            (None, Some(long)) => self.with_long_prices(long),
            (None, None) => *self,
        };
        let mut dollars = price.cost_of_tokens(tokens)?;
        let mut lacks_part = fast.is_none() && !service.is_empty();
        if tokens.web_searches > 0 {
            #[expect(clippy::cast_precision_loss, reason = "a count of searches is below 2^53")]
            let searches = tokens.web_searches as f64;
            match self.web_search {
                Some(price) => dollars += searches / THOUSAND * price,
                None => lacks_part = true,
            }
        }
        Some(TableCost { dollars, lacks_part })
    }

    fn cost_of_tokens(&self, tokens: &TokenUsage) -> Option<f64> {
        let hour = tokens.cache_write_hour;
        let parts = [
            (tokens.uncached(), Some(self.input)),
            (tokens.cache_read, self.cache_read),
            (tokens.cache_write.saturating_sub(hour), self.cache_write),
            (hour, self.cache_write_1h.or(self.cache_write)),
            (tokens.output, Some(self.output)),
        ];
        let mut cost = 0.0;
        for (count, price) in parts.into_iter().filter(|(count, _)| *count > 0) {
            #[expect(clippy::cast_precision_loss, reason = "a count of tokens is below 2^53")]
            let count = count as f64;
            cost += count / MILLION * price?;
        }
        Some(cost)
    }
}

/// Returns true if `name` is the model `known` or a release of it.
fn is_release_of(known: &str, name: &str) -> bool {
    if let Some(beginning) = known.strip_suffix(WILDCARD) {
        return name.starts_with(beginning);
    }
    let Some(rest) = name.strip_prefix(known) else { return false };
    let mut words = rest.split(['-', '@', ':']);
    if words.next() != Some("") {
        return false;
    }
    let mut has_date = false;
    words.all(|word| {
        let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_release = RELEASES.contains(&word) || (is_number && has_date);
        has_date |= is_release || (is_number && word.len() >= DATE_DIGITS);
        has_date
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The price of a million tokens of input, in short answers.
    fn cost(table: &PriceTable, model: &str) -> Option<f64> {
        let one = table.cost(model, &TokenUsage { input: 1000, ..TokenUsage::default() })?;
        Some((one * 1e6).round() / 1e3)
    }

    #[test]
    fn the_built_in_price_table_is_valid() {
        let table = PriceTable::built_in();
        assert_eq!(cost(&table, "claude-opus-4-5-20251101"), Some(5.0));
        assert_eq!(cost(&table, "us.anthropic.claude-opus-4-5-20251101-v1:0"), Some(5.0));
        assert_eq!(cost(&table, "anthropic/claude-sonnet-4"), Some(3.0));
        assert_eq!(cost(&table, "anthropic/claude-haiku-4.5"), Some(1.0));
        assert_eq!(cost(&table, "claude-opus-4-20250514"), Some(15.0));
        assert_eq!(cost(&table, "gpt-5-2025-08-07"), Some(1.25));
        assert_eq!(cost(&table, "gemini-3-pro-preview"), Some(2.0));
        assert_eq!(cost(&table, "o3"), Some(2.0));
        for model in ["gpt-5.5", "glm-4.7", "openai/gpt-5.3-codex", "claude-sonnet-4.6"] {
            assert!(cost(&table, model).is_some(), "{model}");
        }
    }

    #[test]
    fn models_do_not_match_by_prefix_alone() {
        let table = PriceTable::built_in();
        let others = [
            "claude-opus-4-9",
            "claude-opus-4.9",
            "gpt-5.9",
            "gpt-5-ultra",
            "o3-ultra",
            "claude-opus-4-9-20270101",
            "",
        ];
        for model in others {
            assert_eq!(cost(&table, model), None, "{model}");
        }
    }

    #[test]
    fn the_longest_model_name_wins_and_a_star_is_a_wildcard() {
        let text = "date = 'd'\n[models.'own-*']\ninput = 1\noutput = 2\n\
                    [models.'own-large']\ninput = 3.5\noutput = 4\n";
        let table = PriceTable::parse(text).unwrap();
        assert_eq!(cost(&table, "own-small-7"), Some(1.0));
        assert_eq!(cost(&table, "own-large"), Some(3.5));
    }

    #[test]
    fn a_table_without_a_date_adds_to_the_built_in_one() {
        let table = PriceTable::parse(
            "[models.own]\ninput = 7\noutput = 8\n\
            [models.'gpt-5.5']\ninput = 9\noutput = 10\n",
        );
        let table = table.unwrap();
        assert!(table.adds_to_built_in);
        assert_eq!(table.date(), PriceTable::built_in().date());
        for (model, expected) in [("own", 7.0), ("gpt-5.5", 9.0), ("gpt-5", 1.25)] {
            assert_eq!(cost(&table, model), Some(expected), "{model}");
        }
    }

    #[test]
    fn each_token_kind_has_its_price_and_none_is_guessed() {
        let text = "date = 'd'\n[models.m]\ninput = 1\noutput = 2\ncache_read = 0.5\n";
        let table = PriceTable::parse(text).unwrap();
        let tokens = TokenUsage {
            input: 3_000_000,
            cache_read: 2_000_000,
            output: 1_000_000,
            ..TokenUsage::default()
        };
        assert_eq!(table.cost("m", &tokens), Some(4.0));
        assert_eq!(table.cost("m", &TokenUsage { cache_write: 1, ..tokens }), None);
    }

    #[test]
    fn a_long_input_has_its_own_price() {
        let text = "date = 'd'\n[models.m]\ninput = 1\noutput = 2\ncache_read = 0.5\n\
                    [models.m.long]\nabove = 1000000\ninput = 3\noutput = 4\n";
        let table = PriceTable::parse(text).unwrap();
        let of = |input, cache_read| {
            table.cost("m", &TokenUsage { input, cache_read, ..TokenUsage::default() })
        };
        assert_eq!(of(1_000_000, 0), Some(1.0));
        assert_eq!(of(1_000_000, 1_000_000), Some(0.5));
        assert_eq!(of(2_000_000, 0), Some(6.0));
        assert_eq!(of(2_000_000, 1), None, "the price of cached tokens is not guessed");
    }

    #[test]
    fn unlisted_fees_and_surcharges_are_reported_as_missing() {
        let text = "date = 'd'\n[models.m]\ninput = 1\noutput = 2\nweb_search = 10\n\
                    [models.m.fast]\ninput = 6\noutput = 12\n[models.n]\ninput = 1\noutput = 2\n";
        let table = PriceTable::parse(text).unwrap();
        let of = |model: &str, web_searches: u64, service: &str| {
            let tokens = TokenUsage { input: 1_000_000, web_searches, ..TokenUsage::default() };
            let cost = table.price(model).unwrap().cost(&tokens, service).unwrap();
            (cost.dollars, cost.lacks_part)
        };
        assert_eq!(of("m", 0, ""), (1.0, false));
        assert_eq!(of("m", 100, ""), (2.0, false));
        assert_eq!(of("m", 100, "fast"), (7.0, false));
        assert_eq!(of("m", 0, "priority"), (1.0, true));
        assert_eq!(of("n", 100, ""), (1.0, true));
        assert_eq!(of("n", 0, "fast"), (1.0, true));
    }

    #[test]
    fn invalid_price_tables_are_rejected() {
        for text in [
            "",
            "date = 1",
            "date = 'd'\n[models.m]\ninput = 1\n",
            "date = 'd'\nprice = 1",
            "date = 'd'\n[models.m]\ninput = -1\noutput = 1\n",
        ] {
            assert!(PriceTable::parse(text).is_err(), "{text}");
        }
    }
}
