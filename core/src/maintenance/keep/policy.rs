//! Policies: the rules by which retention keeps turns of a session, as a small JSON blob behind a
//! ref.
//!
//! ```text
//! refs/retention/<session>   the policy of one session
//! refs/retention-default     the policy of every session without its own
//!
//! {"version":1,"keep_last":100,"keep_within_micros":2592000000000,"thin":["every:10"],"budget_bytes":200000000}
//! ```
//!
//! A policy is an object behind a ref, so it is part of the operation log: the log records its
//! author and time, and it can be undone. Specified in `format-spec/retention.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::object::{Kind, ObjectId, ObjectSink, ObjectSource, RefValue};
use crate::repo::{BranchName, Transaction, decode_versioned};
use crate::store::{Expected, RefTable};

/// The ref of the policy of every session without its own.
pub(crate) const DEFAULT_POLICY_REF: &str = "refs/retention-default";

const POLICIES: &str = "refs/retention/";
/// The version of a policy with rules that the first one did not have.
const VERSION: u64 = 2;
const FIRST_VERSION: u64 = 1;
/// The maximum number of thinning rules of one policy.
const MAX_THIN: usize = 16;

const MICROS_PER_HOUR: i64 = 60 * 60 * 1_000_000;

/// The rules that keep turns of a session. A turn stays if any rule keeps it; the budget then
/// elides the oldest.
///
/// Without rules every turn stays, or as many of the newest as fit into the budget.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The number of newest turns to keep on the line of each branch; pinned turns stay in
    /// addition.
    pub keep_last: Option<u64>,
    /// The age in microseconds up to which turns stay.
    pub keep_within: Option<i64>,
    /// The rules that keep some of the older turns.
    pub thin: Vec<Thin>,
    /// The maximum size of a pack with the kept content of the session, in bytes.
    pub budget_bytes: Option<u64>,
    /// The age of its newest turn, in microseconds, from which on the session expires as a whole.
    pub expire_session: Option<i64>,
    /// True if nothing stays only for undo.
    pub strict: bool,
}

/// A rule that thins turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Thin {
    /// Keeps turns whose number this divides.
    Every(u64),
    /// Keeps the newest turn of each hour, in UTC.
    Hourly,
    /// Keeps the newest turn of each day, in UTC.
    Daily,
}

/// The scope of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Every session without a policy of its own.
    Default,
    /// One session, which need not exist yet.
    Session(&'a str),
}

/// Every policy of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policies {
    /// The policy of sessions without their own.
    pub default: Option<Policy>,
    /// Policies by session.
    pub sessions: BTreeMap<String, Policy>,
}

/// The stored form of a policy, its fields in this order.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPolicy {
    version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep_last: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keep_within_micros: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    thin: Vec<Thin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    budget_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expire_session_micros: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

impl Policy {
    /// Returns true if it has a rule that keeps turns; a budget alone is not a rule.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.keep_last.is_some() || self.keep_within.is_some() || !self.thin.is_empty()
    }

    /// Returns the bytes to store.
    ///
    /// # Errors
    /// `InvalidInput` for a zero or negative number, or too many rules.
    pub fn encode(&self) -> Result<Vec<u8>> {
        self.check().map_err(|found| Error::invalid(format!("retention policy: {found}")))?;
        let Self { keep_last, keep_within, thin, budget_bytes, expire_session, strict } =
            self.clone();
        let is_first = expire_session.is_none() && !strict;
        let stored = StoredPolicy {
            version: if is_first { FIRST_VERSION } else { VERSION },
            keep_last,
            keep_within_micros: keep_within,
            thin,
            budget_bytes,
            expire_session_micros: expire_session,
            strict,
        };
        serde_json::to_vec(&stored)
            .map_err(|source| Error::invalid("retention policy").with_source(source))
    }

    /// Decodes a policy.
    ///
    /// # Errors
    /// `Unsupported` for a newer version; `Corrupt` for anything that [`Policy::encode`] would not
    /// write: an ambiguous policy must not cause turns to expire.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "retention policy";
        let stored: StoredPolicy = decode_versioned(WHAT, VERSION, bytes)?;
        let StoredPolicy { keep_last, thin, budget_bytes, strict, .. } = stored;
        let keep_within = stored.keep_within_micros;
        let expire_session = stored.expire_session_micros;
        let policy = Self { keep_last, keep_within, thin, budget_bytes, expire_session, strict };
        policy.check().map_err(|found| Error::corrupt(WHAT, "numbers of 1 or more", found))?;
        if policy.encode()? != bytes {
            return Err(Error::malformed(WHAT, "the bytes that would be written"));
        }
        Ok(policy)
    }

    /// Refuses rules that make no sense.
    fn check(&self) -> Result<(), String> {
        let zero = [
            ("keep_last", self.keep_last == Some(0)),
            ("keep_within", self.keep_within.is_some_and(|micros| micros <= 0)),
            ("thin", self.thin.contains(&Thin::Every(0))),
            ("budget_bytes", self.budget_bytes == Some(0)),
            ("expire_session", self.expire_session.is_some_and(|micros| micros <= 0)),
        ];
        match zero.iter().find(|(_, is_zero)| *is_zero) {
            Some((rule, _)) => Err(format!("{rule} must be above zero")),
            None if self.thin.len() > MAX_THIN => {
                Err(format!("{} thinning rules: expected at most {MAX_THIN}", self.thin.len()))
            }
            None => Ok(()),
        }
    }
}

impl Thin {
    /// Returns the divisor of turn numbers, for rules of number.
    pub(super) const fn divisor(self) -> Option<u64> {
        match self {
            Self::Every(k) => Some(k),
            Self::Hourly | Self::Daily => None,
        }
    }

    /// Returns the period in microseconds of which one turn stays, for rules of time.
    pub(in crate::maintenance) const fn period(self) -> Option<i64> {
        match self {
            Self::Every(_) => None,
            Self::Hourly => Some(MICROS_PER_HOUR),
            Self::Daily => Some(24 * MICROS_PER_HOUR),
        }
    }
}

impl fmt::Display for Thin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(k) => write!(f, "every:{k}"),
            Self::Hourly => f.write_str("hourly"),
            Self::Daily => f.write_str("daily"),
        }
    }
}

impl FromStr for Thin {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, text.strip_prefix("every:").map(str::parse)) {
            ("hourly", _) => Ok(Self::Hourly),
            ("daily", _) => Ok(Self::Daily),
            (_, Some(Ok(k))) if k > 0 => Ok(Self::Every(k)),
            _ => Err(Error::invalid(format!("'{text}': expected every:<n>, hourly or daily"))),
        }
    }
}

impl TryFrom<String> for Thin {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Thin> for String {
    fn from(thin: Thin) -> Self {
        thin.to_string()
    }
}

impl Scope<'_> {
    /// Returns the full name of the ref of the policy.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid name of a session.
    pub fn ref_name(self) -> Result<String> {
        match self {
            Self::Default => Ok(DEFAULT_POLICY_REF.to_owned()),
            Self::Session(session) => {
                BranchName::main(session)?;
                Ok(format!("{POLICIES}{session}"))
            }
        }
    }
}

impl Policies {
    /// Loads the policies that `refs` name. Reads one object per policy.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt` or `Unsupported`, naming the ref: nothing may expire while a policy
    /// cannot be read.
    pub fn load(source: &dyn ObjectSource, refs: &RefTable) -> Result<Self> {
        let mut policies = Self::default();
        for (name, value) in refs.values.iter() {
            let session = name.strip_prefix(POLICIES);
            if session.is_none() && name != DEFAULT_POLICY_REF {
                continue;
            }
            let policy = read(source, name, value)?;
            match session {
                Some(session) => _ = policies.sessions.insert(session.to_owned(), policy),
                None => policies.default = Some(policy),
            }
        }
        Ok(policies)
    }

    /// Returns true if no session has a policy.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.default.is_none() && self.sessions.is_empty()
    }

    /// Returns true if a session has a budget.
    #[must_use]
    pub(in crate::maintenance) fn has_budget(&self) -> bool {
        let mut policies = self.default.iter().chain(self.sessions.values());
        policies.any(|policy| policy.budget_bytes.is_some())
    }

    /// Returns the policy of `session`: its own, or the default.
    #[must_use]
    pub fn of(&self, session: &str) -> Option<&Policy> {
        self.sessions.get(session).or(self.default.as_ref())
    }

    /// Returns the same policies, all of them strict.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.default.iter_mut().chain(self.sessions.values_mut()).for_each(|it| it.strict = true);
        self
    }
}

/// Sets the policy of a session, or the default policy. It takes effect with the next collection.
///
/// # Errors
/// `InvalidInput` for an invalid policy or name.
pub fn set_policy(change: &mut Transaction<'_>, scope: Scope<'_>, policy: &Policy) -> Result<()> {
    let name = scope.ref_name()?;
    let id = change.write(Kind::Blob, policy.encode()?.into())?;
    change.set_ref(&name, Expected::Any, Some(RefValue::Object(id)));
    Ok(())
}

/// Removes the policy of a session, or the default policy. Turns that it expired stay expired.
///
/// # Errors
/// `InvalidInput` for an invalid name of a session.
pub fn remove_policy(change: &mut Transaction<'_>, scope: Scope<'_>) -> Result<()> {
    change.set_ref(&scope.ref_name()?, Expected::Any, None);
    Ok(())
}

fn read(source: &dyn ObjectSource, name: &str, value: &RefValue) -> Result<Policy> {
    let id: &ObjectId = match value {
        RefValue::Object(id) => id,
        RefValue::Symbolic(_) => return Err(Error::corrupt(name, "a policy", "a symbolic ref")),
    };
    let policy = source.read_as(Kind::Blob, id).and_then(|bytes| Policy::decode(&bytes));
    policy.map_err(|error| error.at(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorKind;

    fn any_thin() -> impl Strategy<Value = Thin> {
        prop_oneof![(1..=u64::MAX).prop_map(Thin::Every), Just(Thin::Hourly), Just(Thin::Daily)]
    }

    fn any_policy() -> impl Strategy<Value = Policy> {
        let numbers = prop::option::of(1..=u64::MAX);
        let thin = prop::collection::vec(any_thin(), 0..4);
        let age = prop::option::of(1..=i64::MAX);
        let rest = (prop::option::of(1..=i64::MAX), any::<bool>());
        (numbers.clone(), age, thin, numbers, rest).prop_map(
            |(keep_last, keep_within, thin, budget_bytes, (expire_session, strict))| Policy {
                keep_last,
                keep_within,
                thin,
                budget_bytes,
                expire_session,
                strict,
            },
        )
    }

    turntree_properties::properties! {
        #[test]
        fn a_policy_round_trips_and_nothing_else_is_accepted(
            policy in any_policy(), at: prop::sample::Index, byte: u8,
        ) {
            let mut bytes = policy.encode().unwrap();
            prop_assert_eq!(&Policy::decode(&bytes).unwrap(), &policy);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(decoded) = Policy::decode(&bytes) {
                prop_assert_eq!(decoded.encode().unwrap(), bytes);
            }
        }
    }

    #[test]
    fn the_stored_form_is_pinned() {
        let policy = Policy {
            keep_last: Some(100),
            keep_within: Some(30 * 24 * MICROS_PER_HOUR),
            thin: vec![Thin::Every(10), Thin::Hourly],
            budget_bytes: Some(200_000_000),
            ..Policy::default()
        };
        let stored = r#"{"version":1,"keep_last":100,"keep_within_micros":2592000000000,"thin":["every:10","hourly"],"budget_bytes":200000000}"#;
        assert_eq!(policy.encode().unwrap(), stored.as_bytes());
        assert_eq!(Policy::default().encode().unwrap(), br#"{"version":1}"#);
        let second = Policy {
            keep_last: Some(5),
            expire_session: Some(1),
            strict: true,
            ..Policy::default()
        };
        let stored = r#"{"version":2,"keep_last":5,"expire_session_micros":1,"strict":true}"#;
        assert_eq!(second.encode().unwrap(), stored.as_bytes());
    }

    #[test]
    fn what_is_not_a_policy_is_refused_with_its_kind() {
        for (bytes, kind) in [
            (r#"{"version":3,"keep_first":1}"#, ErrorKind::Unsupported),
            (r#"{"version":1,"strict":true}"#, ErrorKind::Corrupt),
            (r#"{"version":2,"keep_last":1}"#, ErrorKind::Corrupt),
            (r#"{"version":2,"strict":false}"#, ErrorKind::Corrupt),
            (r#"{"version":1,"keep_first":1}"#, ErrorKind::Corrupt),
            (r#"{"version":1,"keep_last":0}"#, ErrorKind::Corrupt),
            (r#"{"version":1,"keep_last":-1}"#, ErrorKind::Corrupt),
            (r#"{"version":1,"keep_last":1,"keep_last":2}"#, ErrorKind::Corrupt),
            (r#"{"version":1,"thin":["weekly"]}"#, ErrorKind::Corrupt),
            (r#"{"version":1,"thin":["every:0"]}"#, ErrorKind::Corrupt),
            (r#"{"version": 1}"#, ErrorKind::Corrupt),
            (r#"{"keep_last":1}"#, ErrorKind::Corrupt),
            ("[]", ErrorKind::Corrupt),
            ("", ErrorKind::Corrupt),
        ] {
            assert_eq!(Policy::decode(bytes.as_bytes()).unwrap_err().kind(), kind, "{bytes}");
        }
        let zero = Policy { keep_last: Some(0), ..Policy::default() };
        assert_eq!(zero.encode().unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
