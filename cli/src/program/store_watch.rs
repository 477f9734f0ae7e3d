//! Tells when a store may have changed: the system says so, and now and then it is time to look.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use notify::event::ModifyKind::Metadata;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// The folder of a store that every commit writes to.
const JOURNAL: &str = "journal";

/// The time after which the store is looked at though nothing was told.
const LOOK: Duration = Duration::from_secs(1);

/// A store whose files are watched.
#[derive(Debug)]
pub(crate) struct StoreWatch {
    changes: Receiver<()>,
    /// Tells as long as it is there; none where the system has no more watches.
    _watcher: Option<RecommendedWatcher>,
}

impl StoreWatch {
    /// Watches the store in `dir`.
    pub(crate) fn of(dir: &Path) -> Self {
        let (tell, changes) = sync_channel(1);
        let told = move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| !is_change(&event)) {
                return;
            }
            // Full: a change is known already.
            let _ = tell.try_send(());
        };
        let mut watcher = notify::recommended_watcher(told).ok();
        if let Some(watcher) = &mut watcher {
            for folder in [dir.join(JOURNAL), dir.to_owned()] {
                // What is not watched is looked at now and then.
                let _ = watcher.watch(&folder, RecursiveMode::NonRecursive);
            }
        }
        Self { changes, _watcher: watcher }
    }

    /// Waits until a file of the store has changed, or it is time to look: a second at most.
    pub(crate) fn wait(&self) {
        if self.changes.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
            thread::sleep(LOOK);
        }
    }
}

/// Returns whether an event may be a commit. Reading a file is none.
fn is_change(event: &Event) -> bool {
    event.need_rescan()
        || !matches!(event.kind, EventKind::Access(_) | EventKind::Modify(Metadata(_)))
}
