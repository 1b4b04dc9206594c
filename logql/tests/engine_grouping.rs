//! Grouping and matching of series against a model that does it the plain way: sets of labels
//! as maps, sample by sample and step by step. Labels without a value are everywhere in the
//! data, since wherever sets are grouped or matched they are no labels.
//!
//! Every answer is also the same, bit for bit, on 1, 2, 3 and 7 shards, and the limit on series
//! refuses exactly the queries whose answer has more. A seed names a case.

use std::collections::{BTreeMap, BTreeSet};

use logsvc_logql::engine::testing::{Layout, QueryError, TestStore};
use logsvc_logql::engine::{EvalError, QueryParams, QueryResult};
use logsvc_logql::testing::Rng;
use logsvc_proto::Labels;

const SECOND_NS: i64 = 1_000_000_000;
/// Names of parsed labels that are sometimes empty.
const NAMES: [&str; 3] = ["u", "x", "y"];

type LabelMap = BTreeMap<String, String>;
/// Samples of one step; several may have the same labels.
type Samples = Vec<(LabelMap, f64)>;

/// An entry as the model sees it.
struct Row {
    timestamp_s: i64,
    stream: LabelMap,
    fields: LabelMap,
    value: i64,
}

fn rows(rng: &mut Rng) -> Vec<Row> {
    let count = 1 + rng.below(40);
    (0..count)
        .map(|_| {
            let stream = [("app", "m"), ("s", *rng.pick(&["1", "2", "3"]))];
            let mut fields = LabelMap::new();
            for name in NAMES {
                let value = *rng.pick(&["", "", "a", "b", "-"]);
                if value != "-" {
                    fields.insert(name.to_owned(), value.to_owned());
                }
            }
            Row {
                timestamp_s: 1 + rng.below(12) as i64,
                stream: map(&stream),
                fields,
                value: rng.below(4) as i64,
            }
        })
        .collect()
}

fn map(pairs: &[(&str, &str)]) -> LabelMap {
    pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn store_of(rows: &[Row]) -> TestStore {
    let mut store = TestStore::new();
    for (number, row) in rows.iter().enumerate() {
        let fields: Vec<String> =
            row.fields.iter().map(|(name, value)| format!(r#""{name}":"{value}""#)).collect();
        let comma = if fields.is_empty() { "" } else { "," };
        // The blanks make lines differ, so that none is taken for a repetition.
        let blanks = " ".repeat(number);
        let line = format!(r#"{{"v":{}{comma}{}}}{blanks}"#, row.value, fields.join(","));
        let labels = Labels::from_pairs(&row.stream).expect("labels");
        store.push_line(&labels, row.timestamp_s * SECOND_NS, &line);
    }
    store
}

#[derive(Clone, Debug)]
struct Grouping {
    by: bool,
    names: Vec<&'static str>,
}

#[derive(Clone, Debug)]
enum Cardinality {
    OneToOne,
    Left(Vec<&'static str>),
    Right(Vec<&'static str>),
}

#[derive(Clone, Debug)]
struct Matching {
    on: bool,
    names: Vec<&'static str>,
    cardinality: Cardinality,
}

#[derive(Clone, Debug)]
enum Query {
    Count { stage: &'static str, range_s: i64 },
    Max { stage: &'static str, range_s: i64, grouping: Option<Grouping> },
    Fold { function: &'static str, grouping: Option<Grouping>, inner: Box<Query> },
    Extreme { largest: bool, k: usize, grouping: Option<Grouping>, inner: Box<Query> },
    Scaled { inner: Box<Query>, factor: f64 },
    Pair { op: &'static str, matching: Option<Matching>, left: Box<Query>, right: Box<Query> },
    Relabel { inner: Box<Query>, dst: &'static str, replacement: &'static str, src: &'static str },
}

/// The stages behind the parser.
const STAGES: [&str; 4] =
    ["", r#" | label_format x="""#, " | drop y", r#" | label_format y="{{.u}}""#];

fn names(rng: &mut Rng) -> Vec<&'static str> {
    let all = ["u", "x", "y", "s", "v", "none"];
    let mut names: Vec<&'static str> = all.into_iter().filter(|_| rng.one_in(3)).collect();
    names.dedup();
    names
}

fn grouping(rng: &mut Rng) -> Option<Grouping> {
    (!rng.one_in(4)).then(|| Grouping { by: rng.one_in(2), names: names(rng) })
}

fn query(rng: &mut Rng, depth: usize) -> Query {
    let inner = |rng: &mut Rng| Box::new(query(rng, depth - 1));
    match if depth == 0 { rng.below(2) } else { rng.below(11) } {
        0 => Query::Count { stage: rng.pick::<&str>(&STAGES), range_s: *rng.pick(&[2, 5, 30]) },
        1 => Query::Max {
            stage: rng.pick::<&str>(&STAGES),
            range_s: *rng.pick(&[2, 5, 30]),
            grouping: grouping(rng),
        },
        2..=4 => Query::Fold {
            function: rng.pick::<&str>(&["sum", "sum", "count", "min", "max"]),
            grouping: grouping(rng),
            inner: inner(rng),
        },
        5 => Query::Extreme {
            largest: rng.one_in(2),
            k: 1 + rng.below(3),
            grouping: grouping(rng),
            inner: inner(rng),
        },
        6 => Query::Scaled { inner: inner(rng), factor: 3.0 },
        7 => Query::Relabel {
            inner: inner(rng),
            dst: rng.pick::<&str>(&["u", "x", "z"]),
            replacement: rng.pick::<&str>(&["$1", "", "c"]),
            src: rng.pick::<&str>(&["u", "y", "s"]),
        },
        _ => {
            let op = *rng.pick(&["+", "*", ">", "and", "or", "unless"]);
            let is_set = matches!(op, "and" | "or" | "unless");
            let matching = rng.one_in(2).then(|| Matching {
                on: rng.one_in(2),
                names: names(rng),
                cardinality: match if is_set { 0 } else { rng.below(3) } {
                    0 => Cardinality::OneToOne,
                    1 => Cardinality::Left(names(rng)),
                    _ => Cardinality::Right(names(rng)),
                },
            });
            Query::Pair { op, matching, left: inner(rng), right: inner(rng) }
        }
    }
}

fn grouping_text(grouping: &Option<Grouping>) -> String {
    grouping.as_ref().map_or(String::new(), |grouping| {
        let word = if grouping.by { "by" } else { "without" };
        format!("{word} ({}) ", grouping.names.join(", "))
    })
}

impl Query {
    fn text(&self) -> String {
        let log = |stage: &str| format!(r#"{{app="m"}} | json{stage}"#);
        match self {
            Self::Count { stage, range_s } => {
                format!("count_over_time({} [{range_s}s])", log(stage))
            }
            Self::Max { stage, range_s, grouping } => format!(
                "max_over_time({} | unwrap v [{range_s}s]) {}",
                log(stage),
                grouping_text(grouping)
            ),
            Self::Fold { function, grouping, inner } => {
                format!("{function} {}({})", grouping_text(grouping), inner.text())
            }
            Self::Extreme { largest, k, grouping, inner } => {
                let function = if *largest { "topk" } else { "bottomk" };
                format!("{function} {}({k}, {})", grouping_text(grouping), inner.text())
            }
            Self::Scaled { inner, factor } => format!("({}) * {factor}", inner.text()),
            Self::Pair { op, matching, left, right } => {
                let matching = matching.as_ref().map_or(String::new(), |matching| {
                    let word = if matching.on { "on" } else { "ignoring" };
                    let cardinality = match &matching.cardinality {
                        Cardinality::OneToOne => String::new(),
                        Cardinality::Left(names) => format!("group_left ({})", names.join(", ")),
                        Cardinality::Right(names) => format!("group_right ({})", names.join(", ")),
                    };
                    format!("{word} ({}) {cardinality}", matching.names.join(", "))
                });
                format!("({}) {op} {matching} ({})", left.text(), right.text())
            }
            Self::Relabel { inner, dst, replacement, src } => format!(
                r#"label_replace({}, "{dst}", "{replacement}", "{src}", "(a|)")"#,
                inner.text()
            ),
        }
    }
}

/// The labels that have a value, as far as `keeps` says.
fn part(labels: &LabelMap, keeps: impl Fn(&str) -> bool) -> LabelMap {
    let kept = labels.iter().filter(|(name, value)| !value.is_empty() && keeps(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn group_of(labels: &LabelMap, grouping: &Option<Grouping>) -> LabelMap {
    match grouping {
        None => LabelMap::new(),
        Some(Grouping { by, names }) => part(labels, |name| names.contains(&name) == *by),
    }
}

fn signature(labels: &LabelMap, matching: &Option<Matching>) -> LabelMap {
    match matching {
        None => part(labels, |_| true),
        Some(Matching { on, names, .. }) => part(labels, |name| names.contains(&name) == *on),
    }
}

/// Samples cannot be paired.
#[derive(Debug)]
struct Unpaired;

struct Model<'r> {
    rows: &'r [Row],
    time_s: i64,
}

impl Model<'_> {
    /// Labels behind the stages, and values, of the rows that a window sees.
    fn window(&self, stage: &str, range_s: i64) -> Samples {
        let seen = self.rows.iter().filter(|row| {
            row.timestamp_s > self.time_s - range_s && row.timestamp_s <= self.time_s
        });
        seen.map(|row| {
            let mut labels: LabelMap = row.stream.clone();
            labels.extend(row.fields.clone());
            labels.insert("v".to_owned(), row.value.to_string());
            if stage.contains("drop y") {
                labels.remove("y");
            } else if stage.contains("x=") {
                labels.insert("x".to_owned(), String::new());
            } else if stage.contains("y=") {
                let u = labels.get("u").cloned().unwrap_or_default();
                labels.insert("y".to_owned(), u);
            }
            (labels, row.value as f64)
        })
        .collect()
    }

    fn evaluate(&self, query: &Query) -> Result<Samples, Unpaired> {
        Ok(match query {
            Query::Count { stage, range_s } => {
                let ones =
                    self.window(stage, *range_s).into_iter().map(|(labels, _)| (labels, 1.0));
                folded(ones.collect(), |a, b| a + b)
            }
            Query::Max { stage, range_s, grouping } => {
                let reduced = self.window(stage, *range_s).into_iter().map(|(labels, value)| {
                    let mut labels = match grouping {
                        None => labels,
                        Some(_) => group_of(&labels, grouping),
                    };
                    let keeps_unwrapped =
                        grouping.as_ref().is_some_and(|it| it.by && it.names.contains(&"v"));
                    if !keeps_unwrapped {
                        labels.remove("v");
                    }
                    (labels, value)
                });
                folded(reduced.collect(), f64::max)
            }
            Query::Fold { function, grouping, inner } => {
                let grouped = self.evaluate(inner)?.into_iter().map(|(labels, value)| {
                    let value = if *function == "count" { 1.0 } else { value };
                    (group_of(&labels, grouping), value)
                });
                folded(
                    grouped.collect(),
                    match *function {
                        "min" => f64::min,
                        "max" => f64::max,
                        _ => |a, b| a + b,
                    },
                )
            }
            Query::Extreme { largest, k, grouping, inner } => {
                let mut samples = self.evaluate(inner)?;
                samples.sort_by(|a, b| {
                    let ascending = a.1.total_cmp(&b.1);
                    let by_value = if *largest { ascending.reverse() } else { ascending };
                    by_value.then_with(|| a.0.cmp(&b.0))
                });
                let mut taken: BTreeMap<LabelMap, usize> = BTreeMap::new();
                samples.retain(|(labels, _)| {
                    let count = taken.entry(group_of(labels, grouping)).or_default();
                    *count += 1;
                    *count <= *k
                });
                samples
            }
            Query::Scaled { inner, factor } => {
                let samples = self.evaluate(inner)?.into_iter();
                samples.map(|(labels, value)| (labels, value * factor)).collect()
            }
            Query::Relabel { inner, dst, replacement, src } => {
                let samples = self.evaluate(inner)?.into_iter();
                samples
                    .map(|(labels, value)| (relabelled(labels, dst, replacement, src), value))
                    .collect()
            }
            Query::Pair { op, matching, left, right } => {
                let (left, right) = (self.evaluate(left)?, self.evaluate(right)?);
                if matches!(*op, "and" | "or" | "unless") {
                    chosen(op, matching, left, right)
                } else {
                    paired(op, matching, left, right)?
                }
            }
        })
    }
}

fn folded(samples: Samples, fold: impl Fn(f64, f64) -> f64) -> Samples {
    let mut groups: BTreeMap<LabelMap, f64> = BTreeMap::new();
    for (labels, value) in samples {
        let folded = groups.get(&labels).map_or(value, |known| fold(*known, value));
        groups.insert(labels, folded);
    }
    groups.into_iter().collect()
}

/// The labels that `label_replace` with the pattern `(a|)` makes of `labels`.
fn relabelled(labels: LabelMap, dst: &str, replacement: &str, src: &str) -> LabelMap {
    let source = labels.get(src).cloned().unwrap_or_default();
    if source != "a" && !source.is_empty() {
        return labels;
    }
    let mut labels = part(&labels, |_| true);
    let value = if replacement == "$1" { source } else { replacement.to_owned() };
    labels.insert(dst.to_owned(), value);
    part(&labels, |_| true)
}

fn chosen(op: &str, matching: &Option<Matching>, left: Samples, right: Samples) -> Samples {
    let signatures = |samples: &Samples| -> BTreeSet<LabelMap> {
        samples.iter().map(|(labels, _)| signature(labels, matching)).collect()
    };
    let (of_left, of_right) = (signatures(&left), signatures(&right));
    let is_in =
        |labels: &LabelMap, set: &BTreeSet<LabelMap>| set.contains(&signature(labels, matching));
    match op {
        "or" => {
            let rest = right.into_iter().filter(|(labels, _)| !is_in(labels, &of_left));
            left.into_iter().chain(rest).collect()
        }
        _ => left
            .into_iter()
            .filter(|(labels, _)| is_in(labels, &of_right) == (op == "and"))
            .collect(),
    }
}

fn paired(
    op: &str,
    matching: &Option<Matching>,
    left: Samples,
    right: Samples,
) -> Result<Samples, Unpaired> {
    let cardinality =
        matching.as_ref().map_or(&Cardinality::OneToOne, |matching| &matching.cardinality);
    let swaps = matches!(cardinality, Cardinality::Right(_));
    let (many, one) = if swaps { (right, left) } else { (left, right) };
    let mut ones: BTreeMap<LabelMap, (LabelMap, f64)> = BTreeMap::new();
    for (labels, value) in one {
        if ones.insert(signature(&labels, matching), (labels, value)).is_some() {
            return Err(Unpaired);
        }
    }
    let mut seen: BTreeSet<(LabelMap, LabelMap)> = BTreeSet::new();
    let mut out = Samples::new();
    for (labels, value) in many {
        let key = signature(&labels, matching);
        let Some((of_one, other)) = ones.get(&key) else { continue };
        let result = match cardinality {
            Cardinality::OneToOne => key.clone(),
            Cardinality::Left(included) | Cardinality::Right(included) => {
                let mut result = labels.clone();
                for name in included {
                    result
                        .insert((*name).to_owned(), of_one.get(*name).cloned().unwrap_or_default());
                }
                part(&result, |_| true)
            }
        };
        if !seen.insert((key, result.clone())) {
            return Err(Unpaired);
        }
        let (l, r) = if swaps { (*other, value) } else { (value, *other) };
        match op {
            "+" => out.push((result, l + r)),
            "*" => out.push((result, l * r)),
            _ if l > r => out.push((result, l)),
            _ => {}
        }
    }
    Ok(out)
}

/// Samples of an answer with their times in seconds, sorted.
fn samples_of(result: &QueryResult) -> Vec<(LabelMap, i64, String)> {
    let labels = |labels: &Labels| -> LabelMap {
        labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let mut samples: Vec<(LabelMap, i64, String)> = match result {
        QueryResult::Vector(vector) => vector
            .iter()
            .map(|one| {
                (labels(&one.labels), one.point.timestamp_ms / 1000, one.point.value.to_string())
            })
            .collect(),
        QueryResult::Matrix(matrix) => matrix
            .iter()
            .flat_map(|one| {
                one.points.iter().map(|point| {
                    (labels(&one.labels), point.timestamp_ms / 1000, point.value.to_string())
                })
            })
            .collect(),
        other => panic!("no samples: {other:?}"),
    };
    samples.sort();
    samples
}

fn assert_in_order(result: &QueryResult, context: &str) {
    match result {
        QueryResult::Vector(vector) => {
            assert!(vector.is_sorted_by(|a, b| a.labels.iter().le(b.labels.iter())), "{context}");
        }
        QueryResult::Matrix(matrix) => {
            let printed = |one: &Labels| one.to_string();
            assert!(
                matrix.is_sorted_by(|a, b| printed(&a.labels) < printed(&b.labels)),
                "{context}"
            );
        }
        other => panic!("no samples: {other:?}"),
    }
}

fn layouts() -> impl Iterator<Item = Layout> {
    [1, 2, 3, 7].into_iter().flat_map(|shards| {
        let whole = Layout { shards, ..Layout::default() };
        [whole, Layout { block_entries: 2, scatter_blocks: true, ..whole }]
    })
}

#[test]
fn grouping_and_matching_agree_with_the_model_on_any_number_of_shards() {
    let (mut answered, mut unpaired, mut refused) = (0, 0, 0);
    for seed in 0..2500u64 {
        let mut rng = Rng::new(seed);
        let rows = rows(&mut rng);
        let store = store_of(&rows);
        let query = query(&mut rng, 3);
        let text = query.text();
        let context = format!("seed {seed}: {text}");
        let (times_s, mut params) = if rng.one_in(2) {
            (vec![9], QueryParams::instant(9 * SECOND_NS))
        } else {
            let params = QueryParams::range(3 * SECOND_NS, 12 * SECOND_NS, 3 * SECOND_NS);
            (vec![3, 6, 9, 12], params)
        };
        let mut wanted = Ok(Vec::new());
        for time_s in times_s {
            let model = Model { rows: &rows, time_s };
            wanted = match (wanted, model.evaluate(&query)) {
                (Ok(mut all), Ok(step)) => {
                    all.extend(step.into_iter().map(|(l, value)| (l, time_s, value.to_string())));
                    all.sort();
                    Ok(all)
                }
                _ => Err(Unpaired),
            };
        }
        params.limits.max_series = 0;
        let found = store.query_with(&text, &params, &Layout::PLAIN);
        let Ok(wanted) = wanted else {
            let is_unpaired = matches!(&found, Err(QueryError::Eval(EvalError::Matching(_))));
            assert!(is_unpaired, "{context}: {found:?}");
            unpaired += 1;
            continue;
        };
        let found = found.unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(samples_of(&found), wanted, "{context}");
        assert_in_order(&found, &context);
        answered += u32::from(!wanted.is_empty());
        let series = match &found {
            QueryResult::Matrix(matrix) => matrix.len(),
            QueryResult::Vector(vector) => vector.len(),
            other => panic!("no samples: {other:?}"),
        };
        for layout in layouts() {
            params.limits.max_series = 0;
            let spread = store.query_with(&text, &params, &layout).expect("an answer");
            assert_eq!(format!("{spread:?}"), format!("{found:?}"), "{context}: {layout:?}");
            params.limits.max_series = series.max(1);
            assert!(store.query_with(&text, &params, &layout).is_ok(), "{context}: {layout:?}");
            if series > 1 {
                params.limits.max_series = series - 1;
                let error = store.query_with(&text, &params, &layout).expect_err(&context);
                let is_limit = matches!(error, QueryError::Eval(EvalError::TooManySeries { .. }));
                assert!(is_limit, "{context}: {error}");
                refused += 1;
            }
        }
    }
    // The cases are worth something.
    assert!(answered > 1000 && unpaired > 100 && refused > 1000, "{answered} {unpaired} {refused}");
}

/// The answer of an instant query over fixed lines of one stream, one second apart, printed.
fn answer(lines: &[&str], query: &str) -> String {
    let mut store = TestStore::new();
    let labels = Labels::from_pairs([("app", "a")]).expect("labels");
    for (second, line) in (1..).zip(lines) {
        store.push_line(&labels, second * SECOND_NS, line);
    }
    let result = store.query(query, &QueryParams::instant(100 * SECOND_NS));
    match result.unwrap_or_else(|error| panic!("{query}: {error}")) {
        QueryResult::Vector(samples) => {
            let printed = samples.iter().map(|one| format!("{} {}", one.labels, one.point.value));
            printed.collect::<Vec<_>>().join("; ")
        }
        other => panic!("{query}: {other:?}"),
    }
}

#[test]
fn an_empty_label_is_no_label_in_groups_and_matches() {
    const LINES: [&str; 3] = [r#"{"u":"","n":1}"#, r#"{"n":2}"#, r#"{"u":"x","n":4}"#];
    const COUNTS: &str = r#"count_over_time({app="a"} | json | drop app [5m])"#;
    let a = r#"sum by (x) (count_over_time({app="a"} | json | label_format x="" [5m]))"#;
    let b = r#"sum(count_over_time({app="a"}[5m]))"#;
    for (query, wanted) in [
        (format!("sum without (n) ({COUNTS})"), r#"{} 2; {u="x"} 1"#),
        (format!("sum by (u) ({COUNTS})"), r#"{} 2; {u="x"} 1"#),
        (format!("max by (u, nope) ({COUNTS})"), r#"{} 1; {u="x"} 1"#),
        (format!("count without (n) ({COUNTS})"), r#"{} 2; {u="x"} 1"#),
        (format!("topk by (u) (1, {COUNTS})"), r#"{n="1", u=""} 1; {n="4", u="x"} 1"#),
        (
            r#"max_over_time({app="a"} | json | unwrap n [5m]) by (u)"#.to_owned(),
            r#"{} 2; {u="x"} 4"#,
        ),
        (
            r#"max_over_time({app="a"} | json | drop app | unwrap n [5m]) without ()"#.to_owned(),
            r#"{} 2; {u="x"} 4"#,
        ),
        // Without a grouping the labels of the lines tell series apart.
        (
            r#"max_over_time({app="a"} | json | drop app | unwrap n [5m])"#.to_owned(),
            r#"{} 2; {u=""} 1; {u="x"} 4"#,
        ),
        (
            r#"count_over_time({app="a"} | json | keep u [5m])"#.to_owned(),
            r#"{} 1; {u=""} 1; {u="x"} 1"#,
        ),
        (format!("{a} / {b}"), "{} 1"),
        (format!("{a} and {b}"), "{} 3"),
        (format!("{a} unless {b}"), ""),
        (format!("{b} or {a}"), "{} 3"),
        (format!("{COUNTS} * on (u) group_left () {b}"), r#"{n="1"} 3; {n="2"} 3"#),
        (
            format!("{COUNTS} + ignoring (n, u) group_left () {b}"),
            r#"{n="1"} 4; {n="2"} 4; {n="4", u="x"} 4"#,
        ),
        (
            format!("{COUNTS} and on (u) sum by (u) ({COUNTS})"),
            r#"{n="1", u=""} 1; {n="2"} 1; {n="4", u="x"} 1"#,
        ),
    ] {
        assert_eq!(answer(&LINES, &query), wanted, "{query}");
    }
}

#[test]
fn an_unlabelled_series_is_the_last_of_a_matrix() {
    let mut store = TestStore::new();
    let labels = Labels::from_pairs([("app", "a")]).expect("labels");
    for (second, line) in (1..).zip(["n=1", "x=b", "x=a y=1", "x=a"]) {
        store.push_line(&labels, second * SECOND_NS, line);
    }
    let query = r#"sum by (x, y) (count_over_time({app="a"} | logfmt [1h]))"#;
    let params = QueryParams::range(10 * SECOND_NS, 20 * SECOND_NS, 5 * SECOND_NS);
    let QueryResult::Matrix(matrix) = store.query(query, &params).expect("an answer") else {
        panic!("a matrix")
    };
    let order: Vec<String> = matrix.iter().map(|one| one.labels.to_string()).collect();
    assert_eq!(order, [r#"{x="a", y="1"}"#, r#"{x="a"}"#, r#"{x="b"}"#, "{}"]);
}

#[test]
fn ties_do_not_depend_on_what_the_window_holds_beside_them() {
    let mut store = TestStore::new();
    // At 20 s every value of `k` has two lines; which was first differs from range to range.
    for (second, s, k) in
        [(2, "1", "c"), (11, "2", "b"), (12, "3", "a"), (13, "4", "c"), (14, "5", "b")]
    {
        let labels = Labels::from_pairs([("app", "a"), ("s", s)]).expect("labels");
        store.push_line(&labels, second * SECOND_NS, &format!("k={k}"));
    }
    let query = r#"topk(1, max by (k) (count_over_time({app="a"} | logfmt [10s])))"#;
    let mut chosen = BTreeSet::new();
    for start in [3, 11, 13, 20] {
        let params = QueryParams::range(start * SECOND_NS, 20 * SECOND_NS, SECOND_NS);
        let QueryResult::Matrix(matrix) = store.query(query, &params).expect("an answer") else {
            panic!("a matrix")
        };
        let at_end = matrix
            .iter()
            .filter(|one| one.points.last().is_some_and(|point| point.timestamp_ms == 20_000));
        chosen.extend(at_end.map(|one| one.labels.to_string()));
    }
    assert_eq!(chosen.into_iter().collect::<Vec<_>>(), [r#"{k="a"}"#]);
}
