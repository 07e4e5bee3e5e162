//! What depends on the operating system. It is little: SQLite and the standard library even out the rest.

use std::fs::OpenOptions;

/// Makes a new file one that only its owner may read.
#[cfg(unix)]
pub(crate) fn private_file(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

/// A new file takes its rights from the directory it is in.
#[cfg(not(unix))]
pub(crate) fn private_file(_: &mut OpenOptions) {}
