//! Compares answers of queries with the known answers of the data set.

use super::known::{Newest, hash};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Relative difference that two sums of floating point numbers may have.
const TOLERANCE: f64 = 1e-6;

/// The expected answer to a query.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// Exactly these lines.
    Lines(Newest),
    /// One sample; none if it is zero.
    Number(f64),
    /// One sample for each combination of label values, which are joined by commas.
    ByLabels(Vec<&'static str>, BTreeMap<String, f64>),
    /// These samples, with any labels: of equal samples any may be cut off.
    Top(Vec<f64>),
    /// One series per label value, with samples by the number of the step.
    Steps(&'static str, BTreeMap<String, BTreeMap<usize, f64>>, Grid),
    /// A list with at least these texts; exactly these if the server was empty before.
    Texts(BTreeSet<String>, bool),
    /// A list with this number of elements.
    Length(usize),
}

/// The steps of a range query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) start_nanos: i64,
    pub(crate) step_nanos: i64,
}

impl Expected {
    /// How much is expected, for reports.
    pub(crate) fn summary(&self) -> String {
        match self {
            Expected::Lines(newest) => format!("{} lines", newest.0.len()),
            Expected::Number(number) => format!("{number}"),
            Expected::ByLabels(_, samples) => format!("{} series", samples.len()),
            Expected::Top(samples) => format!("{} series", samples.len()),
            Expected::Steps(_, series, _) => {
                let samples: usize = series.values().map(BTreeMap::len).sum();
                format!("{} series, {samples} samples", series.len())
            }
            Expected::Texts(texts, _) => format!("{} values", texts.len()),
            Expected::Length(length) => format!("{length} series"),
        }
    }

    /// Compares the body of an answer; the error names the difference.
    pub(crate) fn check(&self, body: &[u8]) -> Result<(), String> {
        let answer: Value =
            serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
        let data = &answer["data"];
        match self {
            Expected::Lines(newest) => check_lines(newest, data),
            Expected::Number(number) => {
                let found = vector(data)?;
                let found = match found.as_slice() {
                    [] => 0.0,
                    [(_, value)] => *value,
                    more => return Err(format!("{} samples instead of one", more.len())),
                };
                near(found, *number).then_some(()).ok_or_else(|| format!("{found}, not {number}"))
            }
            Expected::ByLabels(names, samples) => check_samples(names, samples, data),
            Expected::Top(samples) => {
                let mut found: Vec<f64> = vector(data)?.iter().map(|(_, value)| *value).collect();
                found.sort_by(|a, b| b.total_cmp(a));
                let equal = found.len() == samples.len()
                    && found.iter().zip(samples).all(|(found, known)| near(*found, *known));
                equal.then_some(()).ok_or_else(|| format!("{found:?}, not {samples:?}"))
            }
            Expected::Steps(name, series, grid) => check_steps(name, series, *grid, data),
            Expected::Texts(texts, alone) => {
                let found: BTreeSet<String> =
                    list(data)?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                if let Some(missing) = texts.difference(&found).next() {
                    return Err(format!("{missing:?} is missing"));
                }
                if *alone && found.len() > texts.len() {
                    return Err(format!("{} values, not {}", found.len(), texts.len()));
                }
                Ok(())
            }
            Expected::Length(length) => {
                let found = list(data)?.len();
                (found == *length).then_some(()).ok_or_else(|| format!("{found}, not {length}"))
            }
        }
    }
}

/// The statistics of an answer, if it has any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Statistics {
    /// Bytes of lines that the query has looked at.
    pub(crate) processed_bytes: Option<u64>,
    /// Compressed bytes that it has read.
    pub(crate) compressed_bytes: Option<u64>,
}

impl Statistics {
    pub(crate) fn of(body: &[u8]) -> Statistics {
        let answer: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
        let number = |path: &str| answer.pointer(path).and_then(Value::as_u64);
        let sides = ["querier", "ingester"]
            .map(|side| number(&format!("/data/stats/{side}/store/chunk/compressedBytes")));
        Statistics {
            processed_bytes: number("/data/stats/summary/totalBytesProcessed"),
            compressed_bytes: sides.into_iter().flatten().reduce(|a, b| a + b),
        }
    }
}

fn near(found: f64, known: f64) -> bool {
    (found - known).abs() <= known.abs() * TOLERANCE
}

fn list(data: &Value) -> Result<&Vec<Value>, String> {
    data.as_array().ok_or_else(|| "no list".to_owned())
}

fn result<'a>(data: &'a Value, wanted_type: &str) -> Result<&'a Vec<Value>, String> {
    if data["resultType"] != wanted_type {
        return Err(format!("{} instead of a {wanted_type}", data["resultType"]));
    }
    data["result"].as_array().ok_or_else(|| "no result".to_owned())
}

fn sample(pair: &Value) -> Result<(f64, f64), String> {
    let value = pair[1].as_str().and_then(|text| text.parse().ok());
    let time = pair[0].as_f64();
    time.zip(value).ok_or_else(|| format!("{pair} is not a sample"))
}

/// The samples of an instant query, with their labels.
fn vector(data: &Value) -> Result<Vec<(&Value, f64)>, String> {
    let samples = result(data, "vector")?.iter();
    samples.map(|series| Ok((&series["metric"], sample(&series["value"])?.1))).collect()
}

fn label_values(names: &[&str], metric: &Value) -> String {
    let values = names.iter().map(|name| metric[*name].as_str().unwrap_or_default());
    values.collect::<Vec<&str>>().join(",")
}

fn check_samples(
    names: &[&str],
    samples: &BTreeMap<String, f64>,
    data: &Value,
) -> Result<(), String> {
    let found = vector(data)?;
    if found.len() != samples.len() {
        return Err(format!("{} series, not {}", found.len(), samples.len()));
    }
    for (metric, value) in found {
        let labels = label_values(names, metric);
        match samples.get(&labels) {
            Some(known) if near(value, *known) => {}
            known => return Err(format!("{labels}: {value}, not {known:?}")),
        }
    }
    Ok(())
}

fn check_lines(newest: &Newest, data: &Value) -> Result<(), String> {
    let mut found = BTreeMap::new();
    let mut count = 0;
    for stream in result(data, "streams")? {
        for entry in stream["values"].as_array().into_iter().flatten() {
            let time = entry[0].as_str().and_then(|text| text.parse::<i64>().ok());
            let (Some(time), Some(line)) = (time, entry[1].as_str()) else {
                return Err(format!("{entry} is not an entry"));
            };
            found.insert(time, hash(line.as_bytes()));
            count += 1;
        }
    }
    if count != newest.0.len() {
        return Err(format!("{count} lines, not {}", newest.0.len()));
    }
    if found != newest.0 {
        let wrong = found.iter().filter(|(time, line)| newest.0.get(time) != Some(line)).count();
        return Err(format!("{wrong} of {count} lines are others than those that were pushed"));
    }
    Ok(())
}

fn check_steps(
    name: &str,
    series: &BTreeMap<String, BTreeMap<usize, f64>>,
    grid: Grid,
    data: &Value,
) -> Result<(), String> {
    let found = result(data, "matrix")?;
    let known = series.values().filter(|steps| !steps.is_empty()).count();
    if found.len() != known {
        return Err(format!("{} series, not {known}", found.len()));
    }
    for answer in found {
        let label = label_values(&[name], &answer["metric"]);
        let Some(steps) = series.get(&label) else { return Err(format!("{label:?} is unknown")) };
        let samples = answer["values"].as_array().map_or(&[][..], Vec::as_slice);
        if samples.len() != steps.len() {
            return Err(format!("{label}: {} samples, not {}", samples.len(), steps.len()));
        }
        for pair in samples {
            let (time_s, value) = sample(pair)?;
            let offset_s = time_s - grid.start_nanos as f64 / 1e9;
            let step = (offset_s * 1e9 / grid.step_nanos as f64).round() as usize;
            match steps.get(&step) {
                Some(rate) if near(value, *rate) => {}
                rate => return Err(format!("{label} at {time_s}: {value}, not {rate:?}")),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(expected: &Expected, data: &Value) -> bool {
        expected.check(json!({ "data": data }).to_string().as_bytes()).is_ok()
    }

    fn vector_of(samples: &[(&str, &str)]) -> Value {
        let result: Vec<Value> = samples
            .iter()
            .map(|(label, value)| json!({"metric": {"status": label}, "value": [17, value]}))
            .collect();
        json!({"resultType": "vector", "result": result})
    }

    #[test]
    fn numbers() {
        let expected = Expected::Number(1000.0);
        assert!(check(&expected, &vector_of(&[("", "1000")])));
        for wrong in [&[("", "999")][..], &[], &[("a", "500"), ("b", "500")], &[("", "x")]] {
            assert!(!check(&expected, &vector_of(wrong)), "{wrong:?}");
        }
        assert!(check(&Expected::Number(0.0), &vector_of(&[])));
        assert!(!check(&Expected::Number(0.0), &vector_of(&[("", "1")])));
        assert!(expected.check(b"{").is_err());
    }

    #[test]
    fn samples_by_label_and_the_largest_of_all() {
        let known = BTreeMap::from([("200".to_owned(), 7.0), ("404".to_owned(), 2.0)]);
        let expected = Expected::ByLabels(vec!["status"], known);
        assert!(check(&expected, &vector_of(&[("404", "2"), ("200", "7")])));
        assert!(!check(&expected, &vector_of(&[("404", "7"), ("200", "2")])));
        assert!(!check(&expected, &vector_of(&[("404", "2")])));
        let expected = Expected::Top(vec![7.0, 2.0]);
        assert!(check(&expected, &vector_of(&[("a", "2"), ("b", "7")])));
        assert!(!check(&expected, &vector_of(&[("a", "2"), ("b", "6")])));
        assert!(!check(&expected, &vector_of(&[("b", "7")])));
    }

    #[test]
    fn lines() {
        let newest = Newest(BTreeMap::from([(5, hash(b"five")), (7, hash(b"seven"))]));
        let expected = Expected::Lines(newest);
        let answer =
            |values: Value| json!({"resultType": "streams", "result": [{"values": values}]});
        assert!(check(&expected, &answer(json!([["7", "seven"], ["5", "five", {}]]))));
        for wrong in [
            json!([["7", "seven"]]),
            json!([["7", "seven"], ["5", "FIVE"]]),
            json!([["7", "seven"], ["6", "five"]]),
            json!([["7", "seven"], ["5", "five"], ["5", "five"]]),
            json!([["7", "seven"], [5, "five"]]),
        ] {
            assert!(!check(&expected, &answer(wrong.clone())), "{wrong}");
        }
    }

    #[test]
    fn steps() {
        let grid = Grid { start_nanos: 100_000_000_000, step_nanos: 60_000_000_000 };
        let known = BTreeMap::from([("info".to_owned(), BTreeMap::from([(0, 1.5), (2, 3.0)]))]);
        let expected = Expected::Steps("level", known, grid);
        let answer = |level: &str, values: Value| json!({"resultType": "matrix", "result": [{"metric": {"level": level}, "values": values}]});
        assert!(check(&expected, &answer("info", json!([[100, "1.5"], [220, "3"]]))));
        for wrong in [
            answer("warn", json!([[100, "1.5"], [220, "3"]])),
            answer("info", json!([[100, "1.5"]])),
            answer("info", json!([[100, "1.5"], [160, "3"]])),
            answer("info", json!([[100, "1.5"], [220, "4"]])),
        ] {
            assert!(!check(&expected, &wrong), "{wrong}");
        }
    }

    #[test]
    fn lists() {
        let texts: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let alone = Expected::Texts(texts.clone(), true);
        assert!(check(&alone, &json!(["b", "a"])));
        assert!(!check(&alone, &json!(["b", "a", "c"])));
        assert!(check(&Expected::Texts(texts, false), &json!(["b", "a", "c"])));
        assert!(!check(&alone, &json!(["a"])));
        assert!(check(&Expected::Length(2), &json!([{}, {}])));
        assert!(!check(&Expected::Length(2), &json!([{}])));
        assert!(!check(&Expected::Length(2), &json!(null)));
    }

    #[test]
    fn statistics_are_absent_where_a_server_gives_none() {
        let body = json!({"data": {"stats": {
            "summary": {"totalBytesProcessed": 5},
            "querier": {"store": {"chunk": {"compressedBytes": 3}}},
            "ingester": {"store": {"chunk": {"compressedBytes": 1}}},
        }}});
        let statistics = Statistics::of(body.to_string().as_bytes());
        let expected = Statistics { processed_bytes: Some(5), compressed_bytes: Some(4) };
        assert_eq!(statistics, expected);
        assert_eq!(Statistics::of(b"{}"), Statistics::default());
    }
}
