//! Questions about old streams, with their answers, which the generator makes again.
//!
//! Every answer is checked. The newest lines of a stream must be exactly those that were pushed.
//! Values and series must have every stream with a line in the range, and none whose first and
//! last line lie on one side of it: a server may keep the two times of a stream alone. Over a whole
//! day both are the same set.

use super::generator::{Generator, NAMESPACES};
use crate::http::encode_query;
use crate::labels;
use logsvc_testkit::{Rng, mix};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::Range;

/// Lines that are asked for.
const LIMIT: u64 = 100;
const HOUR_NANOS: i64 = 3_600_000_000_000;
/// Lets the questions be other numbers than the data.
const QUESTIONS: u64 = 0x71;

/// A request and its answer.
pub(crate) struct Question {
    pub(crate) path_and_query: String,
    expected: Expected,
}

enum Expected {
    /// Exactly these lines, newest first.
    Lines(Vec<(i64, String)>),
    /// Values of `pod`.
    Values(Bounds),
    /// Series, as `pod/stream`.
    Series(Bounds),
}

/// What an answer must have, and what it may have besides.
#[derive(Default)]
struct Bounds {
    least: BTreeSet<String>,
    most: BTreeSet<String>,
}

/// Questions of one kind.
pub(crate) struct Probe {
    /// Stable name, for programs.
    pub(crate) name: &'static str,
    /// Its name for people.
    pub(crate) title: &'static str,
    pub(crate) questions: Vec<Question>,
}

/// All probes over the first `days` days: `count` streams, and a quarter as many of the others.
pub(crate) fn all(generator: &Generator, days: u64, count: usize) -> Vec<Probe> {
    let mut rng = Rng::new(mix(generator.seed, QUESTIONS));
    let few = count.div_ceil(4);
    let mut make = |name, title, count, question: fn(&Generator, u64, &mut Rng) -> Question| {
        let questions = (0..count).map(|_| {
            let day = rng.below(days);
            question(generator, day, &mut rng)
        });
        Probe { name, title, questions: questions.collect() }
    };
    vec![
        make("last-100", "last 100 lines of a stream of one day", count, newest),
        make("pod-values", "pods of a namespace in one hour", few, pod_values),
        make("series", "series of a namespace of one day", few, series),
    ]
}

fn newest(generator: &Generator, day: u64, rng: &mut Rng) -> Question {
    let stream = rng.below(generator.plan.streams);
    let selector = labels::to_selector(&generator.labels(day, stream));
    let Range { start, end } = generator.day(day);
    let lines = generator.plan.lines;
    let lines = (lines.saturating_sub(LIMIT)..lines).rev().map(|line| {
        let entry = generator.entry(day, stream, line);
        (entry.unix_nanos, entry.line)
    });
    Question {
        path_and_query: format!(
            "/loki/api/v1/query_range?start={start}&end={end}&limit={LIMIT}\
             &direction=backward&query={}",
            encode_query(&selector)
        ),
        expected: Expected::Lines(lines.collect()),
    }
}

fn pod_values(generator: &Generator, day: u64, rng: &mut Rng) -> Question {
    let namespace = rng.below(NAMESPACES);
    let start = generator.day(day).start + rng.below(24) as i64 * HOUR_NANOS;
    let end = start + HOUR_NANOS;
    let name = |day, stream: u64| generator.pod_name(day, stream / 2);
    Question {
        path_and_query: format!(
            "/loki/api/v1/label/pod/values?start={start}&end={end}&query={}",
            encode_query(&selector_of(namespace))
        ),
        expected: Expected::Values(bounds(generator, day, namespace, &(start..end), name)),
    }
}

fn series(generator: &Generator, day: u64, rng: &mut Rng) -> Question {
    let namespace = rng.below(NAMESPACES);
    let range = generator.day(day);
    let name = |day, stream: u64| {
        format!("{}/{}", generator.pod_name(day, stream / 2), Generator::output_of(stream))
    };
    Question {
        path_and_query: format!(
            "/loki/api/v1/series?start={}&end={}&match[]={}",
            range.start,
            range.end,
            encode_query(&selector_of(namespace))
        ),
        expected: Expected::Series(bounds(generator, day, namespace, &range, name)),
    }
}

fn selector_of(namespace: u64) -> String {
    format!("{{namespace=\"{}\"}}", Generator::namespace(namespace))
}

/// The names of the streams of a namespace in a range of a day.
fn bounds(
    generator: &Generator,
    day: u64,
    namespace: u64,
    range: &Range<i64>,
    name: impl Fn(u64, u64) -> String,
) -> Bounds {
    let plan = &generator.plan;
    let day_start = generator.day(day).start;
    let mut bounds = Bounds::default();
    for pod in (0..plan.pods()).filter(|pod| generator.namespace_of(day, *pod) == namespace) {
        for stream in plan.streams_of_pod(pod) {
            // Most streams are ruled out without the times of their lines.
            let life = plan.life(stream);
            if day_start + life.end <= range.start || day_start + life.start >= range.end {
                continue;
            }
            let time = |line| generator.time(day, stream, line);
            if time(plan.lines - 1) >= range.start && time(0) < range.end {
                bounds.most.insert(name(day, stream));
            }
            if (0..plan.lines).any(|line| range.contains(&time(line))) {
                bounds.least.insert(name(day, stream));
            }
        }
    }
    bounds
}

impl Question {
    /// Lines, values or series that the answer has at least.
    pub(crate) fn size(&self) -> usize {
        match &self.expected {
            Expected::Lines(lines) => lines.len(),
            Expected::Values(bounds) | Expected::Series(bounds) => bounds.least.len(),
        }
    }

    /// Compares the body of an answer; the error names the difference.
    pub(crate) fn check(&self, body: &[u8]) -> Result<(), String> {
        let answer: Value =
            serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
        let data = &answer["data"];
        match &self.expected {
            Expected::Lines(lines) => check_lines(lines, data),
            Expected::Values(bounds) => {
                bounds.check(data, |value| value.as_str().map(str::to_owned))
            }
            Expected::Series(bounds) => bounds.check(data, |labels| {
                Some(format!("{}/{}", labels["pod"].as_str()?, labels["stream"].as_str()?))
            }),
        }
    }
}

impl Bounds {
    fn check(&self, data: &Value, name: impl Fn(&Value) -> Option<String>) -> Result<(), String> {
        // An answer about nothing may have no data.
        let none = Vec::new();
        let list = match data {
            Value::Null => &none,
            data => data.as_array().ok_or("no list")?,
        };
        let found: Option<BTreeSet<String>> = list.iter().map(name).collect();
        let found = found.ok_or("an element without the labels")?;
        if found.len() != list.len() {
            return Err(format!(
                "{} of {} elements are there twice",
                list.len() - found.len(),
                list.len()
            ));
        }
        let missing = self.least.difference(&found).count();
        let foreign = found.difference(&self.most).count();
        if missing + foreign > 0 {
            let (count, least) = (found.len(), self.least.len());
            return Err(format!("{count}, not {least}: {missing} missing, {foreign} foreign"));
        }
        Ok(())
    }
}

/// The lines may be parted by metadata that the server has added.
fn check_lines(lines: &[(i64, String)], data: &Value) -> Result<(), String> {
    let mut found = Vec::new();
    for stream in data["result"].as_array().ok_or("no result")? {
        for entry in stream["values"].as_array().ok_or("a stream without values")? {
            let time = entry[0].as_str().and_then(|text| text.parse::<i64>().ok());
            let line = entry[1].as_str();
            let (time, line) = time.zip(line).ok_or_else(|| format!("{entry} is not an entry"))?;
            found.push((time, line.to_owned()));
        }
    }
    found.sort_by(|a, b| b.cmp(a));
    if found.len() != lines.len() {
        return Err(format!("{} lines, not {}", found.len(), lines.len()));
    }
    match found.iter().zip(lines).filter(|(found, pushed)| found != pushed).count() {
        0 => Ok(()),
        wrong => Err(format!("{wrong} of {} lines were not pushed so", lines.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Plan;
    use super::*;
    use serde_json::json;

    fn probes() -> Vec<Probe> {
        let plan = Plan::new(2000, 5, 1000).unwrap();
        let generator = Generator { plan, seed: 7, first_day_nanos: 1_800_000_000_000_000_000 };
        all(&generator, 3, 4)
    }

    #[test]
    fn every_probe_asks_for_something_and_always_the_same() {
        let (probes, again) = (probes(), probes());
        for (probe, again) in probes.iter().zip(&again) {
            for (one, other) in probe.questions.iter().zip(&again.questions) {
                assert_eq!(one.path_and_query, other.path_and_query);
                assert!(one.size() > 0, "{}", one.path_and_query);
            }
        }
        let counts: Vec<usize> = probes.iter().map(|probe| probe.questions.len()).collect();
        assert_eq!(counts, [4, 1, 1]);
    }

    #[test]
    fn right_answers_pass_and_wrong_ones_do_not() {
        let probes = probes();
        let question = &probes[0].questions[0];
        let Expected::Lines(lines) = &question.expected else { panic!("lines") };
        let answer = |lines: &[(i64, String)]| {
            let values: Vec<_> =
                lines.iter().map(|(time, line)| json!([time.to_string(), line])).collect();
            let result = json!([{"stream": {}, "values": values}]);
            json!({"data": {"resultType": "streams", "result": result}}).to_string()
        };
        assert_eq!(question.check(answer(lines).as_bytes()), Ok(()));
        assert!(question.check(answer(&lines[1..]).as_bytes()).is_err());
        let mut changed = lines.clone();
        changed[2].1.push('x');
        assert!(question.check(answer(&changed).as_bytes()).is_err());
        assert!(question.check(b"{}").is_err());

        let question = &probes[1].questions[0];
        let Expected::Values(bounds) = &question.expected else { panic!("values") };
        assert!(bounds.least.is_subset(&bounds.most));
        let answer = |values: &BTreeSet<String>| json!({"data": values}).to_string();
        assert_eq!(question.check(answer(&bounds.least).as_bytes()), Ok(()));
        assert_eq!(question.check(answer(&bounds.most).as_bytes()), Ok(()));
        let mut values = bounds.most.clone();
        values.insert("other".to_owned());
        assert!(question.check(answer(&values).as_bytes()).is_err());
        assert!(question.check(b"{\"status\":\"success\"}").is_err());

        let Expected::Series(bounds) = &probes[2].questions[0].expected else { panic!("series") };
        assert_eq!(bounds.least, bounds.most, "a whole day leaves no doubt");
    }
}
