//! `and`, `or` and `unless`: samples chosen by whether their signature occurs on
//! the other side at the same step.

use super::super::meter::Meter;
use super::binary::signature;
use super::series::{Groups, Point, Series};
use crate::syntax::ast::{BinaryOp, VectorMatching};
use logsvc_proto::Labels;

/// Evaluates a logical operator; any other operator is taken for `unless`. A meter that is
/// stopped ends it early.
pub(crate) fn evaluate(
    meter: &Meter,
    op: BinaryOp,
    matching: &VectorMatching,
    left: Vec<Series>,
    right: Vec<Series>,
) -> Vec<Series> {
    match op {
        BinaryOp::Or => {
            let rest = filtered(meter, right, &left, matching, false);
            joined(meter, left, rest)
        }
        BinaryOp::And => filtered(meter, left, &right, matching, true),
        _ => filtered(meter, left, &right, matching, false),
    }
}

/// The work of sorting a step into many.
const SORT_WORK: usize = 32;

/// The samples whose signature occurs (`present`) or does not occur in `other`.
fn filtered(
    meter: &Meter,
    series: Vec<Series>,
    other: &[Series],
    matching: &VectorMatching,
    present: bool,
) -> Vec<Series> {
    let groups = Groups::of(meter, other, |labels| signature(labels, matching));
    // Lists that double while they are made.
    let points: usize = other.iter().map(|one| one.points.len()).sum();
    let lists_bytes = points * 3 * size_of::<u32>() + groups.keys.len() * size_of::<Vec<u32>>();
    if !meter.admit(lists_bytes + series.len() * size_of::<Series>()) {
        return Vec::new();
    }
    let steps: Vec<Vec<u32>> =
        groups.members.iter().map(|members| steps_of(meter, other, members)).collect();
    let mut kept = Vec::with_capacity(series.len());
    for mut one in series {
        let (work, labels_bytes) = (one.work(), one.labels.as_bytes().len());
        if !meter.work(2 * work) || !meter.admit(2 * labels_bytes) {
            break;
        }
        let key: Labels = signature(&one.labels, matching);
        match groups.find(&key) {
            Some(group) => {
                let steps = &steps[group];
                one.points.retain(|point| steps.binary_search(&point.step).is_ok() == present);
            }
            None if present => one.points.clear(),
            None => {}
        }
        meter.release(2 * labels_bytes);
        if !one.points.is_empty() {
            kept.push(one);
        }
    }
    kept
}

/// The steps at which any member has a sample, ascending.
fn steps_of(meter: &Meter, series: &[Series], members: &[usize]) -> Vec<u32> {
    let mut steps: Vec<u32> =
        members.iter().flat_map(|&m| series[m].points.iter().map(|point| point.step)).collect();
    meter.work(steps.len() * SORT_WORK);
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// All series of both; where the same labels occur on both sides at different
/// steps they are one series.
fn joined(meter: &Meter, left: Vec<Series>, right: Vec<Series>) -> Vec<Series> {
    // The list of the left series grows to hold the right series.
    let bytes = |series: &[Series]| series.iter().map(Series::held_bytes).sum::<usize>();
    if !meter.admit(2 * size_of::<Series>() * (left.len() + right.len()) + bytes(&right)) {
        return Vec::new();
    }
    let groups = Groups::of(meter, &left, Labels::clone);
    let mut out = left;
    for one in right {
        if !meter.work(2 * one.work()) {
            break;
        }
        match groups.find(&one.labels).map(|group| groups.members[group].as_slice()) {
            Some(&[member]) if is_disjoint(&out[member].points, &one.points) => {
                out[member].points.extend(one.points);
                out[member].points.sort_unstable_by_key(|point| point.step);
            }
            _ => out.push(one),
        }
    }
    out
}

fn is_disjoint(a: &[Point], b: &[Point]) -> bool {
    b.iter().all(|point| a.binary_search_by_key(&point.step, |other| other.step).is_err())
}
