//! Sentences that request to undo the last prompt, in 14 languages.
//!
//! A message counts only if it is one of these sentences as a whole, politeness aside. Single words
//! are not interpreted: any other sentence is not a request.

use super::language::Language;

/// Longest message to look up, in bytes.
const MAX_BYTES: usize = 400;

/// Politeness before a sentence, and refusals with their comma.
const POLITE_PREFIXES: [&str; 41] = [
    "please",
    "pls",
    "ok",
    "okay",
    "can you",
    "could you",
    "can you please",
    "could you please",
    "no,",
    "nope,",
    "wait,",
    "stop,",
    "bitte",
    "nein,",
    "kannst du bitte",
    "stopp,",
    "s'il te plaît",
    "s'il vous plaît",
    "stp",
    "svp",
    "non,",
    "por favor",
    "espera,",
    "não,",
    "per favore",
    "alsjeblieft",
    "nee,",
    "proszę",
    "nie,",
    "пожалуйста",
    "нет,",
    "будь ласка",
    "ні,",
    "lütfen",
    "hayır,",
    "请",
    "请你",
    "不对，",
    "麻烦你",
    "請",
    "아니,",
];

/// Politeness after a sentence.
const POLITE_SUFFIXES: [&str; 16] = [
    "please",
    "pls",
    "thanks",
    "thank you",
    "bitte",
    "danke",
    "s'il te plaît",
    "s'il vous plaît",
    "stp",
    "svp",
    "por favor",
    "per favore",
    "alsjeblieft",
    "proszę",
    "пожалуйста",
    "lütfen",
];

/// The sentences, in lowercase and without final punctuation.
const SENTENCES: &[(Language, &[&str])] = &[
    (
        Language::English,
        &[
            "undo",
            "undo that",
            "undo it",
            "undo this",
            "revert that",
            "revert it",
            "revert this",
            "rollback that",
            "rollback it",
            "undo what you did",
            "undo what you just did",
            "undo what you have done",
            "undo everything you did",
            "undo everything you just did",
            "undo your changes",
            "undo your last changes",
            "undo your last change",
            "undo all your changes",
            "undo the last prompt",
            "undo my last prompt",
            "undo my last message",
            "undo the last message",
            "undo my last request",
            "undo what you did since my last message",
            "undo what you did since my last prompt",
            "undo everything since my last message",
            "undo everything you did since my last message",
            "undo all changes since my last message",
            "undo your changes since my last message",
            "undo the changes you just made",
            "undo the changes you made since my last message",
            "revert what you did",
            "revert what you just did",
            "revert your changes",
            "revert your last changes",
            "revert everything you did",
            "revert everything since my last message",
            "revert what you did since my last message",
            "revert the changes you just made",
            "revert my last prompt",
            "roll back",
            "roll that back",
            "roll it back",
            "roll back what you did",
            "roll back your changes",
            "roll back your last changes",
            "roll back to before my last message",
            "roll back to before my last prompt",
            "rollback your changes",
            "rollback to before my last message",
            "take that back",
            "take back what you did",
            "take back your changes",
            "take back your last changes",
            "go back to before my last message",
            "go back to before my last prompt",
            "go back to before my last request",
            "go back to how it was before my last message",
            "i want to undo that",
            "let's undo that",
            "undo all of that",
            "undo all that",
            "undo this please",
        ],
    ),
    (
        Language::German,
        &[
            "mach das rückgängig",
            "mach es rückgängig",
            "mache das rückgängig",
            "mach das bitte rückgängig",
            "mach das wieder rückgängig",
            "mach alles rückgängig, was du gerade getan hast",
            "mach rückgängig, was du getan hast",
            "mach rückgängig, was du gerade getan hast",
            "mach rückgängig, was du gerade gemacht hast",
            "mach rückgängig, was du seit meiner letzten nachricht getan hast",
            "mach rückgängig, was du seit meiner letzten nachricht gemacht hast",
            "mach deine änderungen rückgängig",
            "mach deine letzten änderungen rückgängig",
            "mach die letzten änderungen rückgängig",
            "nimm das zurück",
            "nimm das wieder zurück",
            "nimm deine änderungen zurück",
            "nimm deine letzten änderungen zurück",
            "das rückgängig machen",
        ],
    ),
    (
        Language::French,
        &[
            "annule ça",
            "annule cela",
            "annulez cela",
            "annule tes modifications",
            "annule tes dernières modifications",
            "annule ce que tu as fait",
            "annule ce que tu viens de faire",
            "annule tout ce que tu viens de faire",
            "annule ce que tu as fait depuis mon dernier message",
            "annulez ce que vous avez fait depuis mon dernier message",
            "annule mon dernier message",
            "reviens à avant mon dernier message",
            "reviens avant mon dernier message",
            "défais ça",
            "défais ce que tu viens de faire",
        ],
    ),
    (
        Language::Spanish,
        &[
            "deshaz eso",
            "deshaz esto",
            "deshazlo",
            "deshaz lo que hiciste",
            "deshaz lo que has hecho",
            "deshaz lo que acabas de hacer",
            "deshaz tus cambios",
            "deshaz tus últimos cambios",
            "deshaz los últimos cambios",
            "deshaz lo que hiciste desde mi último mensaje",
            "deshaz lo que has hecho desde mi último mensaje",
            "deshaz todo desde mi último mensaje",
            "revierte eso",
            "revierte tus cambios",
            "revierte lo que hiciste",
            "revierte lo que has hecho desde mi último mensaje",
            "vuelve a antes de mi último mensaje",
        ],
    ),
    (
        Language::Portuguese,
        &[
            "desfaz isso",
            "desfaça isso",
            "desfaz o que fizeste",
            "desfaça o que você fez",
            "desfaça o que você acabou de fazer",
            "desfaça suas alterações",
            "desfaça as suas alterações",
            "desfaça suas últimas alterações",
            "desfaça o que você fez desde minha última mensagem",
            "desfaça o que você fez desde a minha última mensagem",
            "desfaz o que fizeste desde a minha última mensagem",
            "desfaça tudo desde a minha última mensagem",
            "reverta isso",
            "reverta suas alterações",
            "reverte isso",
            "volte para antes da minha última mensagem",
        ],
    ),
    (
        Language::Italian,
        &[
            "annullalo",
            "annulla questo",
            "annulla tutto quello che hai fatto",
            "annulla quello che hai fatto",
            "annulla quello che hai appena fatto",
            "annulla ciò che hai fatto",
            "annulla ciò che hai appena fatto",
            "annulla le tue modifiche",
            "annulla le tue ultime modifiche",
            "annulla le ultime modifiche",
            "annulla quello che hai fatto dal mio ultimo messaggio",
            "annulla ciò che hai fatto dopo il mio ultimo messaggio",
            "torna a prima del mio ultimo messaggio",
        ],
    ),
    (
        Language::Dutch,
        &[
            "maak dat ongedaan",
            "maak het ongedaan",
            "maak dit ongedaan",
            "maak ongedaan wat je hebt gedaan",
            "maak ongedaan wat je net hebt gedaan",
            "maak ongedaan wat je sinds mijn laatste bericht hebt gedaan",
            "maak je wijzigingen ongedaan",
            "maak je laatste wijzigingen ongedaan",
            "draai dat terug",
            "draai het terug",
            "draai je wijzigingen terug",
            "draai je laatste wijzigingen terug",
            "ga terug naar vóór mijn laatste bericht",
        ],
    ),
    (
        Language::Polish,
        &[
            "cofnij to",
            "cofnij",
            "cofnij swoje zmiany",
            "cofnij swoje ostatnie zmiany",
            "cofnij ostatnie zmiany",
            "cofnij to, co zrobiłeś",
            "cofnij to, co zrobiłaś",
            "cofnij to, co właśnie zrobiłeś",
            "cofnij to, co zrobiłeś od mojej ostatniej wiadomości",
            "cofnij wszystko od mojej ostatniej wiadomości",
            "wycofaj to",
            "wycofaj swoje zmiany",
            "wycofaj swoje ostatnie zmiany",
        ],
    ),
    (
        Language::Russian,
        &[
            "отмени",
            "отмени это",
            "отмени всё это",
            "отмени свои изменения",
            "отмени свои последние изменения",
            "отмени последние изменения",
            "отмени то, что ты сделал",
            "отмени то, что ты только что сделал",
            "отмени всё, что ты сделал",
            "отмени всё, что ты сделал после моего последнего сообщения",
            "отмени то, что ты сделал после моего последнего сообщения",
            "отмени всё после моего последнего сообщения",
            "отмените это",
            "отмените последние изменения",
            "откати это",
            "откати",
            "откати свои изменения",
            "откати последние изменения",
            "откати всё, что ты сделал после моего последнего сообщения",
            "верни как было до моего последнего сообщения",
        ],
    ),
    (
        Language::Ukrainian,
        &[
            "скасуй це",
            "скасуй",
            "скасуй свої зміни",
            "скасуй свої останні зміни",
            "скасуй останні зміни",
            "скасуй те, що ти зробив",
            "скасуй те, що ти щойно зробив",
            "скасуй усе, що ти зробив після мого останнього повідомлення",
            "скасуй те, що ти зробив після мого останнього повідомлення",
            "скасуйте це",
            "відкоти це",
            "відкоти",
            "відкоти свої зміни",
            "відкоти останні зміни",
            "поверни як було до мого останнього повідомлення",
        ],
    ),
    (
        Language::Turkish,
        &[
            "geri al",
            "bunu geri al",
            "şunu geri al",
            "onu geri al",
            "yaptıklarını geri al",
            "az önce yaptığını geri al",
            "az önce yaptıklarını geri al",
            "değişikliklerini geri al",
            "son değişikliklerini geri al",
            "son değişiklikleri geri al",
            "son mesajımdan beri yaptıklarını geri al",
            "son mesajımdan sonra yaptıklarını geri al",
            "son mesajımdan önceye dön",
        ],
    ),
    (
        Language::Chinese,
        &[
            "撤销",
            "撤销这个",
            "撤销刚才的操作",
            "撤销刚才的修改",
            "撤销刚刚的修改",
            "撤销你刚才的修改",
            "撤销你刚才的操作",
            "撤销你刚刚做的修改",
            "撤销你刚才做的",
            "撤销你的修改",
            "撤销你的更改",
            "撤销上一次的修改",
            "撤销我上一条消息之后的修改",
            "撤销我上一条消息之后的所有修改",
            "撤销你在我上一条消息之后做的修改",
            "撤销你在我上一条消息之后做的所有事情",
            "撤回刚才的修改",
            "撤回你刚才的修改",
            "回滚",
            "回滚刚才的修改",
            "回滚你刚才的修改",
            "回退刚才的修改",
            "回到我上一条消息之前",
            "撤銷",
            "撤銷剛才的修改",
            "復原剛才的修改",
            "復原你剛才的修改",
        ],
    ),
    (
        Language::Japanese,
        &[
            "元に戻して",
            "元に戻してください",
            "それを元に戻して",
            "それを元に戻してください",
            "さっきの変更を元に戻して",
            "さっきの変更を元に戻してください",
            "今の変更を元に戻して",
            "今の変更を元に戻してください",
            "直前の変更を元に戻して",
            "直前の変更を元に戻してください",
            "変更を元に戻してください",
            "取り消して",
            "取り消してください",
            "それを取り消して",
            "さっきの変更を取り消して",
            "さっきの変更を取り消してください",
            "私の最後のメッセージ以降の変更を元に戻して",
            "私の最後のメッセージ以降の変更を元に戻してください",
            "私の最後のメッセージの前に戻して",
            "私の最後のメッセージの前に戻してください",
        ],
    ),
    (
        Language::Korean,
        &[
            "되돌려",
            "되돌려줘",
            "되돌려 줘",
            "되돌려주세요",
            "되돌려 주세요",
            "그거 되돌려줘",
            "그거 되돌려 줘",
            "방금 한 거 되돌려줘",
            "방금 한 것 되돌려줘",
            "방금 한 것을 되돌려 줘",
            "방금 한 것을 되돌려 주세요",
            "방금 한 작업 되돌려줘",
            "방금 변경한 내용 되돌려줘",
            "방금 변경한 것을 되돌려 주세요",
            "마지막 변경을 되돌려 주세요",
            "내 마지막 메시지 이후에 한 것을 되돌려줘",
            "내 마지막 메시지 이후의 변경을 되돌려 주세요",
            "내 마지막 메시지 전으로 되돌려줘",
            "실행 취소해줘",
            "실행 취소해 주세요",
        ],
    ),
];

/// Returns the language of a message that as a whole requests to undo the last prompt.
pub(super) fn undo_language(message: &str) -> Option<Language> {
    find_without_politeness(message, |sentence| {
        let found = SENTENCES.iter().find(|(_, sentences)| sentences.contains(&sentence));
        found.map(|(language, _)| *language)
    })
}

/// Calls `find` with a short message, in lowercase and without final punctuation, and then with
/// less and less politeness around it. Returns the first result.
pub(super) fn find_without_politeness<T>(
    message: &str,
    find: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    if message.len() > MAX_BYTES {
        return None;
    }
    let message = message.to_lowercase().replace('\u{2019}', "'");
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut sentence = strip_final_marks(&message);
    loop {
        if let Some(found) = find(sentence) {
            return Some(found);
        }
        let shorter = POLITE_PREFIXES
            .iter()
            .find_map(|word| strip_first_word(sentence, word))
            .or_else(|| POLITE_SUFFIXES.iter().find_map(|word| strip_last_word(sentence, word)));
        sentence = strip_final_marks(shorter?);
    }
}

/// Removes final full stops and exclamation marks.
fn strip_final_marks(text: &str) -> &str {
    text.trim_end_matches(['.', '!', '。', '！', '…']).trim()
}

/// Returns the text after `word` at the start of `text`.
fn strip_first_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(word)?;
    // A comma separates like a space. Chinese needs neither.
    let is_apart = rest.starts_with([' ', ',']) || word.ends_with(['请', '請', '你', '，']);
    is_apart.then(|| rest.trim_start_matches([',', ' ']))
}

/// Returns the text before `word` at the end of `text`.
fn strip_last_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let rest = text.strip_suffix(word)?;
    rest.ends_with([' ', ',']).then(|| rest.trim_end_matches([',', ' ']))
}
