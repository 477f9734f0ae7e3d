//! Calls of Windows that neither Rust's library nor a crate offers: locks of one byte, change times,
//! a second handle, renames that refuse a taken name, and free space. The only unsafe code for Windows.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{
    ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, GENERIC_WRITE, INVALID_HANDLE_VALUE,
};
use windows_sys::Win32::Storage::FileSystem::{
    FILE_BASIC_INFO, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, FileBasicInfo,
    GetDiskFreeSpaceExW, GetFileInformationByHandleEx, LOCKFILE_EXCLUSIVE_LOCK,
    LOCKFILE_FAIL_IMMEDIATELY, LockFileEx, MOVEFILE_WRITE_THROUGH, MoveFileExW, ReOpenFile,
    UnlockFileEx,
};
use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};

/// The locked byte. Locks of Windows refuse reads and writes of what they cover, so it is far behind
/// the end of every file.
const LOCKED_BYTE: u64 = 0x7fff_ffff_0000_0000;

fn lock_range() -> OVERLAPPED {
    let [low, high] = halves(LOCKED_BYTE);
    OVERLAPPED {
        Internal: 0,
        InternalHigh: 0,
        Anonymous: OVERLAPPED_0 { Anonymous: OVERLAPPED_0_0 { Offset: low, OffsetHigh: high } },
        hEvent: null_mut(),
    }
}

fn halves(number: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

/// Tries to lock the file; returns false if another handle has the lock.
#[expect(unsafe_code, reason = "a call of the system; see SAFETY")]
pub(super) fn lock(file: &File) -> io::Result<bool> {
    let mut range = lock_range();
    let how = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    // SAFETY: the handle is open for the whole call, and the range outlives it: the file was opened
    // for synchronous calls, so the call is complete when it returns.
    let done = unsafe { LockFileEx(file.as_raw_handle().cast(), how, 0, 1, 0, &raw mut range) };
    if done != 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    let busy = [ERROR_LOCK_VIOLATION, ERROR_IO_PENDING].map(u32::cast_signed);
    match error.raw_os_error().is_some_and(|number| busy.contains(&number)) {
        true => Ok(false),
        false => Err(error),
    }
}

/// Releases the lock of the file.
#[expect(unsafe_code, reason = "a call of the system; see SAFETY")]
pub(super) fn unlock(file: &File) -> io::Result<()> {
    let mut range = lock_range();
    // SAFETY: as for `lock`.
    succeeded(unsafe { UnlockFileEx(file.as_raw_handle().cast(), 0, 1, 0, &raw mut range) })
}

/// Returns when the content or the attributes of a file changed last, in steps of 100 ns since 1601.
/// Only the system sets it. Zero on file systems without such a time.
#[expect(unsafe_code, reason = "a call of the system; see SAFETY")]
pub(super) fn change_time(file: &File) -> io::Result<i64> {
    let mut found = FILE_BASIC_INFO {
        CreationTime: 0,
        LastAccessTime: 0,
        LastWriteTime: 0,
        ChangeTime: 0,
        FileAttributes: 0,
    };
    let bytes = u32::try_from(size_of::<FILE_BASIC_INFO>()).unwrap_or(u32::MAX);
    // SAFETY: the handle is open for the whole call, which writes at most `bytes` bytes to `found`.
    succeeded(unsafe {
        let out = (&raw mut found).cast();
        GetFileInformationByHandleEx(file.as_raw_handle().cast(), FileBasicInfo, out, bytes)
    })?;
    Ok(found.ChangeTime)
}

/// Opens the file of a handle once more, for writing. Its name may have changed.
#[expect(unsafe_code, reason = "a call of the system; see SAFETY")]
pub(super) fn open_again_to_write(file: &File) -> io::Result<File> {
    let share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    // SAFETY: the handle is open for the whole call.
    let handle = unsafe { ReOpenFile(file.as_raw_handle().cast(), GENERIC_WRITE, share, 0) };
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call returned a new handle, which nothing else owns.
    Ok(unsafe { File::from_raw_handle(handle.cast()) })
}

/// Renames a file; refuses a taken name.
#[expect(unsafe_code, reason = "a call of the system; see SAFETY")]
pub(super) fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    let (from, to) = (wide(from)?, wide(to)?);
    // SAFETY: both names end with a zero, and live until the call returns.
    succeeded(unsafe { MoveFileExW(from.as_ptr(), to.as_ptr(), MOVEFILE_WRITE_THROUGH) })
}

/// Returns the bytes that this user may still write to the file system of `dir`.
#[expect(unsafe_code, reason = "a call of the system; see SAFETY")]
pub(super) fn free_bytes(dir: &Path) -> io::Result<u64> {
    let (dir, mut free) = (wide(dir)?, 0);
    // SAFETY: the name ends with a zero; the call writes one number, and may leave out the others.
    succeeded(unsafe { GetDiskFreeSpaceExW(dir.as_ptr(), &raw mut free, null_mut(), null_mut()) })?;
    Ok(free)
}

fn succeeded(done: i32) -> io::Result<()> {
    match done {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns a path as the system takes it, also if it has more than 260 characters.
fn wide(path: &Path) -> io::Result<Vec<u16>> {
    let path = long(&std::path::absolute(path)?);
    let mut name: Vec<u16> = path.as_os_str().encode_wide().collect();
    if name.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path contains a zero byte"));
    }
    name.push(0);
    Ok(name)
}

/// Returns an absolute path in the form without a limit of 260 characters.
pub(super) fn long(path: &Path) -> PathBuf {
    let Some(text) = path.to_str() else { return path.to_owned() };
    match text.strip_prefix(r"\\") {
        Some(rest) if rest.starts_with(['?', '.']) => path.to_owned(),
        Some(share) => PathBuf::from(format!(r"\\?\UNC\{share}")),
        None => PathBuf::from(format!(r"\\?\{text}")),
    }
}
