//! When an event that could not be sent is tried again. Pure.

/// Waits after the first attempt, the second, and so on: three days in all, about.
const WAITS_S: [u64; 10] = [
    5,
    30,
    2 * 60,
    10 * 60,
    60 * 60,
    6 * 60 * 60,
    12 * 60 * 60,
    24 * 60 * 60,
    24 * 60 * 60,
    4 * 60 * 60,
];

/// How long to wait after so many attempts, in milliseconds; none: that was the last one.
///
/// Up to a tenth more or less, by chance, so that those who failed together do not come back together.
pub(super) fn wait_ms(attempts: u32, jitter: u64) -> Option<u64> {
    let at = usize::try_from(attempts).ok()?.checked_sub(1)?;
    let wait = WAITS_S.get(at)? * 1_000;
    let spread = wait / 5;
    Some(wait - spread / 2 + jitter % (spread + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_end_after_three_days() {
        let waits: Vec<u64> = (1..).map_while(|attempts| wait_ms(attempts, 0)).collect();
        assert_eq!(waits.len(), WAITS_S.len());
        assert!(waits[..8].is_sorted());
        let total: u64 = WAITS_S.iter().sum();
        let days = total as f64 / (24.0 * 60.0 * 60.0);
        assert!((2.9..3.1).contains(&days), "{days}");
        assert_eq!(wait_ms(0, 0), None);
        assert_eq!(wait_ms(11, 0), None);
    }

    #[test]
    fn chance_moves_a_wait_by_a_tenth_at_most() {
        for attempts in 1..=10 {
            let middle = WAITS_S[attempts as usize - 1] * 1_000;
            for jitter in [0, 1, 77, u64::MAX] {
                let wait = wait_ms(attempts, jitter).unwrap();
                assert!(wait >= middle - middle / 10 && wait <= middle + middle / 10);
            }
        }
    }
}
