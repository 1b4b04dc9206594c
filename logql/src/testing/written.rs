//! Queries that are written from pieces which fit the lines that are written beside them, so that they
//! have answers.
//!
//! The streams have the labels `app="m"`, `env` of `p` or `q`, and `s`, a small number. Some entries have
//! structured metadata: `trace`, a small number, or `level="meta"`.

use super::Rng;

const SELECTORS: [&str; 6] = [
    r#"{app="m"}"#,
    r#"{app="m", env!="p"}"#,
    r#"{s=~"1|2|4"}"#,
    r#"{env=~".+"}"#,
    r#"{app=~"m|n", s!~"3.*"}"#,
    r#"{app="nobody"}"#,
];

const STAGES: [&str; 40] = [
    r#"|= "a""#,
    r#"|= "error" or "GET""#,
    r#"!= "500""#,
    r#"|~ "(?i)ERROR|time.*out""#,
    r#"!~ "^level=info""#,
    r#"|> "<_>status<_>""#,
    r#"!> "<_>cart<_>""#,
    r#"|= ip("10.0.0.0/8")"#,
    "| json",
    "| json",
    r#"| json v="o.v", status"#,
    "| logfmt",
    "| logfmt",
    "| logfmt --strict --keep-empty",
    r#"| logfmt level, d="took""#,
    r#"| pattern "<verb> <path> <status>""#,
    r#"| regexp `(?P<verb>[A-Z]+) (?P<path>/\w+)`"#,
    "| unpack",
    "| decolorize",
    "| status >= 500",
    r#"| status = "500""#,
    r#"| level =~ "err.*|warn" or status > 200"#,
    r#"| took > 20ms and level != "info""#,
    "| size <= 2KB",
    r#"| ip = ip("10.0.0.0/8")"#,
    r#"| trace = "1""#,
    r#"| __error__ = """#,
    r#"| __error__ != "JSONParserErr""#,
    r#"| line_format "{{.level}} {{.status | ToUpper}}""#,
    r#"| line_format `{{if .status}}{{div 100 2}}{{else}}{{__line__}}{{end}}`"#,
    r#"| line_format "{{.nope.nope}}""#,
    r#"| label_format lvl=level, x="{{.status}}0""#,
    r#"| label_format status=took"#,
    "| drop level, __error__",
    r#"| drop status="500""#,
    r#"| keep app, level, status=~"5.*""#,
    "| json | status >= 500",
    r#"| logfmt | level="error""#,
    r#"| json | v="x" or level="warn""#,
    "| logfmt | took > 1ms",
];

const UNWRAPS: [&str; 6] = [
    "| logfmt | unwrap status",
    "| json | unwrap status",
    "| logfmt | unwrap duration(took)",
    "| logfmt | unwrap bytes(size)",
    r#"| json | unwrap v | __error__="""#,
    r#"| logfmt | unwrap status | __error__="", status > 200"#,
];

const GROUPINGS: [&str; 6] = [
    "by (level)",
    "by (status, env)",
    "by ()",
    "without (s, took)",
    "without ()",
    "by (app_extracted)",
];

/// Writes queries and lines. The same seed gives the same, on every machine.
#[derive(Clone, Debug)]
pub struct Writer {
    /// What else belongs to a case may come of it, too.
    pub rng: Rng,
}

impl Writer {
    /// What is written by a seed.
    #[must_use]
    pub fn new(seed: u64) -> Writer {
        Writer { rng: Rng::new(seed) }
    }

    /// One of these.
    pub fn pick(&mut self, pieces: &[&'static str]) -> &'static str {
        self.rng.pick::<&str>(pieces)
    }

    fn log(&mut self, stages_max: usize) -> String {
        let mut query = self.pick(&SELECTORS).to_owned();
        for _ in 0..self.rng.below(stages_max + 1) {
            query += " ";
            query += self.pick(&STAGES);
        }
        query
    }

    fn range(&mut self) -> String {
        let range = self.pick(&["[1s]", "[3s]", "[10s]", "[1500ms]", "[1m]"]);
        let offset = if self.rng.one_in(4) { " offset 2s" } else { "" };
        if self.rng.one_in(2) {
            let function = self.pick(&[
                "count_over_time",
                "rate",
                "bytes_over_time",
                "bytes_rate",
                "absent_over_time",
            ]);
            return format!("{function}({}{range}{offset})", self.log(3));
        }
        let function = self.pick(&[
            "sum_over_time(",
            "avg_over_time(",
            "min_over_time(",
            "max_over_time(",
            "first_over_time(",
            "last_over_time(",
            "stddev_over_time(",
            "stdvar_over_time(",
            "quantile_over_time(0.9, ",
            "rate(",
            "rate_counter(",
        ]);
        let groups = !function.starts_with("sum") && !function.starts_with("rate");
        let grouping = if groups && self.rng.one_in(2) { self.pick(&GROUPINGS) } else { "" };
        let (log, unwrap) = (self.log(1), self.pick(&UNWRAPS));
        format!("{function}{log} {unwrap}{range}{offset}) {grouping}")
    }

    fn metric(&mut self, depth: usize) -> String {
        match self.rng.below(if depth == 0 { 1 } else { 5 }) {
            0 => self.range(),
            1 | 2 => {
                let function = self.pick(&[
                    "sum",
                    "avg",
                    "min",
                    "max",
                    "count",
                    "stddev",
                    "stdvar",
                    "topk",
                    "bottomk",
                    "sort",
                    "sort_desc",
                ]);
                let inner = self.metric(depth - 1);
                match function {
                    "sort" | "sort_desc" => format!("{function}({inner})"),
                    "topk" | "bottomk" => format!("{function}(2, {inner})"),
                    _ if self.rng.one_in(4) => format!("{function}({inner})"),
                    _ => format!("{function} {} ({inner})", self.pick(&GROUPINGS)),
                }
            }
            3 => {
                let op = self.pick(&[
                    "+", "-", "*", "/", "%", "^", "==", "!= bool", ">", ">= bool", "<", "and",
                    "or", "unless",
                ]);
                let matching = self.pick(&["", "", "on (s)", "ignoring (level, status)"]);
                let left = self.metric(depth - 1);
                let right = match self.rng.below(3) {
                    0 if !matches!(op, "and" | "or" | "unless") => {
                        return format!("({left}) {op} 2");
                    }
                    1 => left.clone(),
                    _ => self.metric(depth - 1),
                };
                format!("({left}) {op} {matching} ({right})")
            }
            _ => {
                let inner = self.metric(depth - 1);
                format!(r#"label_replace({inner}, "new", "$1-x", "level", "(e.*|w)")"#)
            }
        }
    }

    /// A query of entries, or of samples.
    pub fn query(&mut self) -> String {
        if self.rng.one_in(3) { self.log(4) } else { self.metric(2) }
    }

    /// The text with one or two words exchanged, dropped, doubled or cut; some come from `others`, of which
    /// there has to be one.
    pub fn mutation(&mut self, text: &str, others: &[String]) -> String {
        let mut words: Vec<&str> = text.split_inclusive([' ', '(', ')', '|', ',']).collect();
        for _ in 0..1 + self.rng.below(2) {
            if words.is_empty() {
                break;
            }
            let at = self.rng.below(words.len());
            match self.rng.below(5) {
                0 => drop(words.remove(at)),
                1 => words.insert(at, words[at]),
                2 => {
                    let with = self.rng.below(words.len());
                    words.swap(at, with);
                }
                3 => {
                    let end = words[at].char_indices().map(|(i, _)| i).next_back().unwrap_or(0);
                    words[at] = &words[at][..end];
                }
                _ => {
                    let other = self.rng.pick(others);
                    let pieces: Vec<&str> = other.split_inclusive(' ').collect();
                    words[at] = *self.rng.pick(&pieces);
                }
            }
        }
        words.concat()
    }

    /// A line of one of several formats, some damaged.
    pub fn line(&mut self) -> String {
        let level = self.pick(&["info", "warn", "error", "ERROR timeout"]);
        let status = self.pick(&["200", "500", "503", "5e2", "none"]);
        let (took, size) = (self.rng.below(50), self.pick(&["1KB", "3000", "2 MiB", "x"]));
        match self.rng.below(6) {
            0 | 1 => format!(
                r#"{{"level":"{level}","status":{status},"o":{{"v":"x"}},"v":{took},"app":"in"}}"#
            ),
            2 | 3 => {
                format!(
                    r#"level="{level}" status={status} took={took}ms size="{size}" ip=10.0.0.{took}"#
                )
            }
            4 => format!("GET /cart {status}"),
            _ => self
                .pick(&[
                    "",
                    "POST",
                    "\u{1b}[31mred\u{1b}[0m",
                    r#"{"_entry":"status=1","a":"b"}"#,
                    "{\"a",
                ])
                .to_owned(),
        }
    }
}
