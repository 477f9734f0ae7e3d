//! Reports when a store may have changed: on events of the file system, and periodically.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use notify::event::ModifyKind::Metadata;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

/// The directory of a store that every commit writes to.
const JOURNAL: &str = "journal";

/// The interval at which the store is checked without an event.
const LOOK: Duration = Duration::from_secs(1);

/// A store whose files are watched.
#[derive(Debug)]
pub(crate) struct StoreWatch {
    changes: Receiver<()>,
    /// Sends events while it lives; `None` if the system has no more watches.
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
            // If the channel is full, a change is already pending.
            let _ = tell.try_send(());
        };
        let mut watcher = notify::recommended_watcher(told).ok();
        if let Some(watcher) = &mut watcher {
            for folder in [dir.join(JOURNAL), dir.to_owned()] {
                // A directory that cannot be watched is checked periodically.
                let _ = watcher.watch(&folder, RecursiveMode::NonRecursive);
            }
        }
        Self { changes, _watcher: watcher }
    }

    /// Waits until a file of the store has changed, for a second at most.
    pub(crate) fn wait(&self) {
        if self.changes.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
            thread::sleep(LOOK);
        }
    }
}

/// Returns true if an event may be a commit. Reading a file is not.
fn is_change(event: &Event) -> bool {
    event.need_rescan()
        || !matches!(event.kind, EventKind::Access(_) | EventKind::Modify(Metadata(_)))
}
