//! Records of loops in the last turns.

use schemars::JsonSchema;
use serde::Serialize;
use turntree_exchange::{Sign, SpiralReport as Found};

/// `spiral`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SpiralRecord {
    pub(crate) verdict: &'static str,
    /// The newest equal calls in a row.
    pub(crate) streak: Option<Streak>,
    /// Signs in the content of files.
    pub(crate) signs: Vec<SpiralSign>,
    /// The turn before the loop.
    pub(crate) rollback_to: Option<u64>,
}

impl SpiralRecord {
    pub(crate) fn new(found: &Found) -> Self {
        let sign = |sign: &Sign| SpiralSign {
            kind: sign.kind.name(),
            verdict: sign.verdict.name(),
            path: sign.path.clone(),
            turns: sign.turns.clone(),
        };
        Self {
            verdict: found.verdict.name(),
            streak: found.streak.as_ref().map(|streak| Streak {
                verdict: streak.verdict.name(),
                tool: streak.tool.clone(),
                signature: streak.signature.clone(),
                turns: streak.turns.clone(),
            }),
            signs: found.signs.iter().map(sign).collect(),
            rollback_to: found.rollback_to,
        }
    }
}

/// Equal calls in a row.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Streak {
    pub(crate) verdict: &'static str,
    pub(crate) tool: String,
    pub(crate) signature: String,
    pub(crate) turns: Vec<u64>,
}

/// A sign in the content of files.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SpiralSign {
    pub(crate) kind: &'static str,
    pub(crate) verdict: &'static str,
    /// The file, if it is about one.
    pub(crate) path: Option<String>,
    pub(crate) turns: Vec<u64>,
}
