//! The retention plan as data and in words: turns that stay, turns that expire, and the reasons.

use std::collections::BTreeMap;
use std::fmt;

use super::roots::Reason;
use crate::object::ObjectId;

/// The plan of retention: turns that keep their content, and turns that expire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionPlan {
    /// Commits that keep their tree, by session, newest first.
    pub kept: Vec<ObjectId>,
    /// Turns to elide now. Nodes of their trees that kept objects share must stay.
    pub elided: Vec<ElidedTurn>,
    /// Turns that were elided earlier: their tombstones must be preserved.
    pub gone: Vec<ElidedTurn>,
    /// Each session with a policy, by name.
    pub sessions: Vec<SessionPlan>,
    /// Warnings: budgets that cannot be met.
    pub notes: Vec<String>,
}

/// A turn that keeps only its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElidedTurn {
    /// The commit, which stays.
    pub commit: ObjectId,
    /// The tree, which is elided.
    pub tree: ObjectId,
    /// The session of the turn.
    pub session: String,
    /// The number of the turn.
    pub turn: u64,
}

/// The plan for one session. `Display` describes it in words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionPlan {
    /// The name of the session.
    pub session: String,
    /// Turns that keep their content.
    pub kept: u64,
    /// Turns that expire now.
    pub expiring: u64,
    /// Turns that expired earlier.
    pub expired: u64,
    /// The oldest and the newest turn that expire now.
    pub span: Option<(u64, u64)>,
    /// The kept turns between these two by their strongest reason, and kept turns outside of that
    /// range that no rule of the policy keeps.
    pub spared: BTreeMap<Keep, u64>,
    /// The part of `describe_kept` outside of that range.
    pub beyond: BTreeMap<Keep, u64>,
    /// The bytes of everything that stays in a pack, if measured for a budget.
    pub bytes: Option<u64>,
}

/// The reason why a turn stays, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keep {
    /// It is pinned.
    Pin,
    /// It is tagged.
    Tag,
    /// It is the tip of a branch or of another ref.
    Tip,
    /// Several commits continue it.
    BranchPoint,
    /// A merge joined it.
    Merged,
    /// It is the tip of a branch that was deleted or moved back.
    LostTip,
    /// Undo needs it, or a rollback restored it.
    Undo,
    /// It is among the newest of a line.
    Last,
    /// It is recent enough.
    Within,
    /// A thinning rule selected it.
    Thin,
    /// Its session has no rules.
    Unruled,
    /// It has the same content as a kept turn.
    SameContent,
}

impl Keep {
    /// Returns true if no policy can expire it.
    #[must_use]
    pub fn is_protected(self) -> bool {
        self <= Self::Undo
    }

    /// Returns true if a rule of a policy keeps it, or the absence of rules.
    pub(super) const fn is_ruled(self) -> bool {
        matches!(self, Self::Last | Self::Within | Self::Thin | Self::Unruled)
    }

    /// Returns the name in records, and the singular and plural description of such turns.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Pin => ("pin", "pin", "pins"),
            Self::Tag => ("tag", "tag", "tags"),
            Self::Tip => ("tip", "tip", "tips"),
            Self::BranchPoint => ("branch-point", "branch point", "branch points"),
            Self::Merged => ("merged", "merged turn", "merged turns"),
            Self::LostTip => ("lost-tip", "tip of a lost branch", "tips of lost branches"),
            Self::Undo => ("undo", "turn for undo", "turns for undo"),
            Self::Last => ("last", "among the newest of a branch", "among the newest of a branch"),
            Self::Within => ("within", "recent one", "recent ones"),
            Self::Thin => ("thin", "left by thinning", "left by thinning"),
            Self::Unruled => ("unruled", "other", "others"),
            Self::SameContent => ("same-content", "equal to a kept one", "equal to kept ones"),
        }
    }

    /// Returns the name in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.names().0
    }
}

impl From<&Reason> for Keep {
    fn from(reason: &Reason) -> Self {
        match reason {
            Reason::Pin(_) => Self::Pin,
            Reason::Tag(_) => Self::Tag,
            Reason::Branch(_) | Reason::Head | Reason::Ref(_) | Reason::Policy(_) => Self::Tip,
            Reason::Lost { .. } => Self::LostTip,
            Reason::Operation(_) | Reason::WentBack(_) => Self::Undo,
        }
    }
}

/// A turn that stays.
#[derive(Debug, Clone, Copy)]
pub(in crate::maintenance) struct KeptTurn {
    pub(in crate::maintenance) turn: u64,
    pub(in crate::maintenance) why: Keep,
    /// True if a rule keeps it, possibly among other reasons.
    pub(super) is_ruled: bool,
}

/// The turns of a session, sorted by their fate.
#[derive(Debug, Clone, Default)]
pub(in crate::maintenance) struct SessionTurns {
    /// Turns that stay, newest first.
    pub(in crate::maintenance) kept: Vec<KeptTurn>,
    /// Turns that expire now, newest first.
    pub(in crate::maintenance) expiring: Vec<u64>,
    /// Turns that expired earlier.
    pub(in crate::maintenance) expired: u64,
}

impl SessionTurns {
    pub(in crate::maintenance) fn finish(self, name: &str, bytes: Option<u64>) -> SessionPlan {
        let span = self.expiring.last().copied().zip(self.expiring.first().copied());
        let (mut spared, mut beyond) = (BTreeMap::new(), BTreeMap::new());
        let inside = |turn: u64| span.is_some_and(|(first, last)| (first..=last).contains(&turn));
        for KeptTurn { turn, why, is_ruled } in &self.kept {
            let is_inside = inside(*turn);
            if is_inside || (!is_ruled && why.is_protected()) {
                *spared.entry(*why).or_default() += 1;
            }
            if !is_inside && !is_ruled && why.is_protected() {
                *beyond.entry(*why).or_default() += 1;
            }
        }
        SessionPlan {
            session: name.to_owned(),
            kept: self.kept.len() as u64,
            expiring: self.expiring.len() as u64,
            expired: self.expired,
            span,
            spared,
            beyond,
            bytes,
        }
    }
}

impl fmt::Display for SessionPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.kept + self.expiring;
        write!(f, "session {}: ", self.session)?;
        let Some((first, last)) = self.span else {
            write!(
                f,
                "nothing expires, {} of {}",
                WithSeparators(held),
                turns(held + self.expired)
            )?;
            f.write_str(if held == 1 { " stays" } else { " stay" })?;
            return match self.describe_unruled() {
                Some(told) => write!(f, ", {told} among them"),
                None => Ok(()),
            };
        };
        let expire = if self.expiring == 1 { "expires" } else { "expire" };
        write!(f, "{} of {} {expire}", WithSeparators(self.expiring), turns(held))?;
        match first == last {
            true => write!(f, ", turn {}", WithSeparators(first))?,
            false => write!(f, ", turns {} to {}", WithSeparators(first), WithSeparators(last))?,
        }
        let between = self.spared.iter().filter_map(|(why, n)| {
            let beyond = self.beyond.get(why).copied().unwrap_or_default();
            n.checked_sub(beyond).filter(|n| *n > 0).map(|n| (*why, n))
        });
        if let Some(spared) = describe_turns(between) {
            write!(f, " except {spared}")?;
        }
        match self.describe_unruled() {
            Some(told) if self.beyond.values().sum::<u64>() == 1 => {
                write!(f, "; {told} also stays")
            }
            Some(told) => write!(f, "; {told} also stay"),
            None => Ok(()),
        }
    }
}

impl SessionPlan {
    /// Describes the turns that no rule keeps. Omits the tips of branches as obvious.
    fn describe_unruled(&self) -> Option<String> {
        let told = self.beyond.iter().filter(|(why, _)| **why != Keep::Tip);
        describe_turns(told.map(|(why, n)| (*why, *n)))
    }
}

fn describe_turns(turns: impl Iterator<Item = (Keep, u64)>) -> Option<String> {
    let spared: Vec<String> = turns.map(|(why, n)| describe_kept(why, n)).collect();
    match spared.split_last()? {
        (last, []) => Some(last.clone()),
        (last, others) => Some(format!("{} and {last}", others.join(", "))),
    }
}

fn turns(n: u64) -> String {
    format!("{} turn{}", WithSeparators(n), if n == 1 { "" } else { "s" })
}

fn describe_kept(why: Keep, n: u64) -> String {
    let (_, one, many) = why.names();
    format!("{} {}", WithSeparators(n), if n == 1 { one } else { many })
}

/// A number with thousands separators.
pub(in crate::maintenance) struct WithSeparators(pub(in crate::maintenance) u64);

impl fmt::Display for WithSeparators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 1000, self.0 % 1000) {
            (0, rest) => write!(f, "{rest}"),
            (thousands, rest) => write!(f, "{},{rest:03}", Self(thousands)),
        }
    }
}
