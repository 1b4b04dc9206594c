//! Random valid queries and near-valid ones, from the text to the answer: parsed,
//! printed, parsed again, and evaluated over small data on 1, 2, 3 and 7 shards.
//!
//! Two sources: queries written from pieces that fit the data, so that they have
//! answers, and the trees of [`Generator`], which have everything the language can
//! write, over selectors that find something. A seed names a case.

use logsvc_logql::engine::testing::{Layout, QueryError, TestEntry, TestStore};
use logsvc_logql::engine::{Direction, EvalError, QueryParams, QueryResult};
use logsvc_logql::syntax::ast::{Expr, LogExpr, MatchOp, Matcher, MetricExpr, Selector, Text};
use logsvc_logql::syntax::{format, parse};
use logsvc_logql::testing::{Generator, Rng, Writer};
use logsvc_proto::Labels;

const SECOND_NS: i64 = 1_000_000_000;

/// A case: what is written, over which store and parameters.
trait Cases {
    fn store(&mut self) -> TestStore;
    fn layouts(&mut self) -> [Layout; 4];
    fn params(&mut self) -> QueryParams;
}

impl Cases for Writer {
    fn store(&mut self) -> TestStore {
        let mut store = TestStore::new();
        for stream in 0..1 + self.rng.below(6) {
            let (stream, env) = (stream.to_string(), self.pick(&["p", "q"]));
            let labels = Labels::from_pairs([("app", "m"), ("env", env), ("s", stream.as_str())])
                .expect("valid labels");
            let mut timestamp_ns = 0;
            for _ in 0..self.rng.below(25) {
                timestamp_ns += SECOND_NS / 4 * self.rng.below(4) as i64;
                let line = self.line().into_bytes();
                let metadata = match self.rng.below(4) {
                    0 => vec![("trace".to_owned(), self.rng.below(3).to_string())],
                    1 => vec![("level".to_owned(), "meta".to_owned())],
                    _ => Vec::new(),
                };
                store.push(&labels, TestEntry { timestamp_ns, line, metadata });
            }
        }
        store
    }

    fn layouts(&mut self) -> [Layout; 4] {
        [1, 2, 3, 7].map(|shards| Layout {
            shards,
            block_entries: 1 + self.rng.below(20),
            sort_blocks: self.rng.one_in(2),
            scatter_blocks: self.rng.one_in(2),
            use_summaries: self.rng.one_in(2),
            use_wants: self.rng.one_in(2),
            use_shortcuts: self.rng.one_in(2),
            repeat_sets: shards == 3,
        })
    }

    fn params(&mut self) -> QueryParams {
        let start_ns = SECOND_NS * self.rng.below(10) as i64;
        let end_ns = start_ns + SECOND_NS * self.rng.below(20) as i64;
        let mut params = match self.rng.below(4) {
            0 => QueryParams::instant(end_ns),
            _ => QueryParams::range(start_ns, end_ns, *self.rng.pick(&[1, 7, 25]) * SECOND_NS / 10),
        };
        params.limit = 1 + self.rng.below(30);
        if self.rng.one_in(2) {
            params.direction = Direction::Forward;
        }
        params
    }
}

/// An answer with every bit of its numbers, or the error.
#[derive(PartialEq, Debug)]
enum Answer {
    Result(String),
    Error(String),
    /// Entries with errors; which of their series is named is left open.
    EntryError,
    TooManySeries,
}

impl Answer {
    fn is_empty(&self) -> bool {
        matches!(self, Self::Result(text) if text.ends_with("[])"))
    }
}

fn answer(store: &TestStore, query: &str, params: &QueryParams, layout: &Layout) -> Answer {
    match store.query_with(query, params, layout) {
        // Numbers are printed so that they read back, and zeros with their sign.
        Ok(result) => Answer::Result(format!("{result:?}")),
        Err(QueryError::Eval(EvalError::Pipeline { .. })) => Answer::EntryError,
        Err(QueryError::Eval(EvalError::TooManySeries { .. })) => Answer::TooManySeries,
        Err(error) => Answer::Error(error.to_string()),
    }
}

/// How many cases had which kind of end.
#[derive(Default, Debug)]
struct Tally {
    answered: u32,
    empty: u32,
    failed: u32,
    invalid: u32,
    /// Answers with more series than were allowed, on any number of shards.
    limited: u32,
}

/// Takes a text all the way.
fn check(text: &str, writer: &mut Writer, store: &TestStore, tally: &mut Tally, case: &str) {
    let case = format!("{case}: {text}");
    let Ok(expr) = parse(text) else {
        tally.invalid += 1;
        return;
    };
    for printed in [expr.to_string(), format(&expr)] {
        match parse(&printed) {
            Ok(again) => assert_eq!(again, expr, "{case}\nprinted: {printed}"),
            Err(error) => panic!("{case}\nprinted: {printed}\n{error}"),
        }
    }
    let params = writer.params();
    let plain = answer(store, text, &params, &Layout::PLAIN);
    let series = store.query_with(text, &params, &Layout::PLAIN).map_or(0, |result| match result {
        QueryResult::Matrix(series) => series.len(),
        QueryResult::Vector(samples) => samples.len(),
        QueryResult::Streams(_) | QueryResult::Scalar { .. } => 0,
    });
    let mut limited = params.clone();
    limited.limits.max_series = 1 + writer.rng.below(4);
    for layout in writer.layouts() {
        let other = answer(store, text, &params, &layout);
        assert_eq!(other, plain, "{case}\n{params:?}\n{layout:?}");
        let other = answer(store, text, &limited, &layout);
        if series > limited.limits.max_series {
            assert_eq!(other, Answer::TooManySeries, "{case}\n{limited:?}\n{layout:?}");
            tally.limited += 1;
        } else if !(plain == Answer::EntryError && other == Answer::TooManySeries) {
            // Which of two failures is told is left open.
            assert_eq!(other, plain, "{case}\n{limited:?}\n{layout:?}");
        }
    }
    match plain {
        Answer::Result(_) if plain.is_empty() => tally.empty += 1,
        Answer::Result(_) => tally.answered += 1,
        Answer::Error(_) | Answer::EntryError | Answer::TooManySeries => tally.failed += 1,
    }
}

#[test]
fn written_queries_and_their_mutations_have_one_answer_on_any_number_of_shards() {
    let (mut valid, mut mutated) = (Tally::default(), Tally::default());
    let mut texts: Vec<String> = Vec::new();
    for seed in 0..500 {
        let mut writer = Writer::new(seed);
        let store = writer.store();
        let text = writer.query();
        check(&text, &mut writer, &store, &mut valid, &format!("seed {seed}"));
        texts.push(text.clone());
        for number in 0..6 {
            let text = writer.mutation(&text, &texts);
            check(&text, &mut writer, &store, &mut mutated, &format!("seed {seed}/{number}"));
        }
    }
    assert!(valid.invalid == 0, "every written query is valid: {valid:?}");
    assert!(valid.answered > 100 && valid.limited > 100, "they have answers: {valid:?}");
    assert!(mutated.answered > 100 && mutated.invalid > 500, "mutations are both: {mutated:?}");
}

/// Makes the selectors of a tree find something.
fn redirect(expr: &mut Expr, rng: &mut Rng) {
    match expr {
        Expr::Log(log) => redirect_log(log, rng),
        Expr::Metric(metric) => redirect_metric(metric, rng),
    }
}

fn redirect_log(log: &mut LogExpr, rng: &mut Rng) {
    let matcher = match rng.below(3) {
        0 => ("app", MatchOp::Equal, "m"),
        1 => ("env", MatchOp::Regex, "p|q"),
        _ => ("s", MatchOp::NotEqual, "2"),
    };
    let (name, op, value) = matcher;
    let mut matchers = vec![Matcher { name: name.to_owned(), op, value: Text::from(value) }];
    if op == MatchOp::NotEqual {
        matchers.push(Matcher {
            name: "app".to_owned(),
            op: MatchOp::Equal,
            value: Text::from("m"),
        });
    }
    log.selector = Selector { matchers };
}

fn redirect_metric(metric: &mut MetricExpr, rng: &mut Rng) {
    match metric {
        MetricExpr::Literal(_) | MetricExpr::Vector(_) => {}
        MetricExpr::RangeAggregation(range) => redirect_log(&mut range.range.log, rng),
        MetricExpr::VectorAggregation(vector) => redirect_metric(&mut vector.expr, rng),
        MetricExpr::BinaryOperation(binary) => {
            redirect_metric(&mut binary.left, rng);
            redirect_metric(&mut binary.right, rng);
        }
        MetricExpr::LabelReplace(replace) => redirect_metric(&mut replace.expr, rng),
    }
}

#[test]
fn generated_trees_have_one_answer_on_any_number_of_shards() {
    let mut tally = Tally::default();
    for seed in 0..1500 {
        let mut writer = Writer::new(seed);
        let store = writer.store();
        let mut expr = Generator::new(seed).expr();
        redirect(&mut expr, &mut writer.rng);
        let text = expr.to_string();
        assert_eq!(parse(&text).as_ref(), Ok(&expr), "seed {seed}: {text}");
        check(&text, &mut writer, &store, &mut tally, &format!("seed {seed}"));
    }
    assert!(tally.answered > 100 && tally.invalid == 0, "{tally:?}");
}
