//! The allocator. The system's own keeps what thousands of sessions have freed, and takes a seventh of a busy
//! server's time; this one takes half of that, and gives memory back.

use std::convert::Infallible;
use std::time::Duration;

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How often memory is looked for that can be given back.
const EVERY: Duration = Duration::from_secs(5);

/// Gives back what was freed. The allocator does that by itself only while it is asked for more, so not when
/// everybody has left.
pub(crate) async fn give_back() -> Infallible {
    loop {
        tokio::time::sleep(EVERY).await;
        #[allow(
            unsafe_code,
            reason = "the allocator is C; this takes nothing and may be called anywhere"
        )]
        unsafe {
            libmimalloc_sys::mi_collect(true);
        }
    }
}
