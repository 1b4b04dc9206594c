//! Pages of a log query that follow each other by places have each entry once, in the order of the
//! whole answer: however many entries share a time, however the store is laid out for each page,
//! and whatever arrives in between.

use std::collections::BTreeSet;

use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{
    Direction, EntryPlace, Place, Plan, QueryParams, QueryResult, StreamResult,
};
use logsvc_logql::syntax;
use logsvc_proto::Labels;
use logsvc_testkit::Rng;

const QUERIES: [&str; 5] = [
    r#"{app="m"}"#,
    r#"{app="m"} |= "2""#,
    r#"{app="m"} | logfmt | n > 3"#,
    r#"{app="m"} | logfmt | line_format "{{ .k }}""#,
    r#"{s=~"0|1"} | json | drop trace"#,
];

/// Time, labels and line of an entry as it is returned.
type Row = (i64, String, String);

fn rows(result: QueryResult, direction: Direction) -> Vec<Row> {
    let QueryResult::Streams(streams) = result else { panic!("{result:?}") };
    let mut rows: Vec<Row> = Vec::new();
    for stream in streams {
        for entry in stream.entries {
            let line = String::from_utf8_lossy(&entry.line).into_owned();
            rows.push((entry.timestamp_ns, stream.labels.canonical(), line));
        }
    }
    rows.sort_by_key(|row| if direction == Direction::Forward { row.0 } else { -row.0 });
    rows
}

fn push(store: &mut TestStore, random: &mut Rng, number: u64) {
    let stream = random.below(4).to_string();
    let labels = Labels::from_pairs([("app", "m"), ("s", &stream)]).expect("valid labels");
    let metadata = match random.below(3) {
        0 => vec![("trace".to_owned(), random.below(3).to_string())],
        _ => Vec::new(),
    };
    let line = format!("k={number} n={}", random.below(9)).into_bytes();
    let timestamp_ns = 100 + i64::try_from(random.below(3)).expect("small");
    store.push(&labels, TestEntry { timestamp_ns, line, metadata });
}

fn layout(random: &mut Rng) -> Layout {
    Layout {
        shards: 1 + random.below(4) as usize,
        block_entries: 1 + random.below(50) as usize,
        sort_blocks: random.below(2) == 0,
        scatter_blocks: random.below(2) == 0,
        ..Layout::default()
    }
}

/// All pages, and the number of them. Between two of them `arrive` changes the store.
fn pages(
    store: &mut TestStore,
    query: &str,
    params: &QueryParams,
    random: &mut Rng,
    mut arrive: impl FnMut(&mut TestStore, &mut Rng),
) -> (Vec<Row>, usize) {
    let expr = syntax::parse(query).expect("a query");
    let (mut found, mut count): (_, usize) = (Vec::new(), 0);
    let mut after: Option<Place> = None;
    loop {
        let params = QueryParams { after, ..params.clone() };
        let plan = Plan::new(&expr, &params).expect("a plan");
        let (result, last) = store.page(&plan, &layout(random)).expect("an answer");
        let page = rows(result, params.direction);
        assert_eq!(last.is_some(), page.len() == params.limit, "{query}: a full page has a place");
        found.extend(page);
        count += 1;
        match last {
            Some(place) => after = Some(place),
            None => return (found, count),
        }
        assert!(count < 2000, "{query}: pages end");
        arrive(store, random);
    }
}

#[test]
fn pages_have_each_entry_once() {
    let (mut most_pages, mut beside) = (0, 0);
    for seed in logsvc_testkit::seeds(40) {
        let mut random = Rng::new(seed);
        let mut store = TestStore::new();
        let count = random.below(300);
        (0..count).for_each(|number| push(&mut store, &mut random, number));
        let mut number = 1000;
        for query in QUERIES {
            let mut params = QueryParams::range(0, 1000, 1);
            params.limit = 1_000_000;
            params.categorize_labels = random.below(2) == 0;
            if random.below(2) == 0 {
                params.direction = Direction::Forward;
            }
            let expr = syntax::parse(query).expect("a query");
            let plan = Plan::new(&expr, &params).expect("a plan");
            let (whole, last) = store.page(&plan, &Layout::PLAIN).expect("an answer");
            assert_eq!(last, None, "nothing is left");
            let whole = rows(whole, params.direction);
            params.limit = 1 + random.below(20) as usize;
            let (paged, pages_of_it) = pages(&mut store, query, &params, &mut random, |_, _| {});
            most_pages = most_pages.max(pages_of_it);
            assert_eq!(sorted(&paged), sorted(&whole), "seed {seed}: {query} {params:?}");
            let times = |rows: &[Row]| rows.iter().map(|row| row.0).collect::<Vec<_>>();
            assert_eq!(times(&paged), times(&whole), "seed {seed}: {query}");
            // The same while entries arrive.
            let fresh_end = number + 400;
            let (paged, _) = pages(&mut store, query, &params, &mut random, |store, random| {
                if number < fresh_end {
                    push(store, random, number);
                    number += 1;
                }
            });
            let found: BTreeSet<&Row> = paged.iter().collect();
            assert_eq!(found.len(), paged.len(), "seed {seed}: {query}: none comes twice");
            for row in &whole {
                assert!(found.contains(row), "seed {seed}: {query}: {row:?} is missing");
            }
            beside += paged.len() - whole.len();
        }
    }
    assert!(most_pages > 50 && beside > 100, "{most_pages} pages, {beside} new entries");
}

fn sorted(rows: &[Row]) -> Vec<Row> {
    let mut rows = rows.to_vec();
    rows.sort();
    rows
}

/// Time, place and line of an entry.
type Placed = (i64, EntryPlace, Box<[u8]>);

/// The entries of a result, stream by stream.
fn placed(result: QueryResult) -> Vec<Vec<Placed>> {
    let QueryResult::Streams(streams) = result else { panic!("{result:?}") };
    let entries_of = |stream: StreamResult| {
        assert_eq!(stream.entries.len(), stream.places.len(), "each entry has a place");
        let entries = stream.entries.into_iter().zip(stream.places);
        entries.map(|(entry, place)| (entry.timestamp_ns, place, entry.line)).collect()
    };
    streams.into_iter().map(entries_of).collect()
}

#[test]
fn the_entries_around_a_place_are_those_of_its_stream() {
    let selectors =
        [r#"{app="m"}"#, r#"{app="m"}"#, r#"{app="m"}"#, r#"{app="m"}"#, r#"{s=~"0|1"}"#];
    let mut checked = 0;
    for seed in logsvc_testkit::seeds(30) {
        let mut random = Rng::new(seed);
        let mut store = TestStore::new();
        let count = 1 + random.below(200);
        (0..count).for_each(|number| push(&mut store, &mut random, number));
        let mut all = QueryParams::range(0, 1000, 1);
        (all.limit, all.direction) = (1_000_000, Direction::Forward);
        (all.places, all.categorize_labels) = (true, true);
        let run = |text: &str, params: &QueryParams, layout: &Layout| {
            let expr = syntax::parse(text).expect("a query");
            let plan = Plan::new(&expr, params).expect("a plan");
            placed(store.page(&plan, layout).expect("an answer").0)
        };
        let streams = run(r#"{app="m"}"#, &all, &Layout::PLAIN);
        for (query, selector) in QUERIES.iter().zip(selectors) {
            let mut params = all.clone();
            params.limit = 1 + random.below(50) as usize;
            params.categorize_labels = random.one_in(2);
            if random.one_in(2) {
                params.direction = Direction::Backward;
            }
            let found = run(query, &params, &layout(&mut random));
            for (timestamp_ns, place, _) in found.into_iter().flatten().take(20) {
                let is_it =
                    |entry: &&(i64, EntryPlace, _)| (entry.0, entry.1) == (timestamp_ns, place);
                let stream = streams.iter().find(|stream| stream.iter().any(|e| is_it(&e)));
                let stream = stream.expect("the entry is in the store");
                assert_eq!(stream.iter().filter(is_it).count(), 1, "seed {seed}: one of its kind");
                let at = stream.iter().position(|e| is_it(&e)).expect("it is there");
                let limit = 1 + random.below(8) as usize;
                let side = |direction: Direction, random: &mut Rng| {
                    let mut params = all.clone();
                    (params.limit, params.direction) = (limit, direction);
                    params.after = Some(place.at(timestamp_ns));
                    params.from_place = direction == Direction::Forward;
                    params.only_stream = Some(place.stream_hash);
                    run(selector, &params, &layout(random)).concat()
                };
                let behind = side(Direction::Forward, &mut random);
                let expected: Vec<_> = stream[at..].iter().take(limit).cloned().collect();
                assert_eq!(behind, expected, "seed {seed}: {query}, the entry and those behind it");
                let before = side(Direction::Backward, &mut random);
                let expected: Vec<_> = stream[..at].iter().rev().take(limit).cloned().collect();
                assert_eq!(before, expected, "seed {seed}: {query}, those before it");
                checked += 1;
            }
        }
    }
    println!("{checked} places");
}

#[test]
fn the_ordinal_stands_for_an_entry_that_is_gone() {
    let labels = Labels::from_pairs([("app", "m")]).expect("valid labels");
    let with = |numbers: &[i32]| {
        let mut store = TestStore::new();
        numbers.iter().for_each(|number| store.push_line(&labels, 7, &number.to_string()));
        store
    };
    let expr = syntax::parse(r#"{app="m"}"#).expect("a query");
    let mut params = QueryParams::range(0, 10, 1);
    (params.limit, params.direction) = (2, Direction::Forward);
    let plan = |params: &QueryParams| Plan::new(&expr, params).expect("a plan");
    let all = with(&[0, 1, 2, 3, 4]);
    let (_, last) = all.page(&plan(&params), &Layout::PLAIN).expect("an answer");
    assert_eq!(last.map(|place| place.ordinal), Some(2));
    params.after = last;
    let (result, last) = all.page(&plan(&params), &Layout::PLAIN).expect("an answer");
    assert_eq!(last.map(|place| place.ordinal), Some(4));
    let lines = |result| rows(result, Direction::Forward).into_iter().map(|row| row.2);
    assert_eq!(lines(result).collect::<String>(), "23");
    params.after = last;
    let (result, last) = all.page(&plan(&params), &Layout::PLAIN).expect("an answer");
    assert_eq!((lines(result).collect::<String>(), last), ("4".to_owned(), None));
    // The third entry ended the page. It has been deleted since.
    let (result, _) = with(&[0, 1, 2, 4, 5]).page(&plan(&params), &Layout::PLAIN).expect("one");
    assert_eq!(lines(result).collect::<String>(), "5");
}
