//! When the common state is written, and what is read of it.

use std::cell::RefCell;
use std::sync::Arc;

use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::sim::{SimRuntime, Simulation};

use super::*;
use crate::alert::{Alert, AlertTable, NEVER_NS};
use crate::common::fake::{Fake, Fate};
use crate::messages::AlertState;
use crate::state::{GroupKey, GroupSnapshot, RuleImage, RuleSnapshot};

const FILE: &str = "rules/state/ALERTS";
const TOLERANCE: Duration = Duration::from_secs(3600);

fn table(alerts: usize) -> Arc<AlertTable> {
    let alert = |number: usize| Alert {
        labels: Labels::from_pairs([("alertname", "A"), ("pod", &format!("{number:06}")[..])])
            .expect("labels"),
        annotations: Labels::from_pairs([("text", &"x".repeat(300)[..])]).expect("labels"),
        value: 1.0,
        active_at_ns: number as i64,
        fired_at_ns: NEVER_NS,
        resolved_at_ns: NEVER_NS,
        keep_firing_since_ns: NEVER_NS,
        last_sent_ns: NEVER_NS,
        state: AlertState::Pending,
    };
    Arc::new(AlertTable::new((0..alerts).map(alert).collect()))
}

fn group(alerts: usize) -> GroupSnapshot {
    let tenant = TenantId::new("t").expect("a tenant");
    let key = GroupKey { tenant, namespace: "n".into(), name: "g".into() };
    let identity = RuleImage { name: "A".into(), expr: "x".into(), ..RuleImage::default() };
    let rule = RuleSnapshot { number: 2, identity: Rc::new(identity), table: table(alerts) };
    GroupSnapshot { key, number: 1, last_evaluation_ns: Some(7), rules: vec![rule] }
}

type Groups = Rc<RefCell<Vec<GroupSnapshot>>>;

fn start(runtime: &SimRuntime, fake: &Rc<Fake>, groups: &Groups) -> CommonState<SimRuntime> {
    let groups = Rc::clone(groups);
    let snapshot = move || groups.borrow().clone();
    CommonState::start(runtime, fake.clone(), TOLERANCE, Rc::new(snapshot))
}

async fn wait(runtime: &SimRuntime, seconds: f64) {
    runtime.sleep_until(runtime.now().after(Duration::from_secs_f64(seconds))).await;
}

/// The number of alerts that the next keeper finds.
async fn found(runtime: &SimRuntime, fake: &Fake) -> usize {
    let image = load_common(runtime, fake).await;
    image.values().flat_map(|group| &group.rules).map(|rule| rule.table.len()).sum()
}

#[test]
fn changes_are_written_soon_and_without_news_nothing_is() {
    Simulation::new(1).block_on(async move |runtime| {
        let (fake, groups) = (Fake::shared(), Groups::default());
        let state = start(&runtime, &fake, &groups);
        wait(&runtime, 20_000.0).await;
        // There are no alerts, so there is no file.
        state.note(News::State);
        wait(&runtime, 100.0).await;
        assert_eq!(fake.changes.get(), 0);
        *groups.borrow_mut() = vec![group(3)];
        state.note(News::State);
        wait(&runtime, 1.1).await;
        assert_eq!((fake.changes.get(), found(&runtime, &fake).await), (1, 3));
        // The next ones wait for a while, and for five seconds at most.
        *groups.borrow_mut() = vec![group(4)];
        for _ in 0..5 {
            state.note(News::State);
            assert_eq!(fake.changes.get(), 1);
            wait(&runtime, 0.9).await;
        }
        wait(&runtime, 0.6).await;
        assert_eq!((fake.changes.get(), found(&runtime, &fake).await), (2, 4));
        wait(&runtime, 4.0).await;
        state.note(News::Waiting);
        wait(&runtime, 10.0).await;
        assert_eq!(fake.changes.get(), 2);
        wait(&runtime, 2.0).await;
        assert_eq!(fake.changes.get(), 3);
        wait(&runtime, 100_000.0).await;
        assert_eq!(fake.changes.get(), 3);
        // Times alone come a few times within the tolerance.
        for _ in 0..36 {
            state.note(News::Time);
            wait(&runtime, 100.0).await;
        }
        assert!((6..=8).contains(&fake.changes.get()), "{}", fake.changes.get());
        groups.borrow_mut().clear();
        state.note(News::State);
        wait(&runtime, 6.0).await;
        assert_eq!((fake.number(FILE), found(&runtime, &fake).await), (None, 0));
    });
}

#[test]
fn a_stop_writes_what_is_new_and_the_end_of_a_term_writes_nothing() {
    Simulation::new(1).block_on(async move |runtime| {
        for (is_over, expected) in [(false, 3), (true, 0)] {
            let (fake, groups) = (Fake::shared(), Groups::default());
            let state = start(&runtime, &fake, &groups);
            *groups.borrow_mut() = vec![group(3)];
            state.note(News::Time);
            fake.is_over.set(is_over);
            state.stop().await;
            assert_eq!(found(&runtime, &fake).await, expected);
        }
    });
}

#[test]
fn a_write_that_fails_is_made_again() {
    Simulation::new(1).block_on(async move |runtime| {
        for fate in [Fate::Lost, Fate::MadeSilently] {
            let (fake, groups) = (Fake::shared(), Groups::default());
            let state = start(&runtime, &fake, &groups);
            *groups.borrow_mut() = vec![group(3)];
            fake.fate.set(fate);
            state.note(News::State);
            wait(&runtime, 6.1).await;
            assert_eq!(state.counters().failures, 1);
            *groups.borrow_mut() = vec![group(2)];
            wait(&runtime, 6.0).await;
            assert_eq!((state.counters().rewrites, found(&runtime, &fake).await), (1, 2));
        }
    });
}

#[test]
fn damage_costs_ages_and_a_bucket_that_is_away_is_waited_for() {
    Simulation::new(1).block_on(async move |runtime| {
        let (fake, groups) = (Fake::shared(), Groups::default());
        let state = start(&runtime, &fake, &groups);
        *groups.borrow_mut() = vec![group(5000)];
        state.note(News::State);
        wait(&runtime, 6.0).await;
        let bytes = fake.files.borrow()[FILE].1.clone();
        assert_eq!(found(&runtime, &fake).await, 5000);
        for (at, least) in [(3, 0), (bytes.len() - 5, 100)] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            fake.write(FILE, Some(damaged));
            assert!((least..5000).contains(&found(&runtime, &fake).await));
        }
        fake.write(FILE, Some(bytes));
        fake.is_away.set(true);
        let (reader, clock) = (fake.clone(), runtime.clone());
        let reading = runtime.spawn(async move { found(&clock, &reader).await });
        wait(&runtime, 30.0).await;
        fake.is_away.set(false);
        assert_eq!(reading.await, 5000);
    });
}

#[test]
fn more_alerts_than_fit_leave_the_others_what_they_are() {
    Simulation::new(1).block_on(async move |runtime| {
        let (fake, groups) = (Fake::shared(), Groups::default());
        let state = start(&runtime, &fake, &groups);
        *groups.borrow_mut() = vec![group(100_000)];
        state.note(News::State);
        state.stop().await;
        let len_bytes = fake.files.borrow()[FILE].1.len();
        assert!(len_bytes <= STATE_MAX_BYTES && len_bytes > STATE_MAX_BYTES - (1 << 20));
        let count = found(&runtime, &fake).await;
        assert!((50_000..100_000).contains(&count), "{count}");
    });
}
