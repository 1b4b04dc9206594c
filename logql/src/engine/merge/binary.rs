//! Arithmetic and comparison between scalars and vectors.

use std::collections::BTreeMap;

use logsvc_proto::{Labels, LabelsBuilder};

use super::super::error::{EvalError, MatchingError};
use super::super::hash::{FixedMap, new_map};
use super::super::meter::Meter;
use super::grouping::{non_empty, select_labels};
use super::series::{Groups, Point, Series, Value};
use super::sets;
use crate::syntax::ast::{BinaryOp, Cardinality, MatchingKind, VectorMatching};

/// Evaluates an operator. A meter that is stopped ends it early.
///
/// # Errors
/// When samples of two vectors cannot be paired.
pub(crate) fn evaluate(
    meter: &Meter,
    op: BinaryOp,
    return_bool: bool,
    matching: &VectorMatching,
    left: Value,
    right: Value,
) -> Result<Value, EvalError> {
    let apply = |left: f64, right: f64| apply(op, return_bool, left, right);
    Ok(match (left, right) {
        (Value::Scalar(left), Value::Scalar(right)) => {
            // Two scalars always give a scalar, so a comparison counts.
            Value::Scalar(self::apply(op, true, left, right).unwrap_or(0.0))
        }
        (Value::Samples(series), Value::Scalar(right)) => {
            Value::Samples(map(meter, series, |value| {
                keep_side(op, return_bool, apply(value, right), value)
            }))
        }
        (Value::Scalar(left), Value::Samples(series)) => {
            Value::Samples(map(meter, series, |value| {
                keep_side(op, return_bool, apply(left, value), value)
            }))
        }
        (Value::Samples(left), Value::Samples(right)) => Value::Samples(match op {
            BinaryOp::And | BinaryOp::Or | BinaryOp::Unless => {
                sets::evaluate(meter, op, matching, left, right)
            }
            _ => pair(meter, matching, &left, &right, apply).map_err(EvalError::Matching)?,
        }),
    })
}

/// A filtering comparison of a vector with a scalar passes the vector's value.
fn keep_side(op: BinaryOp, return_bool: bool, result: Option<f64>, value: f64) -> Option<f64> {
    if is_comparison(op) && !return_bool { result.map(|_| value) } else { result }
}

fn is_comparison(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Equal
            | BinaryOp::NotEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterOrEqual
            | BinaryOp::Less
            | BinaryOp::LessOrEqual
    )
}

/// The value of `left op right`; `None` where a filtering comparison is false. A
/// filtering comparison that is true passes the left value.
fn apply(op: BinaryOp, return_bool: bool, left: f64, right: f64) -> Option<f64> {
    let compared = match op {
        BinaryOp::Equal => left == right,
        BinaryOp::NotEqual => left != right,
        BinaryOp::Greater => left > right,
        BinaryOp::GreaterOrEqual => left >= right,
        BinaryOp::Less => left < right,
        BinaryOp::LessOrEqual => left <= right,
        BinaryOp::Add => return Some(left + right),
        BinaryOp::Sub => return Some(left - right),
        BinaryOp::Mul => return Some(left * right),
        // Division by zero is NaN for every dividend, as in Loki.
        BinaryOp::Div => return Some(if right == 0.0 { f64::NAN } else { left / right }),
        BinaryOp::Mod => return Some(if right == 0.0 { f64::NAN } else { left % right }),
        BinaryOp::Pow => return Some(left.powf(right)),
        // Logical operators pair samples; the parser refuses them for scalars.
        BinaryOp::And | BinaryOp::Or | BinaryOp::Unless => return None,
    };
    match (return_bool, compared) {
        (true, compared) => Some(f64::from(u8::from(compared))),
        (false, true) => Some(left),
        (false, false) => None,
    }
}

/// Applies a function to all points and drops the points that it drops.
fn map(meter: &Meter, mut series: Vec<Series>, apply: impl Fn(f64) -> Option<f64>) -> Vec<Series> {
    for one in &mut series {
        if !meter.work(one.work()) {
            break;
        }
        one.points.retain_mut(|point| match apply(point.value) {
            Some(value) => {
                point.value = value;
                true
            }
            None => false,
        });
    }
    series.retain(|one| !one.points.is_empty());
    series
}

/// The labels by which samples are paired. A label without a value takes no part.
pub(super) fn signature(labels: &Labels, matching: &VectorMatching) -> Labels {
    let keep_listed = matching.kind == MatchingKind::On;
    if !keep_listed && matching.labels.is_empty() {
        return non_empty(labels);
    }
    select_labels(labels, &matching.labels, keep_listed)
}

/// One point of the side that is unique per signature.
#[derive(Clone, Copy)]
struct OnePoint {
    value: f64,
    series: usize,
}

/// Pairs samples with equal signatures, step by step.
fn pair(
    meter: &Meter,
    matching: &VectorMatching,
    left: &[Series],
    right: &[Series],
    apply: impl Fn(f64, f64) -> Option<f64>,
) -> Result<Vec<Series>, MatchingError> {
    let many_is_right = matches!(matching.cardinality, Cardinality::GroupRight(_));
    let (many, one) = if many_is_right { (right, left) } else { (left, right) };
    let apply = |many: f64, one: f64| {
        if many_is_right { apply(one, many) } else { apply(many, one) }
    };
    let one_side = if many_is_right { "left" } else { "right" };
    let ones = Groups::of(meter, one, |labels| signature(labels, matching));
    let manys = Groups::of(meter, many, |labels| signature(labels, matching));
    let points: usize = one.iter().map(|series| series.points.len()).sum();
    // Lists that double while they are made.
    let lists_bytes = points * 3 * size_of::<(u32, OnePoint)>()
        + ones.keys.len() * size_of::<Vec<(u32, OnePoint)>>();
    if !meter.admit(lists_bytes) {
        return Ok(Vec::new());
    }
    let mut uniques = Vec::with_capacity(ones.keys.len());
    for members in &ones.members {
        let points: usize = members.iter().map(|&member| one[member].points.len()).sum();
        meter.work(points * 2 * size_of::<(u32, OnePoint)>());
        uniques.push(unique_points(one, members, one_side)?);
    }
    let mut out = Vec::new();
    for (key, members) in manys.keys.iter().zip(&manys.members) {
        let Some(group) = ones.find(key) else { continue };
        let unique = &uniques[group];
        pair_group(meter, matching, key, (many, members), (one, unique), &apply, &mut out)?;
        if meter.is_stopped() {
            break;
        }
    }
    Ok(out)
}

/// The points of the unique side of one signature, steps ascending.
fn unique_points(
    series: &[Series],
    members: &[usize],
    side: &'static str,
) -> Result<Vec<(u32, OnePoint)>, MatchingError> {
    let mut points: Vec<(u32, OnePoint)> = members
        .iter()
        .flat_map(|&member| {
            series[member]
                .points
                .iter()
                .map(move |point| (point.step, OnePoint { value: point.value, series: member }))
        })
        .collect();
    if members.len() > 1 {
        points.sort_by_key(|(step, _)| *step);
        if points.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(MatchingError::DuplicateSeries { side });
        }
    }
    Ok(points)
}

/// Results of one signature by their labels: per step the value, or `None` where a
/// comparison dropped a pair, which still counts as a match.
type Results = Vec<(Labels, BTreeMap<u32, Option<f64>>)>;

/// Bytes of a value of [`Results`] in a tree, and as a point of a list that doubles.
const RESULT_BYTES: usize = 2 * size_of::<(u32, Option<f64>)>() + 3 * size_of::<Point>();

/// Bytes of a result besides its labels: entries of a table and of lists that double.
const RESULTS_BYTES: usize = 3 * size_of::<(Labels, usize)>()
    + 3 * size_of::<(Labels, BTreeMap<u32, Option<f64>>)>()
    + 3 * size_of::<Series>()
    + 4 * size_of::<Point>();

fn pair_group(
    meter: &Meter,
    matching: &VectorMatching,
    key: &Labels,
    (many, members): (&[Series], &[usize]),
    (one, uniques): (&[Series], &[(u32, OnePoint)]),
    apply: &impl Fn(f64, f64) -> Option<f64>,
    out: &mut Vec<Series>,
) -> Result<(), MatchingError> {
    // One series on either side is by far the most frequent case, and cannot clash.
    let is_simple = members.len() == 1;
    let mut results: Results = Vec::new();
    let mut known: FixedMap<Labels, usize> = new_map();
    for &member in members {
        let point_bytes = if is_simple { 3 * size_of::<Point>() } else { RESULT_BYTES };
        let points_bytes = point_bytes * many[member].points.len();
        if !meter.work(many[member].work() + points_bytes) || !meter.admit(points_bytes) {
            return Ok(());
        }
        let mut of_one: Vec<(usize, usize)> = Vec::new();
        let mut simple: Vec<(usize, Vec<Point>)> = Vec::new();
        for (point, found) in join(&many[member].points, uniques) {
            let value = apply(point.value, found.value);
            let index = match of_one.iter().find(|(series, _)| *series == found.series) {
                Some((_, index)) => *index,
                None => {
                    let one_labels = &one[found.series].labels;
                    let many_labels = &many[member].labels;
                    // In the table, in the list, in the result, and twice while they are made.
                    let labels_bytes = one_labels.as_bytes().len() + many_labels.as_bytes().len();
                    if !meter.work(labels_bytes) || !meter.admit(5 * labels_bytes + RESULTS_BYTES) {
                        return Ok(());
                    }
                    let labels = result_labels(matching, key, many_labels, one_labels);
                    let index = *known.entry(labels).or_insert_with_key(|labels| {
                        results.push((labels.clone(), BTreeMap::new()));
                        results.len() - 1
                    });
                    meter.release(2 * labels_bytes);
                    of_one.push((found.series, index));
                    index
                }
            };
            if is_simple {
                let Some(value) = value else { continue };
                let point = Point { step: point.step, value };
                match simple.iter_mut().find(|(other, _)| *other == index) {
                    Some((_, points)) => points.push(point),
                    None => simple.push((index, vec![point])),
                }
            } else if results[index].1.insert(point.step, value).is_some() {
                return Err(match matching.cardinality {
                    Cardinality::OneToOne => MatchingError::ManyToOne,
                    Cardinality::GroupLeft(_) | Cardinality::GroupRight(_) => {
                        MatchingError::NotUnique
                    }
                });
            }
        }
        for (index, points) in simple {
            out.push(Series { labels: results[index].0.clone(), points });
        }
    }
    for (labels, values) in results {
        let points: Vec<Point> = values
            .into_iter()
            .filter_map(|(step, value)| Some(Point { step, value: value? }))
            .collect();
        if !points.is_empty() {
            out.push(Series { labels, points });
        }
    }
    Ok(())
}

/// Points of both sides at equal steps.
fn join<'p>(
    many: &'p [Point],
    one: &'p [(u32, OnePoint)],
) -> impl Iterator<Item = (Point, OnePoint)> + 'p {
    let mut rest = one;
    many.iter().filter_map(move |point| {
        let skip = rest.iter().position(|(step, _)| *step >= point.step).unwrap_or(rest.len());
        rest = &rest[skip..];
        match rest.first() {
            Some((step, found)) if *step == point.step => Some((*point, *found)),
            _ => None,
        }
    })
}

fn result_labels(matching: &VectorMatching, key: &Labels, many: &Labels, one: &Labels) -> Labels {
    let included = match &matching.cardinality {
        Cardinality::OneToOne => return key.clone(),
        Cardinality::GroupLeft(included) | Cardinality::GroupRight(included) => included,
    };
    let many = non_empty(many);
    let mut builder = LabelsBuilder::from_labels(&many);
    for name in included {
        match one.get(name) {
            Some(value) if !value.is_empty() => builder.set(name.as_str(), value),
            _ => builder.del(name),
        };
    }
    builder.build_result()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn division_by_zero_is_nan_and_remainders_follow_the_dividend() {
        let value = |op, left, right| apply(op, false, left, right).expect("arithmetic");
        assert!(value(BinaryOp::Div, 1.0, 0.0).is_nan());
        assert!(value(BinaryOp::Mod, 1.0, 0.0).is_nan());
        assert_eq!(value(BinaryOp::Mod, -7.0, 4.0), -3.0);
        assert_eq!(value(BinaryOp::Pow, 2.0, 10.0), 1024.0);
    }

    #[test]
    fn comparisons_filter_or_count() {
        assert_eq!(apply(BinaryOp::Greater, false, 3.0, 2.0), Some(3.0));
        assert_eq!(apply(BinaryOp::Greater, false, 2.0, 3.0), None);
        assert_eq!(apply(BinaryOp::Greater, true, 2.0, 3.0), Some(0.0));
        assert_eq!(apply(BinaryOp::Equal, true, f64::NAN, f64::NAN), Some(0.0));
        assert_eq!(apply(BinaryOp::NotEqual, true, f64::NAN, f64::NAN), Some(1.0));
    }
}
