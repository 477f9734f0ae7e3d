//! Calls to the disk fail: any call, with any error, after any part of a write; or the disk is full
//! for some time. Acknowledged changes stay, even if the machine crashes afterwards.
//!
//! A trace runs once for each call that fails. Then the disk, and images of it after a crash, are
//! checked against the promise. Later calls work, so the processes must then succeed.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use turntree::maintenance::Purpose;
use turntree::store::Tier;

use super::crashes::{Trace, in_parallel};
use super::{Effort, Figures};
use crate::oracle::{Promise, Script, Sessions, Step, Witness};
use crate::sim::{Failure, Fault, Keep, Random, SimDisk};

/// The failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The n-th call fails.
    Call(u64, Failure),
    /// The disk is full from the first of these steps to the second.
    Full(usize, usize),
}

/// Runs the layer.
///
/// # Panics
/// If a promise is broken.
#[must_use]
pub fn run(effort: &Effort) -> Figures {
    let mut jobs = Vec::new();
    for (trace, one_in) in traces(effort.seed, effort.scale) {
        let (disk, witness) = trace.begin();
        trace.go_on(&disk, &witness);
        let mut random = Random(trace.seed());
        for call in 1..=disk.calls().0 {
            if random.below(one_in) == 0 {
                jobs.push((trace.clone(), Trouble::Call(call, draw(&mut random))));
            }
        }
    }
    for number in 0..4 * effort.scale {
        let sessions = Sessions::drawn(effort.seed + (2 << 32) + number, 120);
        jobs.push((Trace::Sessions(sessions), Trouble::Full(40, 70)));
    }
    let (failed, images) = (AtomicU64::new(0), AtomicU64::new(0));
    in_parallel(&jobs, |(trace, trouble)| {
        let checked = catch_unwind(AssertUnwindSafe(|| repeat(trace, *trouble)));
        let Ok(checked) = checked else { panic!("{trouble:?} in {trace:?} broke the promise") };
        failed.fetch_add(1, Ordering::Relaxed);
        images.fetch_add(checked, Ordering::Relaxed);
    });
    let mut figures = Figures::default();
    figures.add("failed calls", failed.into_inner());
    figures.add("crash images checked", images.into_inner());
    figures
}

/// Traces, each with `n` if one in `n` of its calls fails.
fn traces(seed: u64, scale: u64) -> Vec<(Trace, usize)> {
    let writers = |phases: &[usize], commits, seed, packs| {
        Trace::Writers(Script { phases: phases.to_vec(), commits, seed, packs })
    };
    let mut traces = vec![
        (writers(&[1, 1], 4, 1, false), 1),
        (writers(&[2, 1], 4, 2, false), 2),
        (writers(&[8, 1, 2], 1, 3, false), 4),
        (writers(&[1, 1], 3, 4, true), 2),
    ];
    // Handles that stay open read one another's segments repeatedly.
    let steps = (0..12).map(|number| (number % 3, Step::Turn(number as usize % 4))).collect();
    traces.push((Trace::Sessions(Sessions { seed, steps }), 2));
    let steps = [
        (0, Step::Turn(0)),
        (1, Step::Collect(Purpose::Gc)),
        (0, Step::Turn(0)),
        (0, Step::Close),
        (2, Step::Collect(Purpose::Repack(Tier::Compacted))),
        (1, Step::Repair),
        (1, Step::Pin(0)),
        (2, Step::Redact),
        (0, Step::Turn(1)),
    ];
    let without_ids = [
        (0, Step::ArchiveWithoutIds),
        (0, Step::ArchiveWithoutIds),
        (0, Step::Turn(0)),
        (1, Step::Turn(1)),
        (2, Step::Redact),
        (1, Step::Turn(0)),
    ];
    let without_ids = Sessions { seed, steps: without_ids.to_vec() };
    traces.push((Trace::Later(40, without_ids), 4));
    for number in 0..2 * scale {
        let sessions = Sessions { seed: seed + number, steps: steps.to_vec() };
        traces.push((Trace::Later(40, sessions), 8));
        let sessions = Sessions::drawn(seed + (1 << 32) + number, 60);
        traces.push((Trace::Later(40, sessions), 60));
    }
    traces
}

fn draw(random: &mut Random) -> Failure {
    let error = [ErrorKind::Other, ErrorKind::StorageFull][random.below(2)];
    let part = u16::try_from(random.below(257)).unwrap();
    let written = [0, part, part, 256][random.below(4)];
    Failure { error, written, forgets: random.below(4) == 0 }
}

/// Runs a trace with this failure. Returns the number of images that kept the promise.
///
/// # Panics
/// If an image does not.
pub fn repeat(trace: &Trace, trouble: Trouble) -> u64 {
    let (disk, witness) = trace.begin();
    witness.tell(|promise| promise.may_fail = true);
    let triggered = match trouble {
        Trouble::Call(call, failure) => {
            disk.fail_with(failure);
            disk.arm(Fault::FailAt(call));
            trace.go_on(&disk, &witness);
            disk.triggered()
        }
        Trouble::Full(from, to) => {
            run_full(trace, &disk, &witness, from..to);
            true
        }
    };
    disk.arm(Fault::None);
    let mut promise = witness.promise();
    promise.may_fail = false;
    assert!(triggered, "the call is made");
    // If readers lose data too, a handle that has seen it cannot continue.
    let goes_on = !matches!(trouble, Trouble::Call(_, Failure { forgets: true, .. }));
    if goes_on && matches!(trace, Trace::Writers(_)) {
        assert!(promise.errors.len() <= 2, "later calls work: {:?}", promise.errors);
    }
    check(&disk, &promise)
}

fn run_full(trace: &Trace, disk: &SimDisk, witness: &Witness, full: std::ops::Range<usize>) {
    let Trace::Sessions(sessions) = trace else { panic!("only sessions run while a disk is full") };
    let part = |range: std::ops::Range<usize>, seed: u64| Sessions {
        seed: sessions.seed + (seed << 40),
        steps: sessions.steps.get(range).unwrap_or_default().to_vec(),
    };
    part(0..full.start, 1).run(disk, witness);
    disk.arm(Fault::DiskFull);
    part(full.clone(), 2).go_on(disk, witness);
    disk.arm(Fault::None);
    part(full.end..sessions.steps.len(), 3).go_on(disk, witness);
}

/// Checks the disk after crashes, and finally without one.
fn check(disk: &SimDisk, promise: &Promise) -> u64 {
    let mut random = Random(disk.calls().0 ^ 0xfa11);
    let some = [Keep::Some(random.draw() >> 32), Keep::Some(random.draw() >> 32)];
    let keeps = [Keep::Nothing, Keep::All].into_iter().chain(some);
    let images = keeps.map(|keep| promise.check(&disk.crash(keep))).count();
    promise.check_as_it_is(disk);
    images as u64 + 1
}
