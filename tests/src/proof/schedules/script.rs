//! Scripts: the steps of each process, and the store that they start with.

use std::path::Path;
use std::sync::Arc;

use turntree::context::Builder;
use turntree::maintenance::Purpose;
use turntree::object::ObjectId;
use turntree::repo::{BranchName, Repository, SnapshotDraft};
use turntree::store::{NewStore, Tier};

use crate::oracle::{DIR, options, pack};
use crate::sample::{archive_without_ids, remove_ids};
use crate::sim::{Keep, SimDisk};
use crate::stamp;

/// The text in the notes that a redaction removes.
pub const SECRET: &str = "hunter2";

/// A note in an unreachable object of the store.
pub const GARBAGE: &str = "to which nothing leads";

/// A step of a process.
#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// Creates the store, or finds it existing, and opens it.
    Init,
    /// Reopens the store.
    Open,
    /// Sets a ref to a blob without a condition.
    Put(&'static str, &'static str),
    /// Increments the value of a ref. Retries after a lost race.
    Count(&'static str),
    /// Commits a turn with another note.
    Turn(&'static str, &'static str),
    /// Commits a turn with all content of a garbage commit, without writing it again.
    Revive(&'static str),
    /// Commits a turn whose content is written long before, in two parts.
    Long(&'static str, &'static str),
    /// Like `Long`, with a collection by this process in between.
    LongOver(&'static str, Purpose),
    /// Lets many processes commit a turn, each with its own segment, and end. They are not
    /// scheduled: they run between two calls of this process.
    Crowd(&'static str),
    /// Deletes a branch.
    Delete(&'static str),
    /// Refreshes, and reads everything reachable from refs.
    Read,
    /// Collects.
    Collect(Purpose),
    /// Packs the idle journal, and frees nothing.
    Pack,
    /// Redacts the secret.
    Redact,
    /// Repairs.
    Repair,
    /// Packs everything into an archive without ids, which the store allows.
    ArchiveWithoutIds,
}

/// The store at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No store.
    Nothing,
    /// Three turns and garbage, in one segment that no process writes to.
    Journal,
    /// The journal of `Journal` in a pack, and another turn in a segment.
    Packed,
    /// The store of `Packed`, and so many idle segments that a process that looks for one seals
    /// some.
    Crowded,
    /// The store of [`Found::Journal`]. After the processes opened it, other processes have
    /// committed, one has packed that, and as many as in [`Found::Crowded`] have committed after
    /// the pack.
    Overtaken,
    /// The store of [`Found::Packed`], but the pack is an archive without ids, and its ids were not
    /// needed yet.
    WithoutIds,
}

/// Writers that leave an idle segment each: more than stay idle.
pub const CROWD: u64 = 10;

/// A script.
#[derive(Debug, Clone, Copy)]
pub struct Script {
    /// The name, for a replay.
    pub name: &'static str,
    /// The store at the start.
    pub found: Found,
    /// The steps of each process. A process that does not start by opening the store has it open.
    pub processes: &'static [&'static [Step]],
}

const GC: Step = Step::Collect(Purpose::Gc);
const HOT: Step = Step::Collect(Purpose::Repack(Tier::Hot));
const COMPACTED: Step = Step::Collect(Purpose::Repack(Tier::Compacted));
const SMALL: Step = Step::Collect(Purpose::Step);

/// Every script.
pub const SCRIPTS: &[Script] = &[
    Script {
        name: "two make one store",
        found: Found::Nothing,
        processes: &[
            &[Step::Init, Step::Put("refs/x/a", "one"), Step::Read],
            &[Step::Init, Step::Put("refs/x/a", "two"), Step::Read],
        ],
    },
    Script {
        name: "writers of the same content",
        found: Found::Journal,
        processes: &[
            &[Step::Turn("a", "same"), Step::Turn("a", "again")],
            &[Step::Turn("b", "same"), Step::Turn("b", "again")],
            &[Step::Read, Step::Read, Step::Read],
        ],
    },
    Script {
        name: "three count at one ref",
        found: Found::Journal,
        processes: &[
            &[Step::Count("refs/x/n"), Step::Count("refs/x/n")],
            &[Step::Count("refs/x/n"), Step::Read],
            &[Step::Open, Step::Count("refs/x/n"), Step::Read],
        ],
    },
    Script {
        name: "garbage is stored again while it goes",
        found: Found::Journal,
        processes: &[
            // Only once: a second put would store the lost object again.
            &[Step::Read, Step::Put("refs/x/a", GARBAGE)],
            &[GC],
        ],
    },
    Script {
        name: "a turn revives unreachable objects",
        found: Found::Packed,
        processes: &[&[Step::Revive("a"), Step::Turn("main", "more")], &[GC], &[Step::Read]],
    },
    Script {
        name: "a turn revives unreachable objects of a segment",
        found: Found::Journal,
        processes: &[&[Step::Revive("a")], &[GC]],
    },
    Script {
        name: "a long transaction over a collection of its own",
        found: Found::Journal,
        processes: &[&[Step::LongOver("a", Purpose::Gc)], &[Step::Turn("a", "meanwhile")]],
    },
    Script {
        name: "a long transaction and two collections",
        found: Found::Packed,
        processes: &[
            &[Step::Long("a", "long"), Step::Turn("a", "more")],
            &[GC, HOT],
            &[Step::Read],
        ],
    },
    Script {
        name: "two collectors and a writer",
        found: Found::Packed,
        processes: &[&[GC], &[Step::Open, COMPACTED], &[Step::Turn("main", "meanwhile")]],
    },
    Script {
        name: "a surplus of segments",
        found: Found::Crowded,
        processes: &[
            &[Step::Turn("a", "sealing"), Step::Turn("a", "again")],
            &[Step::Turn("b", "sealing")],
            &[SMALL],
        ],
    },
    Script {
        name: "a view from before a collection, and a surplus of segments behind it",
        found: Found::Overtaken,
        processes: &[
            &[Step::Turn("a", "sealing"), Step::Turn("a", "again")],
            &[Step::Turn("b", "sealing"), Step::Read],
            &[Step::Read, GC],
        ],
    },
    Script {
        name: "a surplus of segments that comes behind a collection",
        found: Found::Journal,
        processes: &[&[Step::Turn("a", "sealing")], &[HOT, Step::Crowd("main")]],
    },
    Script {
        name: "commands that come at once",
        found: Found::Journal,
        processes: &[
            &[Step::Open, Step::Turn("main", "one")],
            &[Step::Open, Step::Turn("main", "two")],
            &[Step::Open, HOT],
            &[Step::Open, Step::Read],
        ],
    },
    Script {
        name: "branches that go",
        found: Found::Packed,
        processes: &[
            &[Step::Turn("side", "goes"), Step::Delete("side"), Step::Turn("side", "comes")],
            &[GC],
            &[Step::Read],
        ],
    },
    Script {
        name: "unread segments are packed",
        found: Found::Journal,
        processes: &[&[Step::Read], &[HOT], &[Step::Turn("main", "meanwhile")]],
    },
    Script {
        name: "the journal is packed unmarked, beside a writer and a reader",
        found: Found::Journal,
        processes: &[
            &[Step::Revive("a"), Step::Turn("main", "during the pack")],
            &[Step::Pack],
            &[Step::Read],
        ],
    },
    Script {
        name: "a redaction and a writer",
        found: Found::Packed,
        processes: &[
            &[Step::Redact],
            &[Step::Turn("main", "meanwhile"), Step::Open],
            &[Step::Read],
        ],
    },
    Script {
        name: "reads of an archive without ids, while it is rewritten",
        found: Found::WithoutIds,
        processes: &[
            &[Step::Turn("main", "first"), Step::Read],
            &[Step::Open, Step::Read],
            &[Step::ArchiveWithoutIds],
        ],
    },
    Script {
        name: "reads of an archive without ids, and a redaction",
        found: Found::WithoutIds,
        processes: &[&[Step::Redact], &[Step::Read], &[Step::Open, Step::Read]],
    },
    Script {
        name: "a repair, a collection and a writer",
        found: Found::Packed,
        processes: &[&[Step::Repair], &[GC], &[Step::Turn("main", "meanwhile"), Step::Read]],
    },
];

/// A starting store.
#[derive(Debug, Clone)]
pub struct Base {
    /// The disk. No handle is open.
    disk: SimDisk,
    /// An unreachable commit.
    pub garbage: Option<ObjectId>,
}

impl Base {
    /// Makes the store.
    ///
    /// # Panics
    /// If the library fails.
    #[must_use]
    pub fn new(found: Found) -> Self {
        let disk = SimDisk::new(Path::new("/disk"));
        if found == Found::Nothing {
            return Self { disk, garbage: None };
        }
        let new = NewStore { id: [6; 16] };
        let repo = Repository::init(Arc::new(disk.clone()), Path::new(DIR), &new, options(1 << 40));
        let repo = repo.expect("a new store");
        for turn in 1..=3 {
            take_turn(&repo, "main", &format!("begin {turn}"), &format!("{SECRET} {turn}"));
        }
        take_turn(&repo, "side", "aside", "another line");
        let garbage = leave_garbage(&repo);
        let open = |seed: u64| {
            let io = Arc::new(disk.clone());
            Repository::open(io, Path::new(DIR), options((1 << 41) + seed)).expect("the store")
        };
        if matches!(found, Found::Packed | Found::Crowded) {
            pack(repo.store(), |_| true).expect("a pack");
            take_turn(&repo, "main", "after", "behind the pack");
        }
        drop(repo);
        if found == Found::WithoutIds {
            archive_without_ids(&disk, &stamp(1));
            // The ids that this turn needs are removed again.
            take_turn(&open(CROWD), "main", "after", "behind the pack");
            remove_ids(&disk);
        }
        if found == Found::Crowded {
            let writers: Vec<Repository> = (0..CROWD).map(open).collect();
            for (writer, n) in writers.iter().zip(0..) {
                take_turn(writer, "main", &format!("crowd {n}"), "one of many");
            }
        }
        Self { disk: disk.crash(Keep::All), garbage: Some(garbage) }
    }

    /// A copy of the disk for one schedule.
    #[must_use]
    pub fn disk(&self) -> SimDisk {
        self.disk.crash(Keep::All)
    }
}

fn take_turn(repo: &Repository, branch: &str, message: &str, text: &str) {
    repo.refresh().expect("the store can be read");
    let mut change = repo.begin();
    let branch = BranchName::new("s", branch).expect("a name");
    let mut context = match change.tip(&branch) {
        Some(tip) => Builder::from(repo.context(&tip).expect("the tip")),
        None => Builder::new(),
    };
    let text = Some(text.to_owned().into());
    context.set_entry(&mut change, "scratchpad", message, text).expect("a note");
    let tree = context.write(&mut change).expect("a context");
    change.snapshot(&branch, SnapshotDraft::new(tree, message, &stamp(1))).expect("a snapshot");
    change.commit(&stamp(1), "snapshot").expect("a commit");
}

/// Stores a turn without committing it.
fn leave_garbage(repo: &Repository) -> ObjectId {
    let mut change = repo.begin();
    let mut context = Builder::new();
    for key in 0..3 {
        let text = Some(GARBAGE.into());
        context.set_entry(&mut change, "scratchpad", &format!("{key}"), text).expect("a note");
    }
    let tree = context.write(&mut change).expect("a context");
    let branch = BranchName::new("s", "never").expect("a name");
    let commit = change.snapshot(&branch, SnapshotDraft::new(tree, "never", &stamp(1)));
    change.flush().expect("the objects are stored");
    commit.expect("a snapshot")
}
