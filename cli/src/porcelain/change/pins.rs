//! Pins: adds, removes and lists them.

use turntree::object::Time;
use turntree::repo::{NewPin, Pin, Repository, Signature, Transaction, pin_ref};
use turntree::{Error, ErrorKind};

use crate::porcelain::read::revision::resolve;
use crate::program::invocation::stamp;
use crate::view::advice::Advice;
use crate::view::clock;
use crate::view::error::{Failure, Hint, Result};
use crate::view::json;
use crate::view::moment::parse_moment;
use crate::view::units::parse_duration;

/// A pin to add.
#[derive(Debug)]
pub(crate) struct PinRequest<'a> {
    pub(crate) revision: &'a str,
    /// The name of the pin; by default the short id of the snapshot.
    pub(crate) name: Option<&'a str>,
    pub(crate) reason: &'a str,
    /// A duration or a time; without it the pin does not expire.
    pub(crate) expires: Option<&'a str>,
}

/// The advice on existing pins.
fn listing() -> Advice {
    Advice::new(
        "'turntree pins' shows them, 'turntree unpin' removes one",
        "action = list lists the pins, remove removes one",
    )
}

/// Pins a snapshot; returns the pin, and the current time.
pub(crate) fn add(repo: &Repository, request: &PinRequest<'_>) -> Result<(Pin, Time)> {
    let stamp = stamp()?;
    let (change, pin) = stage(repo, request, &stamp)?;
    change.commit(&stamp, &format!("pin {}", pin.name))?;
    Ok((pin, stamp.time))
}

/// Pins a snapshot in a transaction, without committing it.
pub(crate) fn stage<'r>(
    repo: &'r Repository,
    request: &PinRequest<'_>,
    stamp: &Signature,
) -> Result<(Transaction<'r>, Pin)> {
    let id = resolve(repo, request.revision)?.commit;
    let expires = request.expires.map(|text| expiry(text, stamp.time)).transpose()?;
    if let Some(name) = request.name {
        pin_ref(name)?;
    }
    let new = NewPin {
        name: request.name.map(ToOwned::to_owned),
        reason: request.reason.to_owned(),
        expires_micros: expires,
    };
    let mut change = repo.begin();
    let pin = change.pin(&id, new, stamp).hint(ErrorKind::InvalidInput, listing())?;
    Ok((change, pin))
}

/// Removes the pin of this name, otherwise every pin on the snapshot of this name; returns them.
pub(crate) fn remove(repo: &Repository, name: &str) -> Result<Vec<Pin>> {
    let found = find(repo, name)?;
    let mut change = repo.begin();
    for pin in &found {
        change.unpin(&pin.name)?;
    }
    change.commit(&stamp()?, &format!("unpin {name}"))?;
    Ok(found)
}

/// The pins with their records, optionally only pins on snapshots of a session.
pub(crate) fn list(
    repo: &Repository,
    session: Option<&str>,
    now: Time,
) -> Result<Vec<(Pin, json::PinRecord)>> {
    let mut shown = Vec::new();
    for pin in repo.pins()? {
        let record = record_of(repo, &pin, now)?;
        if session.is_none() || session == record.session.as_deref() {
            shown.push((pin, record));
        }
    }
    Ok(shown)
}

/// The JSON record of a pin.
pub(crate) fn record_of(repo: &Repository, pin: &Pin, now: Time) -> Result<json::PinRecord> {
    let utc = |micros: i64| clock::rfc3339(Time { micros, offset_minutes: 0 });
    // The turn of an expired pin may have been dropped.
    let commit = repo.commit(&pin.commit);
    let commit = if pin.has_expired(now.micros) { commit.ok() } else { Some(commit?) };
    Ok(json::PinRecord {
        pin: pin.name.clone(),
        id: pin.commit.to_string(),
        session: commit.as_ref().map(|commit| commit.session.clone()),
        turn: commit.as_ref().map(|commit| commit.turn),
        reason: pin.reason.clone(),
        actor: pin.actor.clone(),
        time: utc(pin.time_micros),
        expires: pin.expires_micros.map(utc),
        expired: pin.has_expired(now.micros),
    })
}

/// Finds the pin of this name, otherwise every pin on the snapshot of this name.
pub(crate) fn find(repo: &Repository, name: &str) -> Result<Vec<Pin>> {
    let mut pins = repo.pins()?;
    if let Some(at) = pins.iter().position(|pin| pin.name == name) {
        return Ok(vec![pins.swap_remove(at)]);
    }
    let commit = match resolve(repo, name) {
        Err(failure) if failure.is_not_found() => None,
        found => Some(found?.commit),
    };
    pins.retain(|pin| commit == Some(pin.commit));
    if pins.is_empty() {
        let none = format!("there is no pin '{name}', and none on a snapshot of that name");
        let advice = Advice::new("'turntree pins' lists the pins", "action = list lists the pins");
        return Err(Failure::hinted(Error::not_found(none), advice));
    }
    Ok(pins)
}

/// Parses an expiry: a duration from now, or a time.
fn expiry(text: &str, now: Time) -> Result<i64> {
    let after = |duration: i64| now.micros.checked_add(duration);
    let moment = match parse_duration(text) {
        Ok(duration) => after(duration),
        Err(_) => parse_moment(text, now),
    };
    let moment = moment.ok_or_else(|| {
        Error::invalid(format!("'{text}': expected a duration such as 30d, or a time"))
    })?;
    if moment <= now.micros {
        return Err(Error::invalid(format!("'{text}' is in the past")).into());
    }
    Ok(moment)
}
