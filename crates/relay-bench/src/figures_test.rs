//! Tests of `figures.rs`, apart from it because another crate includes that file.

use std::time::Duration;

use crate::figures::{Latencies, median, range, ratios};

#[test]
fn percentiles_are_values_that_occurred() {
    let micros = |micros: u64| Duration::from_micros(micros);
    let latencies = Latencies::new((1..=100).rev().map(micros).collect());
    assert_eq!(latencies.percentile(50.0), micros(51));
    assert_eq!(latencies.percentile(99.0), micros(100));
    assert_eq!(latencies.percentile(100.0), micros(100));
    assert_eq!(Latencies::new(vec![]).percentile(50.0), Duration::ZERO);
    assert_eq!(Latencies::new(vec![micros(3)]).percentile(99.0), micros(3));
}

#[test]
fn a_median_is_the_middle_and_a_range_the_ends() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(&[4.0, 1.0]), 4.0);
    assert!(median(&[]).is_nan());
    assert_eq!(range(&[3.0, 1.0, 2.0]), (1.0, 3.0));
    assert_eq!(ratios(&[3.0, 1.0], &[2.0, 4.0]), [1.5, 0.25]);
}
