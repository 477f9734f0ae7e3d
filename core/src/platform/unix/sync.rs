//! Makes a whole file system durable, where Linux reports failed writes.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

use rustix::fs;
use rustix::io::Errno;

/// The numbers of ext2 to ext4, xfs, btrfs, f2fs and tmpfs, as `statfs` returns them.
const OF_KERNEL: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// The first version of Linux whose `syncfs` reports failed writes of content.
const REPORTS_FAILED_WRITES: [u64; 2] = [5, 8];

/// Returns true if a folder is on a file system of the kernel's own.
pub(super) fn is_of_kernel(folder: &OwnedFd) -> io::Result<bool> {
    Ok(u64::try_from(fs::fstatfs(folder)?.f_type).is_ok_and(|kind| OF_KERNEL.contains(&kind)))
}

/// Writes everything of a file system to its disk; `None` if the kernel cannot, or may not.
pub(super) fn sync_whole(folder: &OwnedFd) -> Option<Result<(), i32>> {
    static REPORTS: LazyLock<bool> = LazyLock::new(|| {
        reports_failed_writes(&rustix::system::uname().release().to_string_lossy())
    });
    if !*REPORTS {
        return None;
    }
    match rustix::io::retry_on_intr(|| fs::syncfs(folder)) {
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => None,
        synced => Some(synced.map_err(Errno::raw_os_error)),
    }
}

fn reports_failed_writes(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return false;
    };
    [major, minor] >= REPORTS_FAILED_WRITES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kernels_that_report_failed_writes_sync_all_files_by_one_call() {
        for (release, reports) in [
            ("6.18.44-fc", true),
            ("5.8.0", true),
            ("5.15", true),
            ("5.7.19-generic", false),
            ("4.18.0-553.el8", false),
            ("4.4.0", false),
            ("", false),
            ("unknown", false),
        ] {
            assert_eq!(reports_failed_writes(release), reports, "{release}");
        }
    }
}
