//! Counts by names of metadata: the same with and without the shortcut that looks at those names
//! alone, whatever other metadata entries have, and however the store keeps it. A seed names a case.

use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{QueryParams, QueryTime};
use logsvc_logql::testing::Rng;
use logsvc_proto::Labels;
use logsvc_testkit::seeds;

const SECOND_NS: i64 = 1_000_000_000;
const LEVELS: [&str; 5] = ["info", "warn", "error", "debug", "wain"];

fn pick(random: &mut Rng, texts: &[&'static str]) -> &'static str {
    texts[random.below(texts.len())]
}

fn store(random: &mut Rng) -> TestStore {
    let mut store = TestStore::new();
    let streams = 1 + random.below(3);
    let errors = random.one_in(4);
    for number in 0..1 + random.below(200) {
        let stream = random.below(streams).to_string();
        let mut pairs = vec![("app", "a"), ("stream", stream.as_str())];
        // A stream's own label hides metadata of its name.
        if stream == "1" {
            pairs.push(("level", "own"));
        }
        let labels = Labels::from_pairs(pairs).expect("labels");
        let mut metadata = Vec::new();
        let mut add = |name: &str, value: &str| metadata.push((name.to_owned(), value.to_owned()));
        if errors && random.one_in(30) {
            add("__error__", pick(random, &["", "Broken"]));
        }
        if errors && random.one_in(10) {
            add("__error_details__", "why");
        }
        if !random.one_in(5) {
            add("level", pick(random, &LEVELS));
        }
        if random.one_in(3) {
            add("level_extracted", "x");
        }
        if random.one_in(2) {
            add("trace_id", &random.below(1000).to_string());
        }
        if random.one_in(3) {
            add("zone", pick(random, &["", "a", "b"]));
        }
        let time_ns = random.below(60) as i64 * SECOND_NS;
        let line = format!("{} {number}", random.pick(&["GET", "PUT"]));
        store.push(&labels, TestEntry { timestamp_ns: time_ns, line: line.into(), metadata });
    }
    store
}

#[test]
fn counts_by_names_of_metadata_do_not_depend_on_the_shortcut() {
    let (mut answers, mut failures) = (0, 0);
    for seed in seeds(300) {
        let random = &mut Rng::new(seed);
        let store = store(random);
        let filter = random.pick(&["", " |= `GET`", " != `GET`", " |= `absent`"]);
        let by = random.pick(&[
            "by (level)",
            "by (level, zone)",
            "by (level, stream, zone, trace_id)",
            "by (trace_id)",
            "by (stream)",
            "by (level, __error__)",
            "by (level, __error_details__)",
            "by (absent)",
            "by (level_extracted)",
            "without (trace_id)",
        ]);
        let function = random.pick(&["count_over_time", "bytes_over_time", "rate"]);
        let window_s = 1 + random.below(20);
        let query = format!("sum {by} ({function}({{app=\"a\"}}{filter} [{window_s}s]))");
        let step_ns = (1 + random.below(10)) as i64 * SECOND_NS;
        let time = QueryTime::Range { start_ns: 0, end_ns: 60 * SECOND_NS, step_ns };
        let params = QueryParams::new(time);
        let plain = store.query_with(&query, &params, &Layout::PLAIN);
        let plain = plain.map_err(|error| error.to_string());
        for _ in 0..4 {
            let layout = Layout {
                shards: 1 + random.below(3),
                block_entries: 1 + random.below(60),
                sort_blocks: random.one_in(2),
                scatter_blocks: random.one_in(2),
                repeat_sets: random.one_in(2),
                ..Layout::default()
            };
            let answer = store.query_with(&query, &params, &layout);
            let answer = answer.map_err(|error| error.to_string());
            match (&answer, &plain) {
                // Which of several errors is told depends on the order of entries.
                (Err(_), Err(_)) => failures += 1,
                _ => {
                    assert_eq!(answer, plain, "seed {seed}: {query}, {layout:?}");
                    answers += 1;
                }
            }
        }
    }
    println!("{answers} answers, {failures} failures");
}
