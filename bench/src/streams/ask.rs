//! Asks the questions of a probe and times the answers. Checking is not in the times. A wrong or
//! refused answer is counted, and the first one is named.

use super::probes::Probe;
use crate::latency::Latencies;
use crate::target::TargetArgs;
use serde_json::{Value, json};
use std::time::Instant;

/// Otherwise a repetition would measure that nothing is done.
const HEADERS: &str = "Cache-Control: no-cache\r\n";

/// The answers to one probe.
pub(crate) struct Answers {
    name: &'static str,
    title: &'static str,
    /// Lines, values or series that were expected in all, at least.
    size: usize,
    first: Latencies,
    again: Latencies,
    wrong: u64,
    first_fault: Option<String>,
}

impl Answers {
    /// Asks every question once, and then every question again.
    pub(crate) fn to(probe: &Probe, target: &TargetArgs) -> Answers {
        let mut answers = Answers {
            name: probe.name,
            title: probe.title,
            size: probe.questions.iter().map(|question| question.size()).sum(),
            first: Latencies::new(),
            again: Latencies::new(),
            wrong: 0,
            first_fault: None,
        };
        let mut client = target.client();
        for pass in 0..2 {
            for question in &probe.questions {
                let request = target.get(&question.path_and_query, HEADERS);
                let clock = Instant::now();
                let answer = client.send_repeatable(&request);
                let seconds = clock.elapsed();
                let checked = match answer {
                    Ok(answer) if answer.is_success() => question.check(&answer.body),
                    Ok(answer) => Err(format!("status {}: {}", answer.status, answer.excerpt())),
                    Err(error) => Err(error.to_string()),
                };
                if let Err(fault) = checked {
                    answers.wrong += 1;
                    answers
                        .first_fault
                        .get_or_insert_with(|| format!("{fault} ({})", question.path_and_query));
                }
                let latencies = if pass == 0 { &mut answers.first } else { &mut answers.again };
                latencies.record(seconds);
            }
        }
        answers
    }

    /// What was wrong, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        let fault = self.first_fault.as_ref()?;
        Some(format!("{}: {} wrong answers, first: {fault}", self.title, self.wrong))
    }

    /// A row for people.
    pub(crate) fn row(&self) -> String {
        let times = |latencies: &Latencies| {
            format!("{:9.2} {:9.2}", latencies.quantile_ms(0.5), latencies.max_ms())
        };
        format!(
            "{:<40} {:>5} {:>9} {} {} {:>6}",
            self.title,
            self.first.count(),
            self.size,
            times(&self.first),
            times(&self.again),
            self.wrong
        )
    }

    /// The names of the columns of a row.
    pub(crate) fn columns() -> String {
        format!(
            "{:<40} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}",
            "probe", "asked", "expected", "first p50", "max, ms", "again p50", "max, ms", "wrong"
        )
    }

    /// For programs.
    pub(crate) fn figures(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "expected": self.size,
            "first": self.first.to_json(),
            "again": self.again.to_json(),
            "wrong": self.wrong,
            "fault": self.first_fault,
        })
    }
}
