//! The task of a group.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_proto::Labels;
use logsvc_runtime::Runtime;

use super::definition::Definition;
use super::evaluate::{self, Turn};
use super::node::{Group, Node, sample_ms};
use super::rule::Kind;
use super::waits::unless;
use crate::alert::{Alert, AlertTable, Outage};
use crate::evaluator::Evaluator;
use crate::messages::AlertState;
use crate::schedule::{Next, Schedule};
use crate::sink::{AlertSink, RecordedSample, STALE, SampleSink};
use crate::state::News;
use crate::state::format::Record;

/// Evaluates the group until it is removed or the node stops.
pub(super) async fn run<R, E, A, S>(node: Rc<Node<R, E, A, S>>, group: Rc<Group>)
where
    R: Runtime,
    E: Evaluator,
    A: AlertSink,
    S: SampleSink,
{
    let mut schedule = Schedule::new(group.definition().interval, group.hash);
    if let Some(last_ns) = group.before_start_ns.get() {
        schedule.resume(last_ns);
    }
    while !group.is_removed.get() && !node.is_stopping.get() {
        let definition = group.definition();
        schedule.set_interval(definition.interval, group.hash);
        let (unix_ns, now) = (node.runtime.unix_nanos(), node.runtime.now());
        match schedule.next(unix_ns, now) {
            Next::Wait(wait) => {
                let until = node.runtime.sleep_until(now.after(wait));
                // Another definition may have another interval.
                let _ = unless(&definition.ended, until).await;
            }
            Next::Evaluate { time_ns, missed } => {
                {
                    let mut counts = group.counts.borrow_mut();
                    counts.iterations += 1 + missed;
                    counts.iterations_missed += missed;
                }
                match unless(&definition.ended, node.may_evaluate()).await {
                    Some(true) => {
                        Box::pin(evaluate_group(&node, &group, &definition, time_ns)).await;
                    }
                    // Another node evaluates, or nobody can say that none does.
                    Some(false) => group.counts.borrow_mut().iterations_missed += 1,
                    None => {}
                }
            }
        }
    }
}

async fn evaluate_group<R, E, A, S>(
    node: &Rc<Node<R, E, A, S>>,
    group: &Rc<Group>,
    definition: &Rc<Definition>,
    time_ns: i64,
) where
    R: Runtime,
    E: Evaluator,
    A: AlertSink,
    S: SampleSink,
{
    let (began, began_ns) = (node.runtime.now(), node.runtime.unix_nanos());
    let query_offset =
        definition.query_offset.unwrap_or_else(|| (node.links.query_offset)(&group.key.tenant));
    prepare_tables(node, group, definition, time_ns);
    let turn = Turn { node, group, definition, time_ns, query_offset, has_time: Cell::new(false) };
    let mut samples = 0;
    for rule in &definition.rules {
        match turn.rule(rule).await {
            Some(count) => samples += count,
            // The definition has ended.
            None => return,
        }
    }
    if rules_have_alerts(definition) && !turn.wrote_time() {
        let mut run = Vec::new();
        Record::Evaluated { group: group.number.get(), time_ns }.write(&mut run);
        let is_pending = |alert: &Alert| alert.state == AlertState::Pending;
        let tables = definition.rules.iter().map(|rule| rule.table());
        let mut waiting = tables.filter(|table| table.alerts().iter().any(is_pending));
        let news = if waiting.next().is_some() { News::Waiting } else { News::Time };
        node.keep(vec![run], news).await;
    }
    end_owed(node, group, definition, sample_ms(time_ns, query_offset)).await;
    let mut counts = group.counts.borrow_mut();
    counts.last_evaluation_ns = Some(began_ns);
    let took = node.runtime.now().since(began);
    counts.last_duration = took;
    counts.iterations_time += took;
    counts.last_samples = samples;
    drop(counts);
    group.changed();
}

fn rules_have_alerts(definition: &Definition) -> bool {
    definition.rules.iter().any(|rule| !rule.state.borrow().table.is_empty())
}

/// Before the first evaluation after a start, and when the wall clock was set back: alerts get
/// other times.
fn prepare_tables<R, E, A, S>(
    node: &Rc<Node<R, E, A, S>>,
    group: &Rc<Group>,
    definition: &Rc<Definition>,
    time_ns: i64,
) where
    R: Runtime,
{
    let interval_ns = evaluate::nanos(definition.interval);
    let outage = group.before_start_ns.take().map(|last_ns| Outage {
        last_ns,
        first_ns: time_ns,
        interval_ns,
        tolerance_ns: evaluate::nanos(node.config.for_outage_tolerance),
        grace_ns: evaluate::nanos(node.config.for_grace_period),
    });
    let back_ns = group.last_time_ns.get().filter(|last_ns| time_ns <= *last_ns);
    group.last_time_ns.set(Some(time_ns));
    let (mut run, mut full) = (Vec::new(), Vec::new());
    for rule in &definition.rules {
        let Kind::Alert { hold, .. } = &rule.kind else { continue };
        let table = rule.table();
        if table.is_empty() {
            continue;
        }
        let changed: AlertTable = match (&outage, back_ns) {
            (Some(outage), _) => table.restored(outage, evaluate::nanos(*hold)),
            (None, Some(last_ns)) => {
                table.moved(time_ns.saturating_sub(last_ns).saturating_sub(interval_ns))
            }
            (None, None) => continue,
        };
        if changed != *table {
            rule.state.borrow_mut().table = Arc::new(changed);
            if !group.is_in_log.replace(true) {
                group.key.record(group.number.get()).write(&mut run);
            }
            rule.write_whole(group.number.get(), &mut run, &mut full);
            group.changed();
        }
    }
    if !run.is_empty() {
        full.push(run);
    }
    node.note_runs(full);
}

/// Ends the series of rules that are gone.
async fn end_owed<R, E, A, S>(
    node: &Rc<Node<R, E, A, S>>,
    group: &Rc<Group>,
    definition: &Rc<Definition>,
    timestamp_ms: i64,
) where
    R: Runtime,
    S: SampleSink,
{
    let owed: Vec<Labels> = group.owed.take();
    let tenant = &group.key.tenant;
    if owed.is_empty() || !node.links.samples.takes(tenant) {
        return;
    }
    let mut held: Vec<Labels> = definition.rules.iter().flat_map(|rule| rule.series()).collect();
    held.sort_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
    let ended = owed.iter().filter(|labels| !crate::record::contains(&held, labels)).cloned();
    let samples: Vec<RecordedSample> =
        ended.map(|labels| RecordedSample { labels, timestamp_ms, value: STALE }).collect();
    if samples.is_empty() {
        return;
    }
    if let Err(error) = node.links.samples.append(tenant, samples).await {
        tracing::debug!(%error, "series of removed rules do not end yet");
        group.owed.borrow_mut().extend(owed);
    }
}
