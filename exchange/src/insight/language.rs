//! The languages of user messages, and the question that users are asked in each.

/// A language in which rollback requests are recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Language {
    English,
    German,
    French,
    Spanish,
    Portuguese,
    Italian,
    Dutch,
    Polish,
    Russian,
    Ukrainian,
    Turkish,
    Chinese,
    Japanese,
    Korean,
}

impl Language {
    /// Returns the language of a locale such as `de_DE.UTF-8`. English if unknown.
    #[must_use]
    pub fn of_locale(locale: &str) -> Self {
        match locale.split(['_', '-', '.', '@']).next().unwrap_or_default() {
            "de" => Self::German,
            "fr" => Self::French,
            "es" => Self::Spanish,
            "pt" => Self::Portuguese,
            "it" => Self::Italian,
            "nl" => Self::Dutch,
            "pl" => Self::Polish,
            "ru" => Self::Russian,
            "uk" => Self::Ukrainian,
            "tr" => Self::Turkish,
            "zh" => Self::Chinese,
            "ja" => Self::Japanese,
            "ko" => Self::Korean,
            _ => Self::English,
        }
    }

    /// Returns the question after a rollback: what the agent should do differently.
    #[must_use]
    pub const fn follow_up_question(self) -> &'static str {
        match self {
            Self::English => "What should the agent do differently this time?",
            Self::German => "Was soll der Agent diesmal anders machen?",
            Self::French => "Que doit faire l'agent différemment cette fois ?",
            Self::Spanish => "¿Qué debe hacer el agente de otra manera esta vez?",
            Self::Portuguese => "O que o agente deve fazer de diferente desta vez?",
            Self::Italian => "Che cosa deve fare diversamente l'agente questa volta?",
            Self::Dutch => "Wat moet de agent deze keer anders doen?",
            Self::Polish => "Co agent ma tym razem zrobić inaczej?",
            Self::Russian => "Что агенту сделать иначе на этот раз?",
            Self::Ukrainian => "Що агентові зробити інакше цього разу?",
            Self::Turkish => "Ajan bu sefer neyi farklı yapmalı?",
            Self::Chinese => "这一次，智能体应该怎样做得不同？",
            Self::Japanese => "今回、エージェントは何を変えるべきですか？",
            Self::Korean => "이번에는 에이전트가 무엇을 다르게 해야 할까요?",
        }
    }
}
