use std::collections::BTreeSet;

use super::*;
use logsvc_testkit::{Rng, SeedGuard, seeds};

fn random(rng: &mut Rng) -> (RowSet, BTreeSet<u32>) {
    let span = *rng.pick(&[5, 40, 300]);
    let base = *rng.pick(&[0, 7, u32::MAX - 400]);
    let ranges: Vec<Range<u32>> = (0..rng.below(20))
        .map(|_| {
            let start = base + rng.below(span) as u32;
            start..start + rng.below(1 + span / 8) as u32
        })
        .collect();
    (RowSet::from_ranges(ranges.clone()), ranges.into_iter().flatten().collect())
}

fn check(set: &RowSet, rows: &BTreeSet<u32>) {
    assert!(set.iter().eq(rows.iter().copied()));
    assert!(set.ranges().iter().all(|range| !range.is_empty()));
    assert!(set.ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
    assert_eq!((set.len(), set.is_empty()), (rows.len(), rows.is_empty()));
}

#[test]
fn sets_of_ranges_are_sets_of_rows() {
    for seed in seeds(3000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let ((a, a_rows), (b, b_rows)) = (random(&mut rng), random(&mut rng));
        check(&a, &a_rows);
        check(&a.union(&b), &a_rows.union(&b_rows).copied().collect());
        let common = a_rows.intersection(&b_rows).copied().collect();
        check(&a.intersection(&b), &common);
        check(&a.among(b.ranges().iter().cloned()), &common);
        check(&a.difference(&b), &a_rows.difference(&b_rows).copied().collect());
        let probe = *rng.pick(&[0, 7, u32::MAX - 400]) + rng.below(350) as u32;
        assert_eq!(a.contains(probe), a_rows.contains(&probe));
        let rows = probe..probe + rng.below(10) as u32;
        assert_eq!(a.intersects(rows.clone()), rows.clone().any(|row| a_rows.contains(&row)));
        let mut pushed = RowSet::new();
        a.ranges().iter().for_each(|range| pushed.push(range.clone()));
        assert_eq!(pushed, a);
    }
}

#[test]
fn touching_ranges_are_one() {
    assert_eq!([3..5, 5..5, 0..3].into_iter().collect::<RowSet>(), RowSet::from(0..5));
    assert_eq!(RowSet::from(0..3).union(&RowSet::from(3..5)), RowSet::from(0..5));
    assert!(RowSet::from(4..4).is_empty());
}
