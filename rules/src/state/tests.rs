//! Reading and writing the log of alerts.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::Runtime;
use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::format::{HEADER_BYTES, Record, write_alert, write_frame};
use super::fuzz::rule_state;
use super::image::Replay;
use super::*;
use crate::alert::{Alert, AlertTable, NEVER_NS};
use crate::messages::AlertState;

const FILE: &str = "/data/rules/state/ALERTS";

fn alert(rng: &mut Rng) -> Alert {
    let pod = format!("p{}", rng.below(40));
    let labels = Labels::from_pairs([("alertname", "A"), ("pod", &pod)]).unwrap();
    let time = |rng: &mut Rng| if rng.one_in(3) { NEVER_NS } else { rng.next_u64() as i64 >> 1 };
    Alert {
        labels,
        annotations: Labels::from_result_pairs([("summary", "é\0"), ("x", "")]).unwrap(),
        value: rng.below(100) as f64,
        active_at_ns: time(rng),
        fired_at_ns: time(rng),
        resolved_at_ns: time(rng),
        keep_firing_since_ns: time(rng),
        last_sent_ns: NEVER_NS,
        state: *rng.pick(&[AlertState::Inactive, AlertState::Pending, AlertState::Firing]),
    }
}

fn key() -> GroupKey {
    let tenant = TenantId::new("t").unwrap();
    GroupKey { tenant, namespace: "a/b ü".into(), name: "..".into() }
}

fn rule_record(number: u32, expr: &str) -> Record {
    let labels = vec![("team".to_owned(), "{{ $labels.x }}".to_owned())];
    Record::Rule { number, group: 1, name: "A".to_owned(), expr: expr.to_owned(), labels }
}

fn random_record(rng: &mut Rng) -> Record {
    let rule = rng.below(3) as u32;
    match rng.below(8) {
        0 => key().record(1),
        1 => rule_record(rule, "x"),
        2 => Record::Gone { rule, labels: alert(rng).labels },
        3 => Record::ForgetRule { rule },
        4 if rng.one_in(4) => Record::ForgetGroup { group: 1 },
        5 => Record::Evaluated { group: 1, time_ns: rng.next_u64() as i64 },
        _ => Record::Alert { rule, alert: alert(rng) },
    }
}

#[test]
fn records_survive_and_damage_does_no_harm() {
    for seed in seeds(2000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let records: Vec<Record> = (0..rng.below(20)).map(|_| random_record(&mut rng)).collect();
        let mut run = Vec::new();
        records.iter().for_each(|record| record.write(&mut run));
        let (mut rest, mut read) = (&run[..], Vec::new());
        while let Some(record) = Record::take(&mut rest) {
            read.push(record);
        }
        assert_eq!(read, records);
        rule_state(&run);
        let mut frames = Vec::new();
        if !run.is_empty() {
            write_frame(0, &run, &mut frames);
            write_frame(0, &run, &mut frames);
        }
        rule_state(&frames);
        rng.damage(&mut run);
        rule_state(&run);
        rng.damage(&mut frames);
        rule_state(&frames);
        let header = super::format::Header { nonce: seed, created_ns: 3 }.encode();
        rule_state(&header);
        let arbitrary = rng.below(200) as usize;
        rule_state(&rng.bytes(arbitrary));
    }
}

#[test]
fn a_rule_that_gets_other_texts_keeps_its_alerts() {
    let mut rng = Rng::new(1);
    let one = alert(&mut rng);
    let mut replay = Replay::default();
    let mut run = Vec::new();
    for record in [
        key().record(1),
        rule_record(2, "x"),
        Record::Alert { rule: 2, alert: one.clone() },
        key().record(1),
        rule_record(2, "y"),
        Record::Evaluated { group: 1, time_ns: 5 },
        key().record(1),
    ] {
        record.write(&mut run);
    }
    assert!(replay.apply(&run));
    let image = replay.finish();
    let group = &image[&key()];
    assert_eq!((group.last_evaluation_ns, group.rules.len()), (Some(5), 1));
    assert_eq!(group.rules[0].expr, "y");
    assert_eq!(group.rules[0].table.alerts(), [one]);
}

/// A log over one rule whose table is kept here, as the groups keep it.
struct Rig {
    log: StateLog<SimRuntime>,
    table: Rc<RefCell<Arc<AlertTable>>>,
    /// Whether the file knows the rule.
    is_known: Rc<RefCell<bool>>,
}

/// The data folder is there before the log is.
async fn make_data_folder(runtime: &SimRuntime) {
    runtime.create_dir_all(Path::new("/data")).await.unwrap();
    runtime.sync_dir(Path::new("/")).await.unwrap();
}

impl Rig {
    fn start(runtime: &SimRuntime, table: Arc<AlertTable>) -> Rig {
        let table = Rc::new(RefCell::new(table));
        let is_known = Rc::new(RefCell::new(false));
        let (for_log, known) = (Rc::clone(&table), Rc::clone(&is_known));
        let snapshot = move || {
            let table = Arc::clone(&for_log.borrow());
            *known.borrow_mut() = !table.is_empty();
            let rules = vec![RuleSnapshot {
                number: 2,
                identity: Rc::new(RuleImage { name: "A".to_owned(), ..RuleImage::default() }),
                table,
            }];
            vec![GroupSnapshot { key: key(), number: 1, last_evaluation_ns: Some(7), rules }]
        };
        let log = StateLog::start(runtime, Path::new("/data"), Rc::new(snapshot));
        Rig { log, table, is_known }
    }

    /// Adds or changes an alert; the future says whether it is kept.
    fn put(&self, alert: Alert) -> impl Future<Output = bool> + use<> {
        let mut alerts = vec![alert.clone()];
        alerts.extend(self.table.borrow().alerts().iter().cloned());
        *self.table.borrow_mut() = Arc::new(AlertTable::new(alerts));
        let mut run = Vec::new();
        key().record(1).write(&mut run);
        if !self.is_known.replace(true) {
            Record::Rule {
                number: 2,
                group: 1,
                name: "A".to_owned(),
                expr: String::new(),
                labels: Vec::new(),
            }
            .write(&mut run);
        }
        write_alert(2, &alert, &mut run);
        self.log.append(vec![run])
    }
}

fn loaded(simulation: &Simulation) -> (AlertTable, LoadReport) {
    simulation.block_on(|runtime| async move {
        let (image, report) = load(&runtime, Path::new("/data")).await;
        let table = image.get(&key()).map(|group| (*group.rules[0].table).clone());
        (table.unwrap_or_default(), report)
    })
}

#[test]
fn what_was_acknowledged_survives_kills_and_rewrites() {
    let mut rewrites = 0;
    for seed in seeds(60) {
        let simulation = Simulation::new(seed);
        let mut rng = Rng::new(seed);
        let mut table = AlertTable::default();
        for _ in 0..4 {
            let acknowledged = Rc::new(RefCell::new((Vec::new(), StateCounters::default())));
            let (for_task, for_start) = (Rc::clone(&acknowledged), Arc::new(table.clone()));
            let task_seed = rng.next_u64();
            let node = simulation.start_node(1, move |runtime| {
                let (for_task, for_start) = (Rc::clone(&for_task), Arc::clone(&for_start));
                async move {
                    let mut rng = Rng::new(task_seed);
                    let rig = Rig::start(&runtime, for_start);
                    loop {
                        let mut one = alert(&mut rng);
                        // Makes the file long, so that it is rewritten.
                        let filler = "x".repeat(rng.below(60_000) as usize + 1);
                        one.annotations = Labels::from_pairs([("a", &filler)]).unwrap();
                        let kept = rig.put(one.clone());
                        if rng.one_in(10) {
                            runtime
                                .sleep_until(runtime.now().after(Duration::from_millis(300)))
                                .await;
                        }
                        assert!(kept.await, "the disk works");
                        let mut acknowledged = for_task.borrow_mut();
                        acknowledged.0.push(one);
                        acknowledged.1 = rig.log.counters();
                    }
                }
            });
            simulation.run_for(Duration::from_millis(rng.between(1, 3000)));
            node.crash();
            let (now, report) = loaded(&simulation);
            assert_eq!(report.fault, None, "seed {seed}");
            let mut expected = acknowledged.borrow().0.clone();
            rewrites += acknowledged.borrow().1.rewrites.saturating_sub(1);
            expected.reverse();
            expected.extend(table.alerts().iter().cloned());
            // One further change may have got through.
            let expected = AlertTable::new(expected);
            let differing = now.alerts().iter().filter(|one| !expected.alerts().contains(one));
            assert!(differing.count() <= 1, "seed {seed}");
            for one in expected.alerts() {
                assert!(now.alerts().iter().any(|found| found.labels == one.labels), "seed {seed}");
            }
            table = now;
        }
    }
    assert!(rewrites > 30, "rewrites: {rewrites}");
}

#[test]
fn the_file_stays_short_and_is_synced() {
    let simulation = Simulation::new(5);
    let (longest, counters) = simulation.block_on(|runtime| async move {
        make_data_folder(&runtime).await;
        let rig = Rig::start(&runtime, Arc::default());
        let mut rng = Rng::new(5);
        let mut longest = 0;
        for _ in 0..20_000 {
            assert!(rig.put(alert(&mut rng)).await);
            longest = longest.max(rig.log.counters().file_bytes);
        }
        rig.log.stop().await;
        (longest, rig.log.counters())
    });
    assert!(longest < REWRITE_SLACK_BYTES + 200_000, "{longest}");
    assert!(counters.rewrites > 1 && counters.failures == 0, "{counters:?}");
    simulation.disk().power_loss();
    let (table, report) = loaded(&simulation);
    assert_eq!((table.len(), report.lost_bytes), (40, 0), "stop has synced");
}

#[test]
fn a_loss_of_power_costs_a_second_at_most() {
    for seed in seeds(30) {
        let simulation = Simulation::new(seed);
        let sent = Rc::new(RefCell::new(Vec::new()));
        let for_task = Rc::clone(&sent);
        let node = simulation.start_node(1, move |runtime| {
            let for_task = Rc::clone(&for_task);
            async move {
                make_data_folder(&runtime).await;
                let rig = Rig::start(&runtime, Arc::default());
                for number in 0.. {
                    let mut one = alert(&mut Rng::new(1));
                    one.active_at_ns = number;
                    assert!(rig.put(one).await);
                    for_task.borrow_mut().push((runtime.now(), number));
                    runtime.sleep_until(runtime.now().after(Duration::from_millis(50))).await;
                }
            }
        });
        simulation.run_for(Duration::from_millis(5000 + seed * 77));
        let now = simulation.now();
        node.power_off();
        let (table, _) = loaded(&simulation);
        let kept = table.alerts().first().map_or(-1, |one| one.active_at_ns);
        let lost = sent.borrow().iter().find(|(_, number)| *number > kept).copied();
        if let Some((at, _)) = lost {
            assert!(now.since(at) < Duration::from_millis(1500), "seed {seed}");
        }
        assert!(kept > 0, "seed {seed}");
    }
}

#[test]
fn a_failing_disk_stops_nothing_and_is_written_anew() {
    for operation in [DiskOperation::Write, DiskOperation::Sync] {
        let simulation = Simulation::new(9);
        let disk = simulation.disk().clone();
        let counters = simulation.block_on(|runtime| async move {
            let rig = Rig::start(&runtime, Arc::default());
            let mut rng = Rng::new(9);
            assert!(rig.put(alert(&mut rng)).await);
            disk.fail_next(operation, FILE, 1);
            for _ in 0..100 {
                // An alert is there either way; whether it is kept is told.
                rig.put(alert(&mut rng)).await;
                runtime.sleep_until(runtime.now().after(Duration::from_millis(100))).await;
            }
            assert!(rig.put(alert(&mut rng)).await, "the log has recovered");
            let table = Arc::clone(&rig.table.borrow());
            rig.log.stop().await;
            (rig.log.counters(), table)
        });
        assert_eq!(counters.0.failures, 1, "{operation:?}");
        assert_eq!(loaded(&simulation).0, *counters.1, "{operation:?}");
    }
}

#[test]
fn damage_costs_what_is_behind_it_and_never_the_start() {
    for seed in seeds(100) {
        let simulation = Simulation::new(seed);
        let mut rng = Rng::new(seed);
        simulation.block_on(|runtime| async move {
            let rig = Rig::start(&runtime, Arc::default());
            let mut rng = Rng::new(7);
            for _ in 0..30 {
                assert!(rig.put(alert(&mut rng)).await);
            }
            rig.log.stop().await;
        });
        let mut bytes = simulation.disk().read(FILE).unwrap();
        let at = rng.index(bytes.len());
        match rng.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << rng.below(8),
            _ => bytes.extend(vec![0; at]),
        }
        simulation.disk().write(FILE, &bytes);
        let (_, report) = loaded(&simulation);
        let total = report.good_bytes + report.lost_bytes;
        assert!(total == bytes.len() as u64, "seed {seed}: {report:?}");
        // The next process writes the file anew, and then it is whole.
        simulation.block_on(|runtime| async move {
            let (image, _) = load(&runtime, Path::new("/data")).await;
            let table = image.get(&key()).map(|group| Arc::clone(&group.rules[0].table));
            let rig = Rig::start(&runtime, table.unwrap_or_default());
            assert!(rig.put(alert(&mut Rng::new(3))).await);
            rig.log.stop().await;
        });
        let (_, report) = loaded(&simulation);
        assert_eq!((report.fault, report.lost_bytes), (None, 0), "seed {seed}");
    }
}

#[test]
fn other_versions_are_told_from_damage() {
    let simulation = Simulation::new(1);
    let mut header = super::format::Header { nonce: 1, created_ns: 2 }.encode();
    header[8] = 9;
    header[12..16].fill(0);
    let crc = crc32c::crc32c(&header);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    simulation.disk().write(FILE, &header);
    assert_eq!(loaded(&simulation).1.fault.as_deref(), Some("the version 9 is unknown"));
    simulation.disk().write(FILE, &header[..HEADER_BYTES - 1]);
    assert_eq!(loaded(&simulation).1.fault.as_deref(), Some("the header is damaged"));
}
