//! Splitting a query into leaves, which run where the entries are, and a merge part, which runs
//! once.
//!
//! A leaf is a stream selector with a pipeline and either the limit of a log query or the windows
//! of a range aggregation. Range aggregations that read the same entries share a leaf. Merging the
//! partial results of any number of shards gives exactly the result of one shard (except for
//! patterns once lines are sampled):
//!
//! | leaf | partial |
//! |---|---|
//! | log query | the first `limit` entries with their positions in the total order |
//! | `count_over_time`, `rate`, `bytes_over_time`, `bytes_rate`, `absent_over_time` | integer sums per series and step |
//! | `rate_counter` | all samples with their positions in the total order |
//! | quantiles and deviations of unwrapped values | the values per series and cell, a cell being the entries that the same steps see |
//! | other range aggregations over unwrapped values | a state of constant size per series and cell |
//! | `sum` directly over a count, a sum or a rate | as above, the series being the groups of the `sum` |
//! | volume of streams or labels | integer sums of bytes per series and step |
//! | patterns | templates with counts per step; samples and common words depend on the shards |
//!
//! The expression above the leaves is evaluated on the merged series, see [`super::merge`].

use std::sync::Arc;

use logsvc_proto::Labels;

use super::error::PlanError;
use super::matcher::CompiledMatcher;
use super::params::{Direction, Grid, LogAnswer, QueryParams, QueryTime, Windows};
use super::place::{Place, stream_hash};
use super::range::{Keep, SampleFunction};
use crate::syntax::ast::{
    BinaryOp, Expr, Grouping, LabelReplace, LogExpr, MatchOp, Matcher, MetricExpr,
    RangeAggregation, RangeFunction, Selector, Unwrap, VectorAggregation, VectorFunction,
    VectorMatching,
};
use crate::syntax::go_regex::compile_capturing;

/// A query, ready to be sent out. `Send`, cheap to clone.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) leaves: Arc<[LeafPlan]>,
    pub(crate) root: Arc<Root>,
}

/// The merge part of a plan.
#[derive(Debug)]
pub(crate) enum Root {
    Log(LogAnswer),
    Metric { node: Node, grid: Grid, is_instant: bool, max_series: usize },
    Patterns { step_ns: i64 },
}

/// An expression over merged leaves.
#[derive(Debug)]
pub(crate) enum Node {
    Scalar(f64),
    Vector(f64),
    /// The sums of a leaf, divided by the length of the window where it is a rate.
    Sums {
        leaf: usize,
        divisor_s: Option<f64>,
    },
    /// A function over the samples of a leaf.
    Samples {
        leaf: usize,
        function: SampleFunction,
        windows: Windows,
    },
    /// One sample with these labels wherever the leaf saw no entry or sample.
    Absent {
        leaf: usize,
        labels: Labels,
        windows: Windows,
    },
    Aggregate {
        function: VectorFunction,
        parameter: Option<u64>,
        grouping: Option<Grouping>,
        input: Box<Node>,
    },
    Binary {
        op: BinaryOp,
        return_bool: bool,
        matching: VectorMatching,
        left: Box<Node>,
        right: Box<Node>,
    },
    LabelReplace {
        replace: Relabel,
        input: Box<Node>,
    },
}

/// The arguments of a `label_replace`, compiled.
#[derive(Debug)]
pub(crate) struct Relabel {
    pub(crate) dst: String,
    pub(crate) replacement: Box<[u8]>,
    pub(crate) src: String,
    /// Anchored; its groups are numbered and have no names.
    pub(crate) regex: regex::bytes::Regex,
    /// Names of groups 1, 2, ...
    pub(crate) group_names: Vec<Option<String>>,
}

/// One leaf of a plan: the work of every shard. Plain data, cheap to clone.
#[derive(Clone, PartialEq, Debug)]
pub struct LeafPlan {
    pub(crate) index: usize,
    pub(crate) log: Arc<LogExpr>,
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
    /// The time that `now` gives in templates.
    pub(crate) now_ns: i64,
    pub(crate) kind: LeafKind,
    /// The limit on its series that follows from the limit of the answer.
    pub(crate) series_limit: Option<SeriesLimit>,
    /// The only stream that is read, by its [`Place::stream_hash`].
    pub(crate) only_stream: Option<u64>,
}

/// How many series a leaf may have: the answer has one for each of them, or for each group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SeriesLimit {
    pub(crate) max_series: usize,
    /// How they are grouped, if they are.
    pub(crate) grouping: Option<Grouping>,
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum LeafKind {
    Log {
        direction: Direction,
        limit: usize,
        interval_ns: i64,
        after: Option<Place>,
        /// Whether the hashes of entries as they are stored are part of the result.
        places: bool,
    },
    Range {
        windows: Windows,
        value: EntryValue,
        series: SeriesLabels,
    },
    Samples {
        windows: Windows,
        unwrap: Unwrap,
        series: SeriesLabels,
        keep: Keep,
    },
    /// The templates that lines follow, counted by step.
    Patterns {
        step_ns: i64,
    },
}

impl LeafKind {
    /// Whether a leaf of this kind finds the same samples, or the same results.
    fn reads_like(&self, other: &Self) -> bool {
        let mut wider = self.clone();
        wider.serve(other);
        let mut other_wider = other.clone();
        other_wider.serve(self);
        wider == other_wider
    }

    /// Has the leaf keep what another one keeps, too.
    fn serve(&mut self, other: &Self) {
        if let (Self::Samples { keep, .. }, Self::Samples { keep: other, .. }) = (self, other) {
            *keep = keep.with(*other);
        }
    }
}

/// The value that one entry adds to a range aggregation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryValue {
    /// 1
    One,
    /// The length of the processed line in bytes.
    LineLength,
    /// The length of the stored line and of its metadata in bytes. Only where series
    /// are distinguished by their streams.
    StoredSize,
}

/// Which labels identify the series of a leaf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SeriesLabels {
    /// All final labels of an entry.
    All,
    /// None: one series.
    None,
    /// As listed.
    Grouped(Grouping),
    /// Labels of the stream. Labels that entries carry do not count.
    Stream(StreamLabels),
}

/// Which labels of streams tell the series of a volume apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamLabels {
    /// All of them: each stream is a series.
    All,
    /// The listed ones, sorted and without duplicates, as far as a stream has them.
    Listed(Vec<String>),
    /// Only the names of labels, all names or the listed ones: the values of the series are
    /// empty.
    Names(Option<Vec<String>>),
}

impl LeafPlan {
    /// Its place among the leaves of its plan, see [`super::LeafResult::leaf`].
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The matchers of the stream selector, all of which must hold.
    #[must_use]
    pub fn matchers(&self) -> &[Matcher] {
        &self.log.selector.matchers
    }

    /// The matchers, compiled.
    ///
    /// # Errors
    /// A bad pattern, which the parser has ruled out.
    pub fn compiled_matchers(&self) -> Result<Vec<CompiledMatcher>, PlanError> {
        self.matchers()
            .iter()
            .map(|matcher| CompiledMatcher::new(matcher).map_err(PlanError::Pattern))
            .collect()
    }

    /// Whether a stream with these labels is read, given that the matchers select it.
    #[must_use]
    pub fn reads_stream(&self, labels: &Labels) -> bool {
        self.only_stream.is_none_or(|hash| stream_hash(labels) == hash)
    }

    /// Whether only one of the streams that the matchers select is read.
    #[must_use]
    pub fn reads_one_stream(&self) -> bool {
        self.only_stream.is_some()
    }

    /// The leaf reads entries with `start <= t < end`, in nanoseconds.
    #[must_use]
    pub fn entry_bounds_ns(&self) -> (i64, i64) {
        (self.start_ns, self.end_ns)
    }

    /// True when some entries within the bounds are seen by no window.
    pub(crate) fn has_gaps(&self) -> bool {
        match &self.kind {
            LeafKind::Log { .. } | LeafKind::Patterns { .. } => false,
            LeafKind::Range { windows, .. } | LeafKind::Samples { windows, .. } => {
                windows.have_gaps()
            }
        }
    }

    /// The direction in which blocks are best offered.
    #[must_use]
    pub fn direction(&self) -> Direction {
        match &self.kind {
            LeafKind::Log { direction, .. } => *direction,
            LeafKind::Range { .. } | LeafKind::Samples { .. } | LeafKind::Patterns { .. } => {
                Direction::Forward
            }
        }
    }
}

impl Plan {
    /// Plans a query whose leaves were compiled before, with other times.
    ///
    /// # Errors
    /// The parameters are wrong.
    pub fn of_checked(expr: &Expr, params: &QueryParams) -> Result<Self, PlanError> {
        let mut leaves = Leaves { leaves: Vec::new(), now_ns: params.now_ns };
        let root = match expr {
            Expr::Log(log) => leaves.plan_log(log, params)?,
            Expr::Metric(metric) => {
                let grid = params.grid()?;
                let node = leaves.plan_metric(metric, grid)?;
                let max_series = params.limits.max_series;
                if max_series > 0
                    && let Some((leaf, grouping)) = node.series_source()
                {
                    let limit = SeriesLimit { max_series, grouping: grouping.cloned() };
                    leaves.leaves[leaf].series_limit = Some(limit);
                }
                let is_instant = matches!(params.time, QueryTime::Instant { .. });
                Root::Metric { node, grid, is_instant, max_series }
            }
        };
        Ok(Self { leaves: leaves.leaves.into(), root: Arc::new(root) })
    }

    /// The same, with whole samples of unwrapped values where less is enough. For tests; the
    /// answers are the same.
    #[must_use]
    pub fn keeping_samples(mut self) -> Self {
        let mut leaves = self.leaves.to_vec();
        for leaf in &mut leaves {
            if let LeafKind::Samples { keep, .. } = &mut leaf.kind {
                *keep = Keep::All;
            }
        }
        self.leaves = leaves.into();
        self
    }

    /// The leaves, each of which every shard runs.
    #[must_use]
    pub fn leaves(&self) -> &[LeafPlan] {
        &self.leaves
    }
}

/// The leaves found so far.
struct Leaves {
    leaves: Vec<LeafPlan>,
    now_ns: i64,
}

impl Leaves {
    fn plan_log(&mut self, log: &LogExpr, params: &QueryParams) -> Result<Root, PlanError> {
        let QueryTime::Range { start_ns, end_ns, .. } = params.time else {
            return Err(PlanError::LogQueryIsNotInstant);
        };
        if end_ns < start_ns {
            return Err(PlanError::EndBeforeStart);
        }
        let (direction, limit) = (params.direction, params.limit);
        let (interval_ns, after) = (params.interval_ns.max(0), params.after);
        let bounds_ns = match (after, direction) {
            (None, _) => (start_ns, end_ns),
            (Some(place), Direction::Forward) => (start_ns.max(place.timestamp_ns), end_ns),
            (Some(place), Direction::Backward) => {
                (start_ns, end_ns.min(place.timestamp_ns.saturating_add(1)))
            }
        };
        let QueryParams { places, from_place, categorize_labels, .. } = *params;
        let kind = LeafKind::Log { direction, limit, interval_ns, after, places };
        let leaf = self.add(log, bounds_ns, kind);
        self.leaves[leaf].only_stream = params.only_stream;
        Ok(Root::Log(LogAnswer {
            direction,
            limit,
            interval_ns,
            after,
            from_place,
            places,
            categorize_labels,
        }))
    }

    fn add(&mut self, log: &LogExpr, bounds_ns: (i64, i64), kind: LeafKind) -> usize {
        let same = |leaf: &&mut LeafPlan| leaf.kind.reads_like(&kind) && *leaf.log == *log;
        if let Some(leaf) = self.leaves.iter_mut().find(same) {
            leaf.kind.serve(&kind);
            return leaf.index;
        }
        let index = self.leaves.len();
        let log = Arc::new(log.clone());
        let ((start_ns, end_ns), now_ns) = (bounds_ns, self.now_ns);
        let (series_limit, only_stream) = (None, None);
        let leaf =
            LeafPlan { index, log, start_ns, end_ns, now_ns, kind, series_limit, only_stream };
        self.leaves.push(leaf);
        index
    }

    fn plan_metric(&mut self, expr: &MetricExpr, grid: Grid) -> Result<Node, PlanError> {
        match expr {
            MetricExpr::Literal(value) => Ok(Node::Scalar(*value)),
            MetricExpr::Vector(value) => Ok(Node::Vector(*value)),
            MetricExpr::RangeAggregation(range) => self.plan_range(range, grid, None),
            MetricExpr::VectorAggregation(vector) => self.plan_vector(vector, grid),
            MetricExpr::BinaryOperation(binary) => Ok(Node::Binary {
                op: binary.op,
                return_bool: binary.return_bool,
                matching: binary.matching.clone(),
                left: Box::new(self.plan_metric(&binary.left, grid)?),
                right: Box::new(self.plan_metric(&binary.right, grid)?),
            }),
            MetricExpr::LabelReplace(replace) => {
                let input = Box::new(self.plan_samples(&replace.expr, grid)?);
                Ok(Node::LabelReplace { replace: relabel(replace)?, input })
            }
        }
    }

    /// An operand that must have samples, not be a scalar.
    fn plan_samples(&mut self, expr: &MetricExpr, grid: Grid) -> Result<Node, PlanError> {
        match self.plan_metric(expr, grid)? {
            Node::Scalar(_) => Err(PlanError::NoSelector),
            node => Ok(node),
        }
    }

    fn plan_vector(&mut self, vector: &VectorAggregation, grid: Grid) -> Result<Node, PlanError> {
        if vector.function == VectorFunction::ApproxTopk {
            return Err(PlanError::ApproxTopkIsDisabled);
        }
        // A sum over sums is a sum: the leaf adds the entries of a group at once.
        if vector.function == VectorFunction::Sum
            && let MetricExpr::RangeAggregation(range) = &*vector.expr
            && sums_up(range)
        {
            let series = match &vector.grouping {
                None => SeriesLabels::None,
                Some(grouping) => SeriesLabels::Grouped(normalized(grouping)),
            };
            return self.plan_range(range, grid, Some(series));
        }
        Ok(Node::Aggregate {
            function: vector.function,
            parameter: vector.parameter,
            grouping: vector.grouping.clone(),
            input: Box::new(self.plan_samples(&vector.expr, grid)?),
        })
    }

    fn plan_range(
        &mut self,
        range: &RangeAggregation,
        grid: Grid,
        summed: Option<SeriesLabels>,
    ) -> Result<Node, PlanError> {
        let windows =
            Windows { grid, range_ns: range.range.range_ns, offset_ns: range.range.offset_ns };
        let own_labels = match &range.grouping {
            None => SeriesLabels::All,
            Some(grouping) => SeriesLabels::Grouped(normalized(grouping)),
        };
        let is_absent = range.function == RangeFunction::AbsentOverTime;
        let series = if is_absent { SeriesLabels::None } else { summed.unwrap_or(own_labels) };
        let kind = match &range.range.unwrap {
            Some(unwrap) => {
                let keep = Keep::of(range.function);
                LeafKind::Samples { windows, unwrap: unwrap.clone(), series, keep }
            }
            None => {
                let value = entry_value(range.function)?;
                LeafKind::Range { windows, value, series }
            }
        };
        let has_samples = range.range.unwrap.is_some();
        let leaf = self.add(&range.range.log, windows.entry_bounds_ns(), kind);
        if is_absent {
            let labels = absent_labels(&range.range.log.selector);
            return Ok(Node::Absent { leaf, labels, windows });
        }
        if has_samples {
            let parameter = range.parameter.unwrap_or(f64::NAN);
            let function = SampleFunction { function: range.function, parameter };
            return Ok(Node::Samples { leaf, function, windows });
        }
        let is_rate = matches!(range.function, RangeFunction::Rate | RangeFunction::BytesRate);
        let divisor_s = is_rate.then_some(windows.range_ns as f64 / 1e9);
        Ok(Node::Sums { leaf, divisor_s })
    }
}

/// Whether the `sum` of the function's results is the function over all entries of
/// a group together, so that the leaf can group by the labels of the `sum`.
fn sums_up(range: &RangeAggregation) -> bool {
    range.grouping.is_none()
        && matches!(
            range.function,
            RangeFunction::CountOverTime
                | RangeFunction::Rate
                | RangeFunction::BytesOverTime
                | RangeFunction::BytesRate
                | RangeFunction::SumOverTime
        )
}

/// The value that an entry adds to a function over entries.
fn entry_value(function: RangeFunction) -> Result<EntryValue, PlanError> {
    match function {
        RangeFunction::CountOverTime | RangeFunction::Rate | RangeFunction::AbsentOverTime => {
            Ok(EntryValue::One)
        }
        RangeFunction::BytesOverTime | RangeFunction::BytesRate => Ok(EntryValue::LineLength),
        // The parser asks for `unwrap` here.
        _ => Err(PlanError::Unsupported("this range aggregation without unwrap")),
    }
}

/// The same grouping with its labels in one order, so that equal leaves are found.
fn normalized(grouping: &Grouping) -> Grouping {
    let mut labels = grouping.labels.clone();
    labels.sort_unstable();
    labels.dedup();
    Grouping { kind: grouping.kind, labels }
}

/// The labels of `absent_over_time`: the labels that equality matchers fix.
fn absent_labels(selector: &Selector) -> Labels {
    let is_only_matcher = |matcher: &&Matcher| {
        matcher.op == MatchOp::Equal
            && !matcher.value.is_empty()
            && selector.matchers.iter().filter(|other| other.name == matcher.name).count() == 1
    };
    let pairs = selector
        .matchers
        .iter()
        .filter(is_only_matcher)
        .map(|matcher| (matcher.name.as_str(), matcher.value.to_string_lossy()));
    Labels::from_result_pairs(pairs).expect("names that repeat were left out")
}

fn relabel(replace: &LabelReplace) -> Result<Relabel, PlanError> {
    let pattern = [b"^(?:", replace.regex.as_bytes(), b")$"].concat();
    let compiled = compile_capturing(&pattern)
        .map_err(|error| PlanError::Pattern(format!("invalid regex in label_replace: {error}")))?;
    Ok(Relabel {
        dst: replace.dst.to_string_lossy().into_owned(),
        replacement: replace.replacement.as_bytes().into(),
        src: replace.src.to_string_lossy().into_owned(),
        regex: compiled.regex,
        group_names: compiled.group_names,
    })
}

impl Node {
    /// The leaf whose series, or the groups of whose series, are the series of the result. Each of
    /// them has a value. None where series may be left out, or become equal.
    fn series_source(&self) -> Option<(usize, Option<&Grouping>)> {
        match self {
            Self::Sums { leaf, .. } | Self::Samples { leaf, .. } => Some((*leaf, None)),
            Self::Aggregate { function, grouping, input, .. } => match function {
                VectorFunction::Sort | VectorFunction::SortDesc => input.series_source(),
                VectorFunction::Topk | VectorFunction::Bottomk | VectorFunction::ApproxTopk => None,
                // An aggregation of an aggregation has another grouping than the leaf.
                _ => match (grouping, input.series_source()?) {
                    (Some(grouping), (leaf, None)) => Some((leaf, Some(grouping))),
                    _ => None,
                },
            },
            Self::Binary { op, .. } if op.is_comparison() || op.is_set_operation() => None,
            Self::Binary { left, right, .. } => match (&**left, &**right) {
                (Self::Scalar(_), samples) | (samples, Self::Scalar(_)) => samples.series_source(),
                _ => None,
            },
            Self::Scalar(_) | Self::Vector(_) | Self::Absent { .. } | Self::LabelReplace { .. } => {
                None
            }
        }
    }

    /// Whether `sort` or `sort_desc` occurs, so that an instant query keeps the
    /// order of evaluation.
    pub(crate) fn sorts(&self) -> bool {
        match self {
            Self::Scalar(_)
            | Self::Vector(_)
            | Self::Sums { .. }
            | Self::Samples { .. }
            | Self::Absent { .. } => false,
            Self::Aggregate { function, input, .. } => {
                matches!(function, VectorFunction::Sort | VectorFunction::SortDesc) || input.sorts()
            }
            Self::Binary { left, right, .. } => left.sorts() || right.sorts(),
            Self::LabelReplace { input, .. } => input.sorts(),
        }
    }
}
