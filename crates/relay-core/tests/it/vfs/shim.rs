//! The VFS as SQLite sees it: C functions that ask the disk model and call the unix VFS.
//!
//! Each open file is one block of memory that SQLite owns: a [`ShimFile`], then the unix VFS's own
//! file. Methods not named here are the unix ones; those of the VFS itself ignore their first
//! argument, so they can be shared as they are.

// A VFS is a table of C functions over raw memory; there is no safe way to provide one.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use rusqlite::ffi::{self, sqlite3_file, sqlite3_int64, sqlite3_io_methods, sqlite3_vfs};

use super::disk::{Disk, FileId, Opening};

/// A VFS known to SQLite under its name, until dropped.
pub(super) struct Registration {
    name: String,
    /// Never freed, because a connection may outlive the registration.
    vfs: *mut sqlite3_vfs,
}

// SAFETY: the pointer is only used to unregister, which SQLite guards with a mutex.
unsafe impl Send for Registration {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for Registration {}

impl Registration {
    pub(super) fn new(disk: &Arc<Disk>) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("relay-fault-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let c_name = CString::new(name.clone())
            .expect("the name has no NUL")
            .into_raw();
        // SAFETY: SQLite is initialised first; the vfs, its name and its data are never freed.
        let vfs = unsafe {
            assert_eq!(ffi::sqlite3_initialize(), ffi::SQLITE_OK);
            let unix = ffi::sqlite3_vfs_find(c"unix".as_ptr());
            assert!(!unix.is_null(), "SQLite has no unix VFS");
            let shared = Box::new(Shared {
                unix,
                disk: Arc::downgrade(disk),
            });
            let vfs = Box::into_raw(Box::new(sqlite3_vfs {
                szOsFile: size_of::<ShimFile>() as c_int + (*unix).szOsFile,
                pNext: std::ptr::null_mut(),
                zName: c_name,
                pAppData: Box::into_raw(shared).cast(),
                xOpen: Some(open),
                xDelete: Some(delete),
                ..*unix
            }));
            assert_eq!(ffi::sqlite3_vfs_register(vfs, 0), ffi::SQLITE_OK);
            vfs
        };
        Self { name, vfs }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: it was registered in `new` and is still allocated.
        unsafe { ffi::sqlite3_vfs_unregister(self.vfs) };
    }
}

/// What `pAppData` points to. Weak, so that a leaked VFS does not keep the disk's content.
struct Shared {
    unix: *mut sqlite3_vfs,
    disk: Weak<Disk>,
}

/// The front part of an open file; the unix file follows in the same block.
#[repr(C)]
struct ShimFile {
    base: sqlite3_file,
    /// Null for temporary files, which are passed through; owned by this file otherwise.
    tracked: *mut Tracked,
}

struct Tracked {
    disk: Arc<Disk>,
    file: FileId,
}

const TRACKED_KINDS: c_int = ffi::SQLITE_OPEN_MAIN_DB | JOURNAL_KINDS;
const JOURNAL_KINDS: c_int =
    ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL | ffi::SQLITE_OPEN_WAL;

/// Version 2 has shared memory but no `xFetch`: mapped pages would change past the model.
static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes our vfs, a block of szOsFile bytes, and a name that is null or a path.
    unsafe {
        let shared = shared_of(vfs);
        let shim = file.cast::<ShimFile>();
        (*shim).base.pMethods = std::ptr::null();
        (*shim).tracked = std::ptr::null_mut();
        (*unix_file(file)).pMethods = std::ptr::null();
        let is_tracked = !name.is_null() && flags & TRACKED_KINDS != 0;
        let unix_open = (*shared.unix).xOpen.expect("unix has xOpen");
        let really = || unix_open(shared.unix, name, unix_file(file), flags, out_flags);
        let opened = if is_tracked {
            open_tracked(shared, name, file, flags, really).map(Box::into_raw)
        } else {
            check(really()).map(|()| std::ptr::null_mut())
        };
        match opened {
            Ok(tracked) => {
                (*shim).tracked = tracked;
                (*shim).base.pMethods = &raw const METHODS;
                ffi::SQLITE_OK
            }
            Err(code) => {
                close_if_open(unix_file(file));
                code
            }
        }
    }
}

unsafe fn open_tracked(
    shared: &Shared,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    really: impl FnOnce() -> c_int,
) -> Result<Box<Tracked>, c_int> {
    let disk = shared.disk.upgrade().ok_or(ffi::SQLITE_CANTOPEN)?;
    let may_create = flags & ffi::SQLITE_OPEN_CREATE != 0;
    // SAFETY: the arguments are those of `open`, and the file is only read once `really` opened it.
    unsafe {
        let opening = Opening {
            path: path_of(name),
            may_create,
            exists: has_content(shared.unix, name),
            syncs_directory: may_create && flags & JOURNAL_KINDS != 0,
        };
        let id = disk.open(&opening, really, || read_all(unix_file(file)))?;
        Ok(Box::new(Tracked { disk, file: id }))
    }
}

unsafe extern "C" fn delete(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    sync_directory: c_int,
) -> c_int {
    // SAFETY: SQLite passes our vfs and a path.
    unsafe {
        let shared = shared_of(vfs);
        let Some(disk) = shared.disk.upgrade() else {
            return ffi::SQLITE_IOERR_DELETE;
        };
        let unix_delete = (*shared.unix).xDelete.expect("unix has xDelete");
        // The model keeps the promise; really syncing the directory would only take time.
        disk.delete(path_of(name), sync_directory != 0, || {
            unix_delete(shared.unix, name, 0)
        })
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: `open` succeeded for this file, and SQLite does not use it after closing it.
    unsafe {
        let shim = file.cast::<ShimFile>();
        if !(*shim).tracked.is_null() {
            drop(Box::from_raw((*shim).tracked));
            (*shim).tracked = std::ptr::null_mut();
        }
        let unix = unix_file(file);
        methods_of(unix).xClose.expect("unix has xClose")(unix)
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: sqlite3_int64,
) -> c_int {
    // SAFETY: the file is open, and `data` has `amount` bytes.
    unsafe {
        let unix = unix_file(file);
        let unix_write = methods_of(unix).xWrite.expect("unix has xWrite");
        let really = || unix_write(unix, data, amount, offset);
        match tracked(file) {
            Some(Tracked { disk, file }) => {
                let bytes = std::slice::from_raw_parts(data.cast::<u8>(), amount as usize);
                disk.write(*file, offset as usize, bytes, really)
            }
            None => really(),
        }
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    unsafe {
        let unix = unix_file(file);
        let unix_truncate = methods_of(unix).xTruncate.expect("unix has xTruncate");
        let really = || unix_truncate(unix, size);
        match tracked(file) {
            Some(Tracked { disk, file }) => disk.truncate(*file, size as usize, really),
            None => really(),
        }
    }
}

/// Nothing is really synced, which also makes thousands of rounds affordable.
unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: the file is open.
    match unsafe { tracked(file) } {
        Some(Tracked { disk, file }) => disk.sync(*file),
        None => ffi::SQLITE_OK,
    }
}

unsafe extern "C" fn file_control(
    file: *mut sqlite3_file,
    operation: c_int,
    argument: *mut c_void,
) -> c_int {
    match operation {
        // These let the unix VFS change sizes or map pages without a call the model would see.
        ffi::SQLITE_FCNTL_SIZE_HINT
        | ffi::SQLITE_FCNTL_CHUNK_SIZE
        | ffi::SQLITE_FCNTL_MMAP_SIZE => ffi::SQLITE_NOTFOUND,
        // SAFETY: the file is open, and the argument is what the operation asks for.
        _ => unsafe {
            let unix = unix_file(file);
            methods_of(unix)
                .xFileControl
                .expect("unix has xFileControl")(unix, operation, argument)
        },
    }
}

/// Promises only what the model keeps: a write leaves the bytes around it alone.
unsafe extern "C" fn device_characteristics(_file: *mut sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

/// Defines file methods that only call the unix ones.
macro_rules! pass_through {
    ($($name:ident = $method:ident($($argument:ident: $kind:ty),*) $(-> $answer:ty)?;)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file, $($argument: $kind),*) $(-> $answer)? {
            // SAFETY: the file is open, and the arguments are passed on as they came.
            unsafe {
                let unix = unix_file(file);
                methods_of(unix).$method.expect("unix has the method")(unix, $($argument),*)
            }
        }
    )*};
}

pass_through! {
    read = xRead(buffer: *mut c_void, amount: c_int, offset: sqlite3_int64) -> c_int;
    file_size = xFileSize(size: *mut sqlite3_int64) -> c_int;
    lock = xLock(level: c_int) -> c_int;
    unlock = xUnlock(level: c_int) -> c_int;
    check_reserved_lock = xCheckReservedLock(answer: *mut c_int) -> c_int;
    sector_size = xSectorSize() -> c_int;
    shm_map = xShmMap(page: c_int, size: c_int, extend: c_int, answer: *mut *mut c_void) -> c_int;
    shm_lock = xShmLock(offset: c_int, count: c_int, flags: c_int) -> c_int;
    shm_barrier = xShmBarrier();
    shm_unmap = xShmUnmap(delete: c_int) -> c_int;
}

unsafe fn shared_of<'a>(vfs: *mut sqlite3_vfs) -> &'a Shared {
    // SAFETY: `Registration::new` put it there and never frees it.
    unsafe { &*(*vfs).pAppData.cast::<Shared>() }
}

unsafe fn tracked<'a>(file: *mut sqlite3_file) -> Option<&'a Tracked> {
    // SAFETY: the pointer is null or owned by the file until it is closed.
    unsafe { (*file.cast::<ShimFile>()).tracked.as_ref() }
}

unsafe fn unix_file(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: the block SQLite allocated has room for both, see szOsFile.
    unsafe { file.cast::<ShimFile>().add(1).cast() }
}

unsafe fn methods_of<'a>(unix: *mut sqlite3_file) -> &'a sqlite3_io_methods {
    // SAFETY: the unix VFS opened the file, so it set its table, which is static.
    unsafe { &*(*unix).pMethods }
}

unsafe fn path_of<'a>(name: *const c_char) -> &'a Path {
    // SAFETY: SQLite passes a NUL-terminated path.
    Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(name) }.to_bytes(),
    ))
}

unsafe fn has_content(unix: *mut sqlite3_vfs, name: *const c_char) -> bool {
    let mut answer = 0;
    // SAFETY: the arguments are a VFS, a path and a place for the answer.
    unsafe {
        let access = (*unix).xAccess.expect("unix has xAccess");
        access(unix, name, ffi::SQLITE_ACCESS_EXISTS, &raw mut answer) == ffi::SQLITE_OK
            && answer != 0
    }
}

/// Closes a file whose opening failed after the unix VFS was done with its part.
unsafe fn close_if_open(unix: *mut sqlite3_file) {
    // SAFETY: the table is null until the unix VFS has opened the file.
    unsafe {
        if !(*unix).pMethods.is_null() {
            methods_of(unix).xClose.expect("unix has xClose")(unix);
        }
    }
}

/// Reads through SQLite's own descriptor: closing another one would drop the process's locks.
unsafe fn read_all(unix: *mut sqlite3_file) -> Result<Vec<u8>, c_int> {
    let mut size: sqlite3_int64 = 0;
    // SAFETY: the file is open, and the buffer has as many bytes as are asked for.
    unsafe {
        let methods = methods_of(unix);
        check(methods.xFileSize.expect("unix has xFileSize")(
            unix,
            &raw mut size,
        ))?;
        let mut content = vec![0_u8; size as usize];
        let read = methods.xRead.expect("unix has xRead");
        check(read(unix, content.as_mut_ptr().cast(), size as c_int, 0))?;
        Ok(content)
    }
}

fn check(code: c_int) -> Result<(), c_int> {
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(code)
    }
}
