//! `and`, `or` and `unless`: samples chosen by whether their signature occurs on
//! the other side at the same step.

use super::binary::signature;
use super::series::{Groups, Point, Series};
use crate::syntax::ast::{BinaryOp, VectorMatching};
use logsvc_proto::Labels;

/// Evaluates a logical operator; any other operator is taken for `unless`.
pub(crate) fn evaluate(
    op: BinaryOp,
    matching: &VectorMatching,
    left: Vec<Series>,
    right: Vec<Series>,
) -> Vec<Series> {
    match op {
        BinaryOp::Or => {
            let rest = filtered(right, &left, matching, false);
            joined(left, rest)
        }
        BinaryOp::And => filtered(left, &right, matching, true),
        _ => filtered(left, &right, matching, false),
    }
}

/// The samples whose signature occurs (`present`) or does not occur in `other`.
fn filtered(
    series: Vec<Series>,
    other: &[Series],
    matching: &VectorMatching,
    present: bool,
) -> Vec<Series> {
    let groups = Groups::of(other, |labels| signature(labels, matching));
    let steps: Vec<Vec<u32>> =
        groups.members.iter().map(|members| steps_of(other, members)).collect();
    let mut kept = Vec::with_capacity(series.len());
    for mut one in series {
        let key: Labels = signature(&one.labels, matching);
        match groups.find(&key) {
            Some(group) => {
                let steps = &steps[group];
                one.points.retain(|point| steps.binary_search(&point.step).is_ok() == present);
            }
            None if present => one.points.clear(),
            None => {}
        }
        if !one.points.is_empty() {
            kept.push(one);
        }
    }
    kept
}

/// The steps at which any member has a sample, ascending.
fn steps_of(series: &[Series], members: &[usize]) -> Vec<u32> {
    let mut steps: Vec<u32> =
        members.iter().flat_map(|&m| series[m].points.iter().map(|point| point.step)).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// All series of both; where the same labels occur on both sides at different
/// steps they are one series.
fn joined(left: Vec<Series>, right: Vec<Series>) -> Vec<Series> {
    let groups = Groups::of(&left, Labels::clone);
    let mut out = left;
    for one in right {
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
