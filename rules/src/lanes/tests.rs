//! Queries on their way to the cores and back, on the simulation.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::join_all;
use logsvc_logql::syntax;
use logsvc_runtime::sim::Simulation;

use super::*;
use crate::evaluator::Wanted;

fn query(tenant: &str, number: usize) -> RuleQuery {
    let text = "vector(1)";
    RuleQuery {
        tenant: TenantId::new(tenant).expect("a tenant"),
        text: text.into(),
        expr: Arc::new(syntax::parse(text).expect("a query")),
        time_ns: number as i64,
        interval_ns: 0,
        wanted: Wanted::Vector,
        spread: number as u64,
    }
}

/// An answer that tells which query it is of.
fn answer(query: &RuleQuery) -> RuleOutcome {
    Err(RuleQueryError::Failed(query.time_ns.to_string()))
}

#[test]
fn more_queries_than_there_is_room_for_are_all_answered_in_turn() {
    let order = Simulation::new(1).block_on(|runtime| async move {
        let mesh = rule_mesh(1);
        let (caller, mut inbox) = mesh.attach(CoreId(0));
        drop(runtime.spawn(caller.pump_replies()));
        let evaluator = LaneEvaluator::new(runtime.clone(), caller);
        let order = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&order);
        drop(runtime.spawn(async move {
            while let Some(incoming) = inbox.receive().await {
                seen.borrow_mut().push(incoming.request.tenant.to_string());
                let outcome = answer(&incoming.request);
                incoming.reply_to.send(outcome);
            }
        }));
        let many = (0..3 * QUERIES_MAX).map(|number| query("many", number));
        let few = (0..5).map(|number| query("few", number));
        let asked = many.chain(few).map(|query| async {
            let expected = answer(&query);
            assert_eq!(evaluator.evaluate(query).await, expected);
        });
        join_all(asked).await;
        order.take()
    });
    assert_eq!(order.len(), 3 * QUERIES_MAX + 5);
    // The first ones had room; then the other tenant had its turns.
    let last_of_few = order.iter().rposition(|tenant| tenant == "few");
    assert!(last_of_few.is_some_and(|place| place < QUERIES_MAX + 20), "{last_of_few:?}");
}

#[test]
fn queries_that_were_given_up_hold_room_for_a_while_and_refuse_nobody() {
    let answered = Simulation::new(1).block_on(|runtime| async move {
        let mesh = rule_mesh(1);
        let (caller, mut inbox) = mesh.attach(CoreId(0));
        drop(runtime.spawn(caller.pump_replies()));
        let evaluator = LaneEvaluator::new(runtime.clone(), caller);
        for number in 0..QUERIES_MAX {
            assert_eq!(evaluator.evaluate(query("a", number)).now_or_never(), None);
        }
        let late = runtime.spawn({
            let evaluator = evaluator.clone();
            async move { evaluator.evaluate(query("a", 7)).await }
        });
        runtime.sleep_until(runtime.now().after(Duration::from_secs(1))).await;
        assert_eq!(inbox.depth(), QUERIES_MAX);
        drop(runtime.spawn(async move {
            while let Some(incoming) = inbox.receive().await {
                let outcome = answer(&incoming.request);
                incoming.reply_to.send(outcome);
            }
        }));
        late.await
    });
    assert_eq!(answered, Err(RuleQueryError::Failed("7".to_owned())));
}

#[test]
fn a_core_that_stops_says_so_to_all_that_wait() {
    let outcomes = Simulation::new(1).block_on(|runtime| async move {
        let mesh = rule_mesh(1);
        let (caller, mut inbox) = mesh.attach(CoreId(0));
        drop(runtime.spawn(caller.pump_replies()));
        let evaluator = LaneEvaluator::new(runtime.clone(), caller);
        drop(runtime.spawn(async move {
            // One is dropped while it is evaluated, the others in the lane.
            drop(inbox.receive().await);
        }));
        join_all((0..2000).map(|number| evaluator.evaluate(query("a", number)))).await
    });
    assert_eq!(outcomes, vec![Err(RuleQueryError::Stopping); 2000]);
}
