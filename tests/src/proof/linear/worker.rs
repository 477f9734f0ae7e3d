//! Workers: random calls, their results, and how a worker process reports them to its parent.
//!
//! ```text
//! committed BEGAN ENDED OPERATION SEQUENCE NAME EXPECTED NEW [NAME EXPECTED NEW]
//! refused   BEGAN ENDED NAME EXPECTED NEW [NAME EXPECTED NEW]
//! read      BEGAN ENDED SEQUENCE [NAME ID]...
//! ```

use std::fmt::Write;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;

use rustix::time::{ClockId, clock_gettime};
use turntree::ErrorKind;
use turntree::object::{Object, ObjectId, RefValue};
use turntree::store::{BatchReport, Committed, Expected, OperationDraft, RealIo, RefUpdate, Store};

use super::history::{Call, Event, Values};
use crate::oracle::{blob, options};
use crate::sim::Random;

/// Few refs and few values, so that races and old values are frequent.
const REFS: [&str; 3] = ["refs/x/a", "refs/x/b", "refs/x/c"];
const BLOBS: usize = 6;

const ANY: &str = "any";
const NOTHING: &str = "-";

/// The main function of a worker process. Its arguments are the store, a seed and a number of
/// calls. It starts when it reads a line.
///
/// # Panics
/// If a call fails in an unexpected way.
pub fn main(arguments: &[String]) {
    let [dir, seed, calls] = arguments else { panic!("a worker has three arguments") };
    let seed = seed.parse().expect("a seed");
    let calls = calls.parse().expect("a number of calls");
    let store = Store::open(Arc::new(RealIo), Path::new(dir), options(seed)).expect("the store");
    io::stdin().lock().read_line(&mut String::new()).expect("a line");
    let lines: Vec<String> = work(&store, seed, calls).iter().map(line).collect();
    println!("{}", lines.join("\n"));
}

/// Makes random calls.
pub(super) fn work(store: &Store, seed: u64, calls: u64) -> Vec<Event> {
    let mut random = Random(seed);
    (0..calls).map(|_| act(store, &mut random)).collect()
}

fn act(store: &Store, random: &mut Random) -> Event {
    match random.below(4) {
        0 => read(store),
        _ => {
            if random.below(2) == 0 {
                store.refresh().expect("readers never wait");
            }
            change(store, random)
        }
    }
}

/// Reads the refs.
pub(super) fn read(store: &Store) -> Event {
    let began = now();
    store.refresh().expect("readers never wait");
    let refs = store.refs();
    let call = Call::Read(refs.sequence, (&refs.values).into());
    Event { began, ended: now(), call }
}

/// A random change that expects the values that this handle saw last.
pub(super) fn change(store: &Store, random: &mut Random) -> Event {
    let first = random.below(REFS.len());
    let count = 1 + usize::from(random.below(4) == 0);
    let (mut changes, mut objects) = (Vec::new(), Vec::new());
    for at in first..first + count {
        let (change, object) = update(store, random, REFS[at % REFS.len()]);
        changes.push(change);
        objects.extend(object);
    }
    let draft = OperationDraft {
        time_micros: 1,
        actor: "worker".into(),
        reason: "race".into(),
        changes: changes.clone(),
        undoes: None,
        joins: Vec::new(),
    };
    let began = now();
    let done = store.commit(objects, &draft);
    let ended = now();
    let call = match done {
        Ok(committed) => Call::Committed(changes, committed),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            Call::Refused(changes)
        }
    };
    Event { began, ended, call }
}

/// A change of one ref, and its new object.
fn update(
    store: &Store,
    random: &mut Random,
    name: &str,
) -> (RefUpdate, Option<(ObjectId, Object)>) {
    let expected = match random.below(10) {
        0 => Expected::Any,
        1 => Expected::Absent,
        2 => Expected::Value(RefValue::Object(value(random).0)),
        _ => store.refs().value(name).cloned().map_or(Expected::Absent, Expected::Value),
    };
    let object = (random.below(8) > 0).then(|| value(random));
    let new = object.as_ref().map(|(id, _)| RefValue::Object(*id));
    (RefUpdate { name: name.to_owned(), expected, new }, object)
}

fn value(random: &mut Random) -> (ObjectId, Object) {
    blob(vec![u8::try_from(random.below(BLOBS)).expect("few"); 40])
}

/// Nanoseconds on the clock that all processes share.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let nanoseconds = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(nanoseconds).expect("a clock that began at 0")
}

fn line(event: &Event) -> String {
    let Event { began, ended, call } = event;
    let mut line = String::new();
    let written = match call {
        Call::Committed(changes, committed) => {
            let Committed { operation, sequence, .. } = committed;
            let words = words(changes);
            write!(line, "committed {began} {ended} {operation} {sequence}{words}")
        }
        Call::Refused(changes) => write!(line, "refused {began} {ended}{}", words(changes)),
        Call::Read(sequence, values) => {
            let value = |(name, value): (&String, &RefValue)| format!(" {name} {}", text(value));
            let values: String = values.iter().map(value).collect();
            write!(line, "read {began} {ended} {sequence}{values}")
        }
    };
    written.expect("text");
    line
}

fn words(changes: &[RefUpdate]) -> String {
    let words = changes.iter().map(|change| {
        let expected = match &change.expected {
            Expected::Any => ANY.to_owned(),
            Expected::Absent => NOTHING.to_owned(),
            Expected::Value(value) => text(value),
        };
        let new = change.new.as_ref().map_or(NOTHING.to_owned(), text);
        format!(" {} {expected} {new}", change.name)
    });
    words.collect()
}

fn text(value: &RefValue) -> String {
    match value {
        RefValue::Object(id) => id.to_string(),
        RefValue::Symbolic(name) => panic!("{name} was never stored"),
    }
}

/// Parses a line of a worker. Returns `None` for other lines.
pub(super) fn parse(line: &str) -> Option<Event> {
    let mut words = line.split(' ');
    let what = words.next()?;
    let (began, ended) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let call = match what {
        "committed" => {
            let operation = words.next()?.parse().ok()?;
            let sequence = words.next()?.parse().ok()?;
            let committed = Committed { operation, sequence, written: BatchReport::default() };
            Call::Committed(parse_changes(words)?, committed)
        }
        "refused" => Call::Refused(parse_changes(words)?),
        "read" => Call::Read(words.next()?.parse().ok()?, parse_values(words)?),
        _ => return None,
    };
    Some(Event { began, ended, call })
}

fn parse_values<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Values> {
    let mut values = Values::new();
    while let Some(name) = words.next() {
        values.insert(name.to_owned(), RefValue::Object(words.next()?.parse().ok()?));
    }
    Some(values)
}

fn parse_changes<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<Vec<RefUpdate>> {
    let mut changes = Vec::new();
    while let Some(name) = words.next() {
        let expected = match words.next()? {
            ANY => Expected::Any,
            NOTHING => Expected::Absent,
            id => Expected::Value(RefValue::Object(id.parse().ok()?)),
        };
        let new = match words.next()? {
            NOTHING => None,
            id => Some(RefValue::Object(id.parse().ok()?)),
        };
        changes.push(RefUpdate { name: name.to_owned(), expected, new });
    }
    Some(changes)
}
