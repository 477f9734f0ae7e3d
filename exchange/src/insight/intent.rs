//! Recognizes rollback requests in chat messages. No other module does.
//!
//! | message | request |
//! |---|---|
//! | `/rollback`, `/rollback 3` | one step, three steps |
//! | `/rollback to 42`, `/rollback turn 42` | the turn 42 |
//! | `undo`, `revert` or `rollback`, alone or with `that`, `it`, `this`, `my last`, `the last` | one step |
//! | ... `undo last 3`, `revert the last 3` ... | three steps |
//! | a whole sentence, as `please undo what you did since my last message`, in 14 languages | one step |
//!
//! A step is a prompt with all turns that followed from it.
//!
//! Case does not matter. The forms without a slash count only in short messages, and the last one
//! not after a `not`: a wrong rollback is worse than a request that the user has to repeat. The
//! rules are those proposed for open-codesign, except that the proposal ignores negations.
//!
//! A hook receives all messages of a user and acts on them without confirmation.
//! [`rollback_request`] therefore accepts a request without a slash only if it is the whole message, politeness aside:
//! `revert the last 3 commits` and `why did you undo the last 2?` are for the agent.
//!
//! ```
//! use turntree_exchange::{RollbackIntent, rollback_intent};
//!
//! assert_eq!(rollback_intent("Undo that"), Some(RollbackIntent::Steps(1)));
//! assert_eq!(rollback_intent("/rollback turn 42"), Some(RollbackIntent::Turn(42)));
//! assert_eq!(rollback_intent("how do I undo a commit?"), None);
//! ```

use super::language::Language;
use super::phrases;

/// The maximum number of steps in open-codesign, which reduces larger numbers to it. turntree has
/// no maximum: a rollback goes back by exactly the requested number.
pub const MAX_ROLLBACK_STEPS: u64 = 50;

/// Longest message without a slash that is parsed, in UTF-16 units.
const MAX_PLAIN_UNITS: usize = 60;

/// The command, by itself and as the plugin of an agent calls it.
const COMMANDS: [&str; 2] = ["/rollback", "/turntree:rollback"];
const VERBS: [&str; 3] = ["undo", "revert", "rollback"];
/// Words that may follow a verb and mean one step.
const ONE_STEP: [&[&str]; 6] =
    [&[], &["that"], &["it"], &["this"], &["my", "last"], &["the", "last"]];
/// Words that may come between a verb and `last N`.
const ARTICLES: [&str; 3] = ["the", "that", "my"];
/// Names of a step that may follow its number.
const STEPS: [&str; 6] = ["prompt", "turn", "step", "message", "request", "change"];
/// Question marks.
const QUESTION: [char; 3] = ['?', '\u{ff1f}', '\u{61f}'];

/// The target of a rollback request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackIntent {
    /// This many steps, at least 1.
    Steps(u64),
    /// This turn, at least 1.
    Turn(u64),
}

/// Returns the rollback request in `message`, or `None` if there is none.
#[must_use]
pub fn rollback_intent(message: &str) -> Option<RollbackIntent> {
    let message = message.trim();
    if let Some(rest) = after_command(message) {
        return parse_command(rest);
    }
    if phrases::undo_language(message).is_some() {
        return Some(RollbackIntent::Steps(1));
    }
    if message.encode_utf16().take(MAX_PLAIN_UNITS + 1).count() > MAX_PLAIN_UNITS {
        return None;
    }
    let message = message.to_ascii_lowercase();
    let words: Vec<&str> = message.split_whitespace().collect();
    if is_one_step(&words) {
        return Some(RollbackIntent::Steps(1));
    }
    (0..words.len()).find_map(|at| parse_last_steps(&words, at)).flatten()
}

/// Returns the rollback request in `message` if the message is nothing else and not a question.
/// Ignores requests that [`rollback_intent`] finds inside of other messages.
#[must_use]
pub fn rollback_request(message: &str) -> Option<RollbackIntent> {
    let wish = rollback_intent(message)?;
    let message = message.trim();
    if after_command(message).is_some() {
        return Some(wish);
    }
    let is_wish = |said: &str| {
        let words: Vec<&str> = said.split_whitespace().collect();
        (is_one_step(&words) || is_last_steps(&words)).then_some(())
    };
    let is_whole = phrases::undo_language(message).is_some()
        || phrases::find_without_politeness(message, is_wish).is_some();
    let asks = message.trim_end_matches(|c: char| c == '!' || c.is_whitespace());
    (is_whole && !asks.ends_with(QUESTION)).then_some(wish)
}

/// Returns true if the words are a verb and an object that means one step.
fn is_one_step(words: &[&str]) -> bool {
    match words.split_first() {
        Some((verb, rest)) => VERBS.contains(verb) && ONE_STEP.contains(&rest),
        None => false,
    }
}

/// Returns true if the words are a verb, `last N`, and optionally the name of a step.
fn is_last_steps(words: &[&str]) -> bool {
    let Some((verb, rest)) = words.split_first() else { return false };
    let rest = match rest.split_first() {
        Some((article, rest)) if ARTICLES.contains(article) => rest,
        _ => rest,
    };
    let is_named = match rest {
        ["last", number] => digits(number).is_some(),
        ["last", number, name] => {
            digits(number).is_some() && STEPS.contains(&name.strip_suffix('s').unwrap_or(name))
        }
        _ => false,
    };
    VERBS.contains(verb) && is_named
}

/// Returns the language of a message that is a rollback sentence, or `None` for other messages.
#[must_use]
pub fn rollback_language(message: &str) -> Option<Language> {
    phrases::undo_language(message.trim())
}

/// Returns the text after the command, if the message starts with the command.
fn after_command(message: &str) -> Option<&str> {
    COMMANDS.iter().find_map(|command| {
        let (head, rest) = message.split_at_checked(command.len())?;
        let is_whole = rest.is_empty() || rest.starts_with(char::is_whitespace);
        (head.eq_ignore_ascii_case(command) && is_whole).then_some(rest)
    })
}

/// Parses the text after the command.
fn parse_command(rest: &str) -> Option<RollbackIntent> {
    let rest = rest.to_ascii_lowercase();
    let mut words: Vec<&str> = rest.split_whitespace().collect();
    // The number may follow the word without a space.
    if let [word] = *words
        && let Some((name, number)) = ["to", "turn"]
            .iter()
            .find_map(|name| Some((*name, word.strip_prefix(name)?)))
            .filter(|(_, number)| !number.is_empty())
    {
        words = vec![name, number];
    }
    match *words {
        [] => Some(RollbackIntent::Steps(1)),
        [number] => parse_steps(number),
        ["to" | "turn", number] | ["to", "turn", number] => parse_turn(number),
        _ => None,
    }
}

/// Parses a verb at `at` followed by `last N`. Returns `None` without such words, and `Some(None)`
/// for a negated or invalid request.
fn parse_last_steps(words: &[&str], at: usize) -> Option<Option<RollbackIntent>> {
    let verb = words.get(at)?.rsplit(|c: char| !is_word(c)).next()?;
    if !VERBS.contains(&verb) {
        return None;
    }
    let rest = words.get(at + 1..)?;
    let rest = match rest.split_first() {
        Some((article, rest)) if ARTICLES.contains(article) => rest,
        _ => rest,
    };
    let ["last", number, ..] = *rest else { return None };
    let digits = number.split(|c: char| !is_word(c)).next()?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let before = words.get(..at)?.iter();
    let is_denied = before.clone().any(|word| is_negation(word));
    Some(if is_denied { None } else { parse_steps(digits) })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_negation(word: &str) -> bool {
    let word = word.trim_matches(|c: char| c.is_ascii_punctuation());
    ["not", "never", "dont", "without", "cannot"].contains(&word)
        || word.ends_with("n't")
        || word.ends_with("n\u{2019}t")
}

/// Parses a number of steps. An overflow becomes the maximum, which is more than any history has.
fn parse_steps(number: &str) -> Option<RollbackIntent> {
    let steps = digits(number)?.parse().unwrap_or(u64::MAX);
    (steps > 0).then_some(RollbackIntent::Steps(steps))
}

fn parse_turn(number: &str) -> Option<RollbackIntent> {
    digits(number)?.parse().ok().filter(|turn| *turn > 0).map(RollbackIntent::Turn)
}

/// Returns the text if it has only digits.
fn digits(text: &str) -> Option<&str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::RollbackIntent::{Steps, Turn};
    use super::*;

    #[test]
    fn commands_and_plain_words_are_recognized() {
        for (message, expected) in [
            ("/rollback to 42", Some(Turn(42))),
            ("/rollback to turn 42", Some(Turn(42))),
            ("/ROLLBACK Turn 42", Some(Turn(42))),
            ("/rollback turn42", Some(Turn(42))),
            ("/rollback turn 0", None),
            ("/rollback to", None),
            ("/rollback 0", None),
            ("/rollback -1", None),
            ("/rollback 1.5", None),
            ("/rollback 3 4", None),
            ("/rollbacks", None),
            ("/turntree:rollback", Some(Steps(1))),
            ("/turntree:rollback to 42", Some(Turn(42))),
            ("/turntree:rollbacks", None),
            ("/rollback turn 99999999999999999999", None),
            ("/rollback 99999999999999999999", Some(Steps(u64::MAX))),
            ("\trevert\nit ", Some(Steps(1))),
            ("undo my last", Some(Steps(1))),
            ("undo the last", Some(Steps(1))),
            ("undo last", None),
            ("undo the last edit", None),
            ("please undo the last 3 turns!", Some(Steps(3))),
            ("undo my last 2.", Some(Steps(2))),
            ("undo last 51", Some(Steps(51))),
            ("undo last 3rd", None),
            ("do not undo the last 3", None),
            ("Don't revert last 2", None),
            ("redo last 3", None),
            ("xundo last 3", None),
            ("\u{1F680} (undo last 3)", Some(Steps(3))),
        ] {
            assert_eq!(rollback_intent(message), expected, "{message:?}");
        }
    }

    #[test]
    fn rollback_requests_are_recognized_in_every_language() {
        for message in [
            "please undo what you did since my last message",
            "Undo what you just did.",
            "Can you undo that",
            "could you please revert your last changes",
            "No, undo that!",
            "ok roll that back",
            "Take that back, please",
            "undo that, thanks",
            "Go back to before my last message",
            "Bitte mach rückgängig, was du seit meiner letzten Nachricht getan hast.",
            "Mach das bitte rückgängig!",
            "Nimm das zurück",
            "Nein, mach das wieder rückgängig",
            "Annule ça s'il te plaît",
            "Annule ce que tu as fait depuis mon dernier message",
            "annulez cela, s’il vous plaît",
            "Deshaz lo que hiciste desde mi último mensaje",
            "por favor, deshaz eso",
            "Desfaça o que você fez desde a minha última mensagem",
            "desfaz isso por favor",
            "Annulla quello che hai appena fatto",
            "per favore annulla le tue modifiche",
            "Maak dat ongedaan, alsjeblieft",
            "maak ongedaan wat je sinds mijn laatste bericht hebt gedaan",
            "Cofnij to, proszę",
            "nie, cofnij to",
            "cofnij to, co zrobiłeś od mojej ostatniej wiadomości",
            "Отмени это, пожалуйста",
            "ОТМЕНИ ВСЁ, ЧТО ТЫ СДЕЛАЛ ПОСЛЕ МОЕГО ПОСЛЕДНЕГО СООБЩЕНИЯ!",
            "откати последние изменения",
            "Скасуй те, що ти щойно зробив",
            "будь ласка, скасуй це",
            "lütfen bunu geri al",
            "Son mesajımdan beri yaptıklarını geri al.",
            "请撤销你刚才的修改",
            "撤销刚才的操作。",
            "请撤销我上一条消息之后的所有修改",
            "元に戻してください。",
            "さっきの変更を元に戻して",
            "私の最後のメッセージ以降の変更を元に戻してください",
            "되돌려줘",
            "방금 한 거 되돌려줘!",
            "내 마지막 메시지 이후에 한 것을 되돌려줘",
        ] {
            assert_eq!(rollback_intent(message), Some(Steps(1)), "{message:?}");
        }
    }

    #[test]
    fn ambiguous_messages_are_not_rollback_requests() {
        for message in [
            "undo that?",
            "can I undo that",
            "don't undo that",
            "do not undo what you did",
            "please don't revert your changes",
            "never undo that",
            "no undo",
            "no undo that works",
            "undo that and then run the tests",
            "undo that in git",
            "undo the commit",
            "undo the last commit",
            "revert the last commit",
            "add an undo button",
            "implement undo what you did",
            "go back",
            "go back to before I asked for the parser",
            "take it back to the shop",
            "roll back the migration",
            "what did you undo",
            "why did you undo that",
            "you can undo that later",
            "yeah you can undo that, it was actually the console.logs",
            "mach das nicht rückgängig",
            "bitte nicht rückgängig machen",
            "mach den letzten Commit rückgängig",
            "n'annule pas ça",
            "no deshagas eso",
            "no deshaz eso",
            "não desfaça isso",
            "não desfaz isso",
            "non annullare",
            "non annulla questo",
            "maak dat niet ongedaan",
            "nie cofnij to",
            "nie cofaj tego",
            "не отменяй это",
            "нет отмени это",
            "не скасовуй це",
            "bunu geri alma",
            "不要撤销",
            "请不要撤销刚才的修改",
            "别撤销",
            "元に戻さないでください",
            "되돌리지 마",
            "please",
            "no,",
        ] {
            assert_eq!(rollback_intent(message), None, "{message:?}");
        }
    }

    #[test]
    fn plain_requests_are_short_and_commands_may_be_long() {
        let padded = |units: usize| {
            let wish = "undo last 3 ";
            format!("{wish}{}", "x".repeat(units - wish.len()))
        };
        assert_eq!(rollback_intent(&padded(60)), Some(Steps(3)));
        assert_eq!(rollback_intent(&padded(61)), None);
        let rockets = format!("undo last 3 {}", "\u{1F680}".repeat(24));
        assert_eq!(rollback_intent(&rockets), Some(Steps(3)), "60 units of UTF-16");
        assert_eq!(rollback_intent(&format!("{rockets}\u{1F680}")), None);
        assert_eq!(rollback_intent(&format!("/rollback{}7", " ".repeat(100))), Some(Steps(7)));
    }

    #[test]
    fn hooks_accept_only_whole_message_requests() {
        for (message, steps) in [
            ("undo", 1),
            ("undo that", 1),
            ("/rollback 2", 2),
            ("/rollback 2?", 0),
            ("revert the last 3", 3),
            ("please undo the last 3 turns!", 3),
            ("No, undo my last 2 prompts, thanks.", 2),
            ("ok, UNDO last 1 change", 1),
            ("bitte undo last 2", 2),
            ("can you revert the last 4 steps please", 4),
            ("Bitte mach rückgängig, was du getan hast.", 1),
            ("请撤销你刚才的修改", 1),
            ("revert the last 3 commits", 0),
            ("undo last 5 migrations in db/", 0),
            ("undo the last 2 turns of the screw in the CAD model", 0),
            ("undo the last 2 changes in main.rs", 0),
            ("how do I undo the last 2 commits?", 0),
            ("how do I undo the last 2", 0),
            ("why did you revert the last 3?", 0),
            ("did you undo last 3", 0),
            ("I will undo last 2", 0),
            ("undo the last 3?", 0),
            ("undo last 2 turns?!", 0),
            ("please revert the last 3 turns ?", 0),
            ("undo that\u{ff1f}", 0),
            ("(undo last 3)", 0),
            ("explain 'undo last 3'", 0),
            ("undo last 3rd", 0),
            ("do not undo the last 3", 0),
            ("don't undo that", 0),
            ("mach das nicht rückgängig", 0),
            ("不要撤销", 0),
        ] {
            let expected = (steps > 0).then_some(Steps(steps));
            assert_eq!(rollback_request(message), expected, "{message:?}");
        }
    }

    turntree_properties::properties! {
        #[test]
        fn hooks_recognize_no_other_messages(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "please", "undo", "revert", "last", "the", "that", "7", "commits", "turns", "why",
                    "?",
                ]),
                0..6,
            ),
        ) {
            let said = words.join(" ");
            let heard = rollback_request(&said);
            prop_assert!(heard.is_none() || heard == rollback_intent(&said));
            let strange = ["commits", "why", "?"];
            prop_assert!(heard.is_none() || !words.iter().any(|word| strange.contains(word)));
        }

        #[test]
        fn any_message_is_a_bounded_request_or_none(message in ".*") {
            match rollback_intent(&message) {
                Some(Steps(steps)) => prop_assert!(steps > 0),
                Some(Turn(turn)) => prop_assert!(turn > 0),
                None => {}
            }
        }

        #[test]
        fn request_words_in_any_order_ignore_case_and_spaces(
            words in prop::collection::vec(
                prop::sample::select(vec![
                    "/rollback", "undo", "revert", "last", "the", "that", "to", "turn", "7", "0",
                    "999", "not", "\u{e9}",
                ]),
                0..6,
            ),
        ) {
            let plain = rollback_intent(&words.join(" "));
            prop_assert_eq!(rollback_intent(&words.join("\n  ").to_uppercase()), plain);
            let said = format!("  {}\t", words.join(" "));
            prop_assert_eq!(rollback_intent(&said), plain);
            let is_wish = words.iter().any(|word| matches!(*word, "/rollback" | "undo" | "revert"));
            prop_assert!(plain.is_none() || is_wish);
        }

        #[test]
        fn numbers_are_the_steps(steps in 1..2000_u64) {
            let expected = Some(Steps(steps));
            prop_assert_eq!(rollback_intent(&format!("/rollback {steps}")), expected);
            prop_assert_eq!(rollback_intent(&format!("undo last {steps}")), expected);
            prop_assert_eq!(rollback_intent(&format!("/rollback to {steps}")), Some(Turn(steps)));
        }
    }
}
