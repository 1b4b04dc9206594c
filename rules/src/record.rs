//! A recording rule: from the vector of an evaluation to samples of its metric.
//!
//! Nothing here does I/O. The semantics are Prometheus': the metric's name and the rule's labels
//! win over the result's, equal labels of two results are an error, and a series that the result
//! does not have any more ends with a stale marker.

use logsvc_logql::engine::VectorSample;
use logsvc_proto::{Labels, LabelsBuilder};

use crate::label_sets::without_empty;
use crate::rule_error::RuleError;
use crate::sink::RecordedSample;

/// What an evaluation gave.
#[derive(Clone, PartialEq, Debug)]
pub struct Recorded {
    /// The samples, in the bytewise order of their encoded labels.
    pub samples: Vec<RecordedSample>,
    /// The series that have ended with this evaluation.
    pub ended: Vec<Labels>,
    /// All series of the result, in the same order as the samples.
    pub series: Vec<Labels>,
}

/// The samples of a result. `before` are the series of the last evaluation whose samples were
/// taken.
///
/// # Errors
/// Two results would be samples of one series, or there are more series than `limit`, unless that
/// is 0.
pub fn record(
    vector: Vec<VectorSample>,
    name: &str,
    labels: &[(String, String)],
    limit: u64,
    timestamp_ms: i64,
    before: &[Labels],
) -> Result<Recorded, RuleError> {
    let found = vector.len();
    let sample = |sample: VectorSample| RecordedSample {
        labels: series_labels(&sample.labels, name, labels),
        timestamp_ms,
        value: sample.point.value,
    };
    let mut samples: Vec<RecordedSample> = vector.into_iter().map(sample).collect();
    samples.sort_by(|a, b| a.labels.as_bytes().cmp(b.labels.as_bytes()));
    if samples.windows(2).any(|pair| pair[0].labels == pair[1].labels) {
        return Err(RuleError::SameSeries);
    }
    if limit > 0 && found as u64 > limit {
        return Err(RuleError::TooManySeries { limit, found });
    }
    let series: Vec<Labels> = samples.iter().map(|sample| sample.labels.clone()).collect();
    let ended = before.iter().filter(|labels| !contains(&series, labels)).cloned().collect();
    Ok(Recorded { samples, ended, series })
}

/// Whether a list in bytewise order has these labels.
pub fn contains(sorted: &[Labels], labels: &Labels) -> bool {
    sorted.binary_search_by(|probe| probe.as_bytes().cmp(labels.as_bytes())).is_ok()
}

fn series_labels(result: &Labels, name: &str, labels: &[(String, String)]) -> Labels {
    let mut builder = LabelsBuilder::from_labels(result);
    builder.set("__name__", name);
    for (name, value) in labels {
        builder.set(name.as_str(), value.as_str());
    }
    without_empty(builder)
}

#[cfg(test)]
mod tests {
    use logsvc_logql::engine::ResultPoint;

    use super::*;

    fn sample(pairs: &[(&str, &str)], value: f64) -> VectorSample {
        let labels = Labels::from_result_pairs(pairs.iter().copied()).unwrap();
        VectorSample { labels, point: ResultPoint { timestamp_ms: 1, value } }
    }

    fn rule_label(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn name_and_rule_labels_win_and_empty_labels_vanish() {
        let vector = vec![sample(&[("__name__", "x"), ("a", "1"), ("b", ""), ("src", "z")], 4.0)];
        let got = record(vector, "m", &rule_label("src", "rec"), 0, 77, &[]).unwrap();
        assert_eq!(got.samples[0].labels.canonical(), r#"{__name__="m", a="1", src="rec"}"#);
        assert_eq!((got.samples[0].timestamp_ms, got.samples[0].value), (77, 4.0));
    }

    #[test]
    fn equal_series_are_an_error() {
        // Pitfall 4, for recording rules.
        let vector = vec![sample(&[("pod", "p1")], 3.0), sample(&[("pod", "p2")], 5.0)];
        let got = record(vector.clone(), "m", &rule_label("pod", "all"), 0, 1, &[]);
        assert_eq!(got, Err(RuleError::SameSeries));
        let got = record(vector, "m", &rule_label("team", "x"), 0, 1, &[]).unwrap();
        assert_eq!(got.samples.len(), 2);
    }

    #[test]
    fn more_series_than_the_limit_are_an_error() {
        let vector = vec![sample(&[("pod", "p1")], 3.0), sample(&[("pod", "p2")], 5.0)];
        let got = record(vector.clone(), "m", &[], 1, 1, &[]);
        let text = got.map_err(|error| error.to_string());
        assert_eq!(text, Err("exceeded limit of 1 with 2 series".to_owned()));
        assert!(record(vector, "m", &[], 2, 1, &[]).is_ok());
    }

    #[test]
    fn a_series_that_the_result_lacks_has_ended() {
        let both = vec![sample(&[("pod", "p1")], 3.0), sample(&[("pod", "p2")], 5.0)];
        let first = record(both, "m", &[], 0, 1, &[]).unwrap();
        assert_eq!(first.ended, []);
        let one = vec![sample(&[("pod", "p1")], 3.0)];
        let second = record(one.clone(), "m", &[], 0, 2, &first.series).unwrap();
        let ended: Vec<String> = second.ended.iter().map(Labels::canonical).collect();
        assert_eq!(ended, [r#"{__name__="m", pod="p2"}"#]);
        assert_eq!(record(one, "m", &[], 0, 3, &second.series).unwrap().ended, []);
    }
}
