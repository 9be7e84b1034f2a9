//! The times of Gu et al., as their authors judged them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fs::File;
use std::path::Path;

use tapri_insight::audit::{Samples, THRESHOLD, judge};
use tapri_insight::lines::{Lines, decompressed};

#[test]
fn all_stored_statistics_and_p_values() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/audit/timing_samples.jsonl");
    let mut lines = Lines::new(decompressed(File::open(path).unwrap()).unwrap());
    let (mut rows, mut found, mut smallest, mut unequal) = (0, 0, 1.0f64, 0);
    while let Some(samples) = lines.next_json::<Samples>().unwrap() {
        let stored = samples.stored.unwrap();
        let judged = judge(&samples.hit_seconds, &samples.miss_seconds, THRESHOLD).unwrap();
        let (d, p) = (judged.faster.statistic, judged.faster.p);
        let error = |ours: f64, theirs: f64| (ours / theirs - 1.0).abs();
        assert!(error(d, stored.ks_statistic) < 1e-9, "{d} {stored:?}");
        assert!(error(p, stored.ks_p_one_sided) < 1e-9, "{p} {stored:?}");
        assert!(judged.faster.exact);
        rows += 1;
        found += usize::from(judged.found());
        smallest = smallest.min(p);
        unequal += usize::from(samples.hit_seconds.len() != samples.miss_seconds.len());
    }
    assert_eq!((rows, lines.broken.count, unequal), (31, 0, 1));
    // The smallest p of two samples of 250, one wholly below the other.
    assert!(smallest < 1e-149 && found == 13, "{smallest} {found}");
}
