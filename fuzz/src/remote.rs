//! Fuzzes both ends of a pipe with untrusted input.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use turntree::Error;
use turntree::store::Io as _;
use turntree::transfer::remote::{
    Answer, Bucket, Frame, GREETING, Key, Pipe, PipeBucket, Request, Version, serve,
};
use turntree_tests::remote::{MemoryBucket, Source};
use turntree_tests::sim::SimDisk;

/// Reads untrusted frames: requests to a server, and answers to a client.
///
/// # Panics
/// If a guarantee of the library is violated.
pub fn remote_frames(input: &[u8]) {
    one_form(input);
    questions(input);
    answers(input);
}

/// Checks that a read frame is written and read back as an equal one.
fn one_form(input: &[u8]) {
    if let Ok(Some(frame)) = Frame::<Request>::read(&mut &input[..]) {
        let mut bytes = Vec::new();
        // The written form of a header may be longer.
        if frame.write(&mut bytes).is_ok() {
            let read = Frame::read(&mut bytes.as_slice()).expect("the output is a frame");
            assert_eq!(read, Some(frame));
        }
    }
}

fn questions(input: &[u8]) {
    let (bucket, disk, files) =
        (MemoryBucket::new(1), SimDisk::new(Path::new("/spool")), AtomicU64::new(0));
    let spool = || {
        let number = files.fetch_add(1, Ordering::Relaxed);
        let made = disk.create(Path::new(&format!("/spool/{number}")));
        made.map_err(|error| Error::io("make a file", error))
    };
    let mut said = Vec::new();
    let served = serve(&bucket.client(), &mut &input[..], &mut said, &spool);
    assert!(said.starts_with(GREETING.as_bytes()), "it sends its name");
    // A client can read every answer.
    let mut answers = &said[GREETING.len() + 1..];
    while let Some(frame) = Frame::<Answer>::read(&mut answers).expect("an answer is a frame") {
        drop(frame);
    }
    drop(served);
    for key in bucket.objects().keys() {
        assert!(Key::new(key.as_str()).is_ok(), "{key} is a key");
    }
}

/// Discards the requests of a client.
struct Discard;

impl Write for Discard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn answers(input: &[u8]) {
    let said = [GREETING.as_bytes(), b"\n", input].concat();
    let bucket = PipeBucket::new(move || {
        let input = std::io::Cursor::new(said.clone());
        Ok(Pipe { input: Box::new(input), output: Box::new(Discard), guard: Box::new(()) })
    });
    let (key, version) = (Key::new("heads/a").expect("a key"), Version("1".to_owned()));
    for _ in 0..2 {
        let _ = bucket.get(&key, Some(0..9), None);
        let _ = bucket.get(&key, None, Some(&version));
        let _ = bucket.put_new(&key, "bytes".into());
        let _ = bucket.put_over(&key, "bytes".into(), &version);
        let _ = bucket.upload(&key, &Source(vec![1; 9]));
        let _ = bucket.delete(std::slice::from_ref(&key));
        if let Ok(page) = bucket.list("heads/", None) {
            assert!(page.objects.iter().all(|object| Key::new(object.key.as_str()).is_ok()));
        }
    }
}
