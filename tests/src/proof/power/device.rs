//! A disk that records, in order, every write and every flush that reaches it.
//!
//! It is one file in its own file system, served from memory through FUSE. A loop device over that
//! file is the disk that a real file system is mounted from. The loop device passes a flush on as
//! an `fsync` of the file. Nothing is cached in between: the file is opened for direct I/O. One
//! thread serves, so the records are in the order of the disk's actions. A second file returns the
//! number of records.
//!
//! A separate process serves. In the process that uses the disk, a thread may wait for the disk
//! with the memory map locked, which the server needs to allocate memory: both would deadlock. And
//! if either process ends, the other gets errors and continues.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};
use rustix::mount::{UnmountFlags, unmount};

use super::image::Image;

/// The argument that makes the program `prove` serve.
pub const WORKER: &str = "worker-power";

/// The disk, and the file with the number of events.
pub const DISK: &str = "disk";
const POSITION: &str = "position";
const DISK_NODE: INodeNo = INodeNo(2);
const POSITION_NODE: INodeNo = INodeNo(3);

/// The record of a flush, at the position of a write's offset.
const FLUSH: u64 = u64::MAX;

/// How long the kernel may cache names and attributes, which never change.
const TTL: Duration = Duration::from_secs(3600);

/// How long a disk is served at most; a recording takes some seconds. After that its user gets
/// errors instead of waiting forever.
const LIMIT: Duration = Duration::from_secs(200);

/// An event of the disk.
#[derive(Debug)]
pub enum Event {
    /// Bytes to keep, possibly only in the disk's cache.
    Write {
        /// The offset on the disk.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// All earlier writes must survive a power cut once this returns.
    Flush,
}

/// Reads the records.
fn read_events(notes: &Path) -> io::Result<Vec<Event>> {
    let mut notes = BufReader::new(File::open(notes)?);
    let mut events = Vec::new();
    let mut word = [0; 8];
    while !notes.fill_buf()?.is_empty() {
        notes.read_exact(&mut word)?;
        let offset = u64::from_le_bytes(word);
        if offset == FLUSH {
            events.push(Event::Flush);
            continue;
        }
        notes.read_exact(&mut word)?;
        let mut bytes = Vec::new();
        (&mut notes).take(u64::from_le_bytes(word)).read_to_end(&mut bytes)?;
        events.push(Event::Write { offset, bytes });
    }
    Ok(events)
}

/// A disk that another process serves until this is dropped.
#[derive(Debug)]
pub struct Recorder {
    server: Child,
    dir: PathBuf,
    position: File,
}

impl Recorder {
    /// Makes the program `prove` serve a disk in `dir` that starts with the bytes of `image`. The
    /// records go to the file `notes`.
    ///
    /// # Errors
    /// In words: if FUSE is not available.
    pub fn start(prove: &Path, image: &Path, dir: &Path, notes: &Path) -> Result<Self, String> {
        let mut command = Command::new(prove);
        command.arg(WORKER).args([image, dir, notes]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: io::Error| format!("{}: {error}", prove.display());
        let mut server = command.spawn().map_err(failed)?;
        let mut ready = String::new();
        let answer = server.stdout.take().map(BufReader::new);
        let answered = answer.map_or(Ok(0), |mut answer| answer.read_line(&mut ready));
        let position = match answered {
            Ok(bytes) if bytes > 0 => File::open(dir.join(POSITION)),
            _ => {
                let output = server.wait_with_output().map_err(failed)?;
                return Err(format!("FUSE: {}", String::from_utf8_lossy(&output.stderr).trim()));
            }
        };
        Ok(Self { server, dir: dir.to_owned(), position: position.map_err(failed)? })
    }

    /// The number of events so far.
    ///
    /// # Panics
    /// If the disk is not served.
    #[must_use]
    pub fn position(&self) -> usize {
        let mut text = [0; 20];
        let length = self.position.read_at(&mut text, 0).expect("the disk is served");
        let text = String::from_utf8_lossy(&text[..length]);
        text.parse().expect("a number of events")
    }

    /// Ends the recording. The disk must be unmounted. `notes` is the file of the records.
    ///
    /// # Errors
    /// In words: the server failed, or its records are unreadable.
    pub fn finish(mut self, notes: &Path) -> Result<Vec<Event>, String> {
        drop(self.server.stdin.take());
        let ended = self.server.wait().map_err(|error| error.to_string())?;
        if !ended.success() {
            return Err(format!("the recorder ended with {ended}"));
        }
        read_events(notes).map_err(|error| format!("the recording: {error}"))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // A disk without a server returns errors, so no process waits for it.
        let _ = self.server.kill();
        let _ = self.server.wait();
        // The loop device may have the file open for a moment.
        let _ = unmount(&self.dir, UnmountFlags::DETACH);
    }
}

/// Serves a disk as a process: from an image file, in a directory, with records to a file.
#[must_use]
pub fn serve(arguments: &[String]) -> ExitCode {
    let [image, dir, notes] = arguments else {
        eprintln!("expected {WORKER} IMAGE DIRECTORY NOTES");
        return ExitCode::from(2);
    };
    match serve_until_told([image, dir, notes].map(Path::new)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve_until_told([image, dir, notes]: [&Path; 3]) -> io::Result<()> {
    let disk =
        Disk { image: Image::read(image)?, notes: BufWriter::new(File::create(notes)?), events: 0 };
    let server = Server(Arc::new(Mutex::new(disk)));
    let session = fuser::spawn_mount(server.clone(), dir, &Config::default())?;
    println!("ready");
    let (told, end) = sync_channel(1);
    std::thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = told.send(());
    });
    end.recv_timeout(LIMIT).map_err(|_| io::Error::other("the recording was not ended"))?;
    let flushed = server.lock().notes.flush();
    drop(session);
    flushed
}

/// The disk in the serving process.
#[derive(Debug, Clone)]
struct Server(Arc<Mutex<Disk>>);

#[derive(Debug)]
struct Disk {
    image: Image,
    notes: BufWriter<File>,
    events: usize,
}

impl Disk {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.image.put(offset, bytes);
        self.events += 1;
        self.notes.write_all(&offset.to_le_bytes())?;
        self.notes.write_all(&(bytes.len() as u64).to_le_bytes())?;
        self.notes.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.events += 1;
        self.notes.write_all(&FLUSH.to_le_bytes())
    }
}

impl Server {
    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, node: INodeNo) -> FileAttr {
        let (kind, perm, size) = match node {
            DISK_NODE => (FileType::RegularFile, 0o600, self.lock().image.bytes()),
            POSITION_NODE => (FileType::RegularFile, 0o400, 0),
            _ => (FileType::Directory, 0o700, 0),
        };
        FileAttr {
            ino: node,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Server {
    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let node = match name.to_str() {
            Some(DISK) if parent == INodeNo::ROOT => DISK_NODE,
            Some(POSITION) if parent == INodeNo::ROOT => POSITION_NODE,
            _ => return reply.error(Errno::ENOENT),
        };
        reply.entry(&TTL, &self.attributes(node), Generation(0));
    }

    fn getattr(&self, _req: &Request, node: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attributes(node));
    }

    fn open(&self, _req: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _req: &Request,
        node: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let disk = self.lock();
        if node == POSITION_NODE {
            return reply.data(disk.events.to_string().as_bytes());
        }
        let length = disk.image.bytes().saturating_sub(offset).min(size.into());
        reply.data(&disk.image.get(offset, usize::try_from(length).expect("at most `size`")));
    }

    fn write(
        &self,
        _req: &Request,
        _node: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.lock().write(offset, data) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fsync(
        &self,
        _req: &Request,
        _node: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        match self.lock().flush() {
            Ok(()) => reply.ok(),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn flush(
        &self,
        _req: &Request,
        _node: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // A closed file handle makes nothing durable.
        reply.ok();
    }
}
