//! Tests with a disk that fails a call or writes other bytes: a failed write leaves no file, and
//! can be repeated.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::round_trip::{SALT, STORE, Sample, noise, open};
use crate::store::io::{Access, Identity, Io, Mapping, RealIo};
use crate::store::pack::*;

/// The real disk, except that one call fails, or one write is changed.
#[derive(Debug, Clone)]
struct Failing {
    before: Arc<AtomicUsize>,
    writes_before: Arc<AtomicUsize>,
}

impl Failing {
    fn refusing(call: usize) -> Self {
        Self { before: Arc::new(call.into()), writes_before: Arc::new(usize::MAX.into()) }
    }

    fn changing(write: usize) -> Self {
        Self { before: Arc::new(usize::MAX.into()), writes_before: Arc::new(write.into()) }
    }

    fn call(&self) -> io::Result<()> {
        match self.before.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(io::Error::other("refused")),
            _ => Ok(()),
        }
    }

    fn file(&self, file: Arc<dyn IoFile>) -> Arc<dyn IoFile> {
        Arc::new(FailingFile { disk: self.clone(), file })
    }
}

impl Io for Failing {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn IoFile>> {
        self.call()?;
        Ok(self.file(RealIo.open(path, access)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn IoFile>> {
        self.call()?;
        Ok(self.file(RealIo.create(path)?))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealIo.create_dir(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealIo.list(dir)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call()?;
        RealIo.publish(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call()?;
        RealIo.link(from, to)
    }

    fn replace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call()?;
        RealIo.replace(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call()?;
        RealIo.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.call()?;
        RealIo.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        RealIo.free_bytes(dir)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        RealIo.identity(path)
    }
}

#[derive(Debug)]
struct FailingFile {
    disk: Failing,
    file: Arc<dyn IoFile>,
}

impl IoFile for FailingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.call()?;
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.call()?;
        let mut bytes = bytes.to_vec();
        if self.disk.writes_before.fetch_sub(1, Ordering::Relaxed) == 0 {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        self.file.write_at(&bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.call()?;
        self.file.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        self.disk.call()?;
        self.file.size()
    }

    fn lock(&self, timeout: Duration) -> io::Result<bool> {
        self.file.lock(timeout)
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }

    fn map(&self) -> io::Result<Mapping> {
        self.disk.call()?;
        self.file.map()
    }
}

#[test]
fn a_refused_call_leaves_nothing_and_the_next_attempt_succeeds() {
    let mut sample = Sample::default();
    for n in 0..4_u32 {
        sample.push(Kind::Blob, noise(n.into(), 300), n);
    }
    let (items, source) = (&sample.items, &sample.objects);
    let draft = PackDraft {
        store: STORE,
        salt: SALT,
        tier: Tier::Hot,
        lists_ids: true,
        items,
        gone: &[],
        source,
    };
    let mut refused = 0;
    loop {
        let dir = tempfile::tempdir().unwrap();
        let disk = Failing::refusing(refused);
        let written = draft.write(&disk, dir.path());
        let left = RealIo.list(dir.path()).unwrap();
        if let Ok(written) = written {
            assert_eq!(left, [written.id.file_name()]);
            break;
        }
        assert_eq!(left, Vec::<String>::new(), "call {refused}");
        let written = draft.write(&RealIo, dir.path()).unwrap();
        sample.assert_in(&open(dir.path(), written.id).unwrap());
        refused += 1;
    }
    assert!(refused > 10, "{refused} calls were refused");
}

#[test]
fn a_pack_that_the_disk_did_not_keep_as_it_was_written_gets_no_name() {
    let mut sample = Sample::default();
    sample.push(Kind::Blob, noise(1, 300), 0);
    sample.push(Kind::Tag, noise(2, 300), 0);
    let (items, source) = (&sample.items, &sample.objects);
    let draft = PackDraft {
        store: STORE,
        salt: SALT,
        tier: Tier::Hot,
        lists_ids: true,
        items,
        gone: &[],
        source,
    };
    let mut changed = 0;
    loop {
        let dir = tempfile::tempdir().unwrap();
        let disk = Failing::changing(changed);
        let written = draft.write(&disk, dir.path());
        let writes = changed.wrapping_sub(disk.writes_before.load(Ordering::Relaxed));
        if writes <= changed {
            written.unwrap();
            break;
        }
        assert_eq!(written.unwrap_err().kind(), crate::ErrorKind::Corrupt, "write {changed}");
        assert_eq!(RealIo.list(dir.path()).unwrap(), Vec::<String>::new(), "write {changed}");
        changed += 1;
    }
    assert!(changed > 2, "{changed} writes were changed");
}
