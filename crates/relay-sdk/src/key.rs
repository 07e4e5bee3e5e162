//! Keys that make a repeated request harmless.

/// A key that nobody else has; none if the system has no random bits.
pub(crate) fn new_key() -> Option<String> {
    let mut bits = [0; 16];
    getrandom::fill(&mut bits).ok()?;
    Some(format!("sdk-{:032x}", u128::from_be_bytes(bits)))
}
