//! Ids of runs, agents and texts: UUIDs of version 7, as everywhere on the wire.

use std::time::UNIX_EPOCH;

use relay_protocol::ids::uuid_v7;
use relay_protocol::time::Timestamp;

/// An id that nobody else has.
pub fn new_id() -> String {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let mut random = [0; 16];
    if getrandom::fill(&mut random).is_err() {
        // Without randomness the clock's last digits are still different for each.
        random = since.as_nanos().to_le_bytes();
    }
    let random = u128::from_le_bytes(random);
    let id = uuid_v7(
        Timestamp::from_millis(millis),
        (random >> 64) as u16,
        random as u64,
    );
    id.to_string()
}
