//! A read-only file system for SQLite that contains only images.
//!
//! SQLite accesses files through a table of functions, the VFS. This VFS reads from an [`Image`]
//! and reports the file as immutable, so SQLite takes no locks and looks for no journal. It refuses
//! all other files, including temporary ones. A database of any size is read page by page.

#![expect(unsafe_code, reason = "a table of C functions; each SAFETY says what SQLite promises")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rusqlite::{Connection, OpenFlags, ffi};

use super::image::Image;

const NAME: &CStr = c"turntree-image";

/// Longest name of an image, including the terminator.
const NAME_BYTES: c_int = 32;

/// Images during their opening, keyed by number. The number is the file name of the image.
static OPENING: Mutex<BTreeMap<u64, Arc<Image>>> = Mutex::new(BTreeMap::new());
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Opens a connection that reads `image`.
pub(super) fn open(image: &Arc<Image>) -> rusqlite::Result<Connection> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    let code = *REGISTERED.get_or_init(register);
    if code != ffi::SQLITE_OK {
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
    }
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let opening = || OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    opening().insert(number, Arc::clone(image));
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = Connection::open_with_flags_and_vfs(Path::new(&number.to_string()), flags, NAME);
    opening().remove(&number);
    opened
}

/// An open image in memory of SQLite. The part of SQLite comes first.
#[repr(C)]
struct OpenImage {
    base: ffi::sqlite3_file,
    /// From `Arc::into_raw`.
    image: *const Image,
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(lock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

fn register() -> c_int {
    let vfs = ffi::sqlite3_vfs {
        iVersion: 1,
        szOsFile: c_int::try_from(size_of::<OpenImage>()).unwrap_or(c_int::MAX),
        mxPathname: NAME_BYTES,
        pNext: ptr::null_mut(),
        zName: NAME.as_ptr(),
        pAppData: ptr::null_mut(),
        xOpen: Some(open_image),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(full_path_name),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(randomness),
        xSleep: Some(sleep),
        xCurrentTime: Some(current_time),
        xGetLastError: None,
        xCurrentTimeInt64: None,
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    };
    // SAFETY: the table is never freed, as SQLite requires. It does not become the default VFS.
    unsafe { ffi::sqlite3_vfs_register(Box::into_raw(Box::new(vfs)), 0) }
}

unsafe extern "C" fn open_image(
    _: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: `file` has room for one `OpenImage`, by `szOsFile`. Without methods SQLite does not
    // close a file that failed to open.
    unsafe { (*file).pMethods = ptr::null() };
    if name.is_null() || flags & ffi::SQLITE_OPEN_MAIN_DB == 0 {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: SQLite passes a terminated string.
    let number = unsafe { CStr::from_ptr(name) }.to_str().ok().and_then(|name| name.parse().ok());
    let opening = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    let image = number.and_then(|number: u64| opening.get(&number)).map(Arc::clone);
    let Some(image) = image else { return ffi::SQLITE_CANTOPEN };
    let open =
        OpenImage { base: ffi::sqlite3_file { pMethods: &METHODS }, image: Arc::into_raw(image) };
    // SAFETY: `file` has room for one `OpenImage`, and its old content needs no drop.
    unsafe { file.cast::<OpenImage>().write(open) };
    if !out_flags.is_null() {
        // SAFETY: SQLite passes null or room for one number.
        unsafe { *out_flags = ffi::SQLITE_OPEN_READONLY };
    }
    ffi::SQLITE_OK
}

/// Returns the image of an open file.
///
/// # Safety
/// `file` was opened by [`open_image`] and is not closed.
unsafe fn image<'f>(file: *mut ffi::sqlite3_file) -> &'f Image {
    // SAFETY: `file` is an `OpenImage`, which holds one reference count of the image.
    unsafe { &*(*file.cast::<OpenImage>()).image }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes an open file exactly once. This releases its reference count.
    unsafe { drop(Arc::from_raw((*file.cast::<OpenImage>()).image)) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    amount: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let (Ok(len), Ok(at)) = (usize::try_from(amount), u64::try_from(offset)) else {
        return ffi::SQLITE_IOERR_READ;
    };
    // SAFETY: the buffer has room for `amount` bytes and belongs to this call. All bytes are
    // initialized before they are read.
    let buffer = unsafe {
        buffer.write_bytes(0, len);
        std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len)
    };
    // SAFETY: SQLite reads only from open files.
    match unsafe { image(file) }.read_at(at, buffer) {
        Ok(count) if count == len => ffi::SQLITE_OK,
        Ok(_) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(_) => ffi::SQLITE_IOERR_READ,
    }
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls this only for open files, and passes room for one number.
    unsafe { *size = i64::try_from(image(file).len()).unwrap_or(i64::MAX) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn write(
    _: *mut ffi::sqlite3_file,
    _: *const c_void,
    _: c_int,
    _: ffi::sqlite3_int64,
) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn truncate(_: *mut ffi::sqlite3_file, _: ffi::sqlite3_int64) -> c_int {
    ffi::SQLITE_READONLY
}

unsafe extern "C" fn sync(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn lock(_: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    ffi::SQLITE_OK
}

unsafe extern "C" fn check_reserved_lock(_: *mut ffi::sqlite3_file, is: *mut c_int) -> c_int {
    // SAFETY: SQLite passes room for one number.
    unsafe { *is = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    0
}

unsafe extern "C" fn device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_IMMUTABLE
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, _: *const c_char, _: c_int) -> c_int {
    ffi::SQLITE_READONLY
}

/// Reports that no other file exists next to an image.
unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    _: *const c_char,
    _: c_int,
    found: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes room for one number.
    unsafe { *found = 0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn full_path_name(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a terminated string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if usize::try_from(room).is_ok_and(|room| name.len() <= room) {
        // SAFETY: `out` has `room` bytes and does not overlap the name.
        unsafe { ptr::copy_nonoverlapping(name.as_ptr().cast::<c_char>(), out, name.len()) };
        return ffi::SQLITE_OK;
    }
    ffi::SQLITE_CANTOPEN
}

unsafe extern "C" fn randomness(
    _: *mut ffi::sqlite3_vfs,
    amount: c_int,
    out: *mut c_char,
) -> c_int {
    if let Ok(len) = usize::try_from(amount) {
        // SAFETY: SQLite passes room for `amount` bytes. Reading needs no randomness.
        unsafe { out.write_bytes(0, len) };
    }
    amount
}

unsafe extern "C" fn sleep(_: *mut ffi::sqlite3_vfs, _: c_int) -> c_int {
    0
}

unsafe extern "C" fn current_time(_: *mut ffi::sqlite3_vfs, now: *mut f64) -> c_int {
    // SAFETY: SQLite passes room for one number. No query uses the time.
    unsafe { *now = 0.0 };
    ffi::SQLITE_OK
}
