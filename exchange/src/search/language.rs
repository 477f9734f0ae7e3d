//! Languages: the words of a question that carry nothing, and other forms of a word.

use rust_stemmers::{Algorithm, Stemmer};

/// A language, as far as a search knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Language {
    algorithm: Algorithm,
    /// Words that carry nothing in a question, without accents, sorted in no order.
    empty_words: &'static str,
}

/// One word of a language in a query is no sign of it: `die hard` is English.
const MIN_EMPTY_WORDS: usize = 2;

/// The known languages. The first one is assumed if the words of a query decide nothing.
const LANGUAGES: [Language; 8] = [
    Language {
        algorithm: Algorithm::English,
        empty_words: "a about above after again against all am an and any are aren as at be because \
            been before being below between both but by can cannot could couldn did didn do does \
            doesn doing don down during each else ever few for from further get gets getting got \
            had hadn has hasn have haven having he her here hers herself him himself his how i if \
            in into is isn it its itself just let ll may me might mine more most much must my \
            myself never no nor not of off on once one only or other others our ours ourselves out \
            over own please re really s same shall she should shouldn so some something such t \
            than that the their theirs them themselves then there these they thing things this \
            those through to too under until up us ve very was wasn we were weren what when where \
            whether which while who whom whose why will with within without won would wouldn you \
            your yours yourself yourselves",
    },
    Language {
        algorithm: Algorithm::German,
        empty_words: "aber alle als am an auch auf aus bei beim bin bis bist da damit dann das dass \
            dein dem den denn der des dich die dies diese diesem diesen dieser dieses doch dort du \
            durch ein eine einem einen einer eines er es euch fur habe haben hat hatte hier ich ihr \
            ihm ihn im in ins ist ja kann kein keine man mein meine mich mir mit nach nicht noch \
            nun nur ob oder ohne schon sein seine sich sie sind so soll sollte uber um und uns \
            unser unter vom von vor wann war waren warum was weil welche welcher wenn wer werden \
            wie wieder wir wird wo wurde zu zum zur",
    },
    Language {
        algorithm: Algorithm::French,
        empty_words: "a ai aux avec avons c ce ces cet cette comment d dans de des donc du elle en \
            est et etait etre fait faire il ils j je l la le les leur lui m ma mais me mes moi mon \
            n ne nos notre nous on ont ou par pas peut plus pour pourquoi qu quand que quel quelle \
            qui quoi s sa se ses si son sont sur t ta te tes toi ton tu un une vos votre vous y",
    },
    Language {
        algorithm: Algorithm::Spanish,
        empty_words: "a al algo como con cual cuando de del desde donde el ella en era es esa ese eso \
            esta este esto fue ha hay la las le lo los mas me mi muy no nos o para pero por porque \
            que quien se ser si sin sobre son su sus te tiene tu un una y ya yo",
    },
    Language {
        algorithm: Algorithm::Portuguese,
        empty_words: "a ao aos as com como da das de do dos e ela ele em era essa esse esta este eu \
            foi ha isso isto ja la mais mas me meu minha na nao nas no nos o onde os ou para pela \
            pelo por porque qual quando que quem se sem ser seu sua so tem um uma voce",
    },
    Language {
        algorithm: Algorithm::Italian,
        empty_words: "a ai al alla anche c che chi ci come con cosa cui da dal dalla dei del della di \
            dove e ed era gli ha hanno ho i il in io l la le lo loro ma mi mio ne nei nel nella non \
            o per perche piu quale quando quello questa questo se si sono su sua suo tra tu un una \
            uno",
    },
    Language {
        algorithm: Algorithm::Dutch,
        empty_words: "aan al alle als bij dan dat de der die dit door een en er ge geen had heb hebben \
            heeft het hij hoe ik in is je kan maar me met mijn na naar niet nog nu of om ons ook op \
            over te tot uit van veel voor waar waarom was wat we wel welke werd wie wij worden zal \
            ze zich zijn zo",
    },
    Language {
        algorithm: Algorithm::Russian,
        empty_words: "а без был была были было быть в во вот все всех вы где да для до его ее если есть \
            же за и из или им их к как когда кто ли мне мои мы на над не него нее нет ни но о об он \
            она они от по под почему при с со так там то того тоже только ты у уже чем что чтобы \
            это этот я",
    },
];

impl Language {
    /// Returns the language of the words of a query: the one with most empty words among them, and
    /// at least two.
    pub(super) fn of(words: &[&str]) -> Self {
        let [first, others @ ..] = LANGUAGES;
        let count = |language: &Self| words.iter().filter(|word| language.is_empty(word)).count();
        let is_russian = words.iter().any(|word| word.chars().any(|c| ('а'..='я').contains(&c)));
        let mut best = (count(&first), first);
        for language in others {
            let is_written = is_russian && language.algorithm == Algorithm::Russian;
            let found = (count(&language) + usize::from(is_written), language);
            if found.0 > best.0 && (found.0 >= MIN_EMPTY_WORDS || is_written) {
                best = found;
            }
        }
        best.1
    }

    /// Returns true for a word that carries nothing in a question.
    pub(super) fn is_empty(self, word: &str) -> bool {
        self.empty_words.split_ascii_whitespace().any(|empty| empty == word)
    }

    /// Returns the stem of a word, which its other forms share.
    pub(super) fn stem(self, word: &str) -> String {
        Stemmer::create(self.algorithm).stem(word).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(question: &str) -> Vec<&str> {
        let words: Vec<&str> = question.split(' ').collect();
        let language = Language::of(&words);
        words.into_iter().filter(|word| !language.is_empty(word)).collect()
    }

    #[test]
    fn the_words_of_a_question_decide_its_language() {
        for (question, expected) in [
            ("why do the tests fail", "tests fail"),
            ("warum schlagen die tests fehl", "schlagen tests fehl"),
            ("pourquoi les tests sont rouges", "tests rouges"),
            ("почему тесты не проходят", "тесты проходят"),
            ("die hard", "die hard"),
            ("retry budget", "retry budget"),
        ] {
            assert_eq!(kept(question).join(" "), expected, "{question}");
        }
    }

    #[test]
    fn forms_of_a_word_share_a_stem() {
        let english = Language::of(&["the"]);
        for [one, other] in [["tests", "testing"], ["retries", "retry"], ["binaries", "binary"]] {
            assert_eq!(english.stem(one), english.stem(other));
        }
        let german = Language::of(&["warum", "die"]);
        assert_eq!(german.stem("fehlern"), german.stem("fehler"));
    }
}
