//! Groups that several nodes have in common: terms, and what the next one knows.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use logsvc_rules::common::{ChangeError, CommonFiles, ContentNumber, Keeping, ReadError, Waiting};
use logsvc_rules::group::StatePlace;
use logsvc_rules::messages::AlertState;
use logsvc_runtime::sim::Simulation;

use crate::rig::{QUERY, SECOND_NS, STATE, World, alert, group};

/// One file in memory.
#[derive(Debug)]
struct Files {
    file: RefCell<Option<(ContentNumber, Vec<u8>)>>,
    keeping: Cell<Keeping>,
}

impl CommonFiles for Files {
    fn list(&self, _: &str) -> Vec<(String, ContentNumber)> {
        Vec::new()
    }

    fn number(&self, path: &str) -> Option<ContentNumber> {
        assert!(STATE.ends_with(path), "{path}");
        self.file.borrow().as_ref().map(|(number, _)| *number)
    }

    fn read(&self, _: &str, number: ContentNumber) -> Waiting<Result<Vec<u8>, ReadError>> {
        let file = self.file.borrow().clone().filter(|(known, _)| *known == number);
        Box::pin(async { Ok(file.expect("it is there").1) })
    }

    fn replace(
        &self,
        path: &str,
        based_on: Option<ContentNumber>,
        content: Option<Vec<u8>>,
    ) -> Waiting<Result<Option<ContentNumber>, ChangeError>> {
        assert_eq!(self.number(path), based_on);
        assert_eq!(self.keeping.get(), Keeping::Yes);
        let number = based_on.unwrap_or(0) + 1;
        *self.file.borrow_mut() = content.map(|content| (number, content));
        let number = self.number(path);
        Box::pin(async move { Ok(number) })
    }

    fn is_over(&self) -> bool {
        self.keeping.get() == Keeping::No
    }

    fn keeping(&self) -> Waiting<Keeping> {
        let keeping = self.keeping.get();
        Box::pin(async move { keeping })
    }
}

fn shared(world: &World<'_>) -> Rc<Files> {
    let files = Rc::new(Files { file: RefCell::default(), keeping: Cell::new(Keeping::Yes) });
    *world.place.borrow_mut() = StatePlace::Common(files.clone());
    world.define(group("g", vec![alert("A", QUERY, 60)]));
    world.answers(Ok(vec![(vec![("pod", "a")], 1.0)]));
    files
}

#[test]
fn nothing_is_evaluated_without_a_proof() {
    let simulation = Simulation::new(1);
    let world = World::new(&simulation);
    let files = shared(&world);
    let rig = world.start();
    rig.until(AlertState::Firing);
    world.wait(20.0);
    for keeping in [Keeping::Unknown, Keeping::No] {
        files.keeping.set(keeping);
        let missed = rig.numbers().iterations_missed;
        world.clear();
        world.wait(200.0);
        assert!(world.play.queries.borrow().is_empty() && world.sent().is_empty());
        assert!(rig.numbers().iterations_missed >= missed + 19);
    }
    // The end of the term ends no alert and no series, also by the end of the process.
    rig.stop();
    assert!(world.sent().is_empty() && world.play.samples.borrow().is_empty());
}

#[test]
fn the_next_term_goes_on_with_alerts() {
    for dies in [false, true] {
        let simulation = Simulation::new(2);
        let world = World::new(&simulation);
        let files = shared(&world);
        let rig = world.start();
        let active_at_ns = rig.until(AlertState::Pending);
        world.wait(36.0);
        if dies {
            rig.node.crash();
        } else {
            rig.stop();
        }
        // Less than an interval is no outage, unless the last evaluation is not known.
        world.wait(3.0);
        let rig = world.start();
        world.wait(1.0);
        assert_eq!(rig.only_alert().map(|(state, _)| state), Some(AlertState::Pending));
        rig.until(AlertState::Firing);
        let (now_ns, late_ns) = (world.now_ns(), if dies { 20 * SECOND_NS } else { SECOND_NS });
        let due_ns = active_at_ns + 60 * SECOND_NS;
        assert!((due_ns..=due_ns + late_ns).contains(&now_ns), "{}", now_ns - due_ns);
        world.wait(30.0);
        let starts_at_ns = world.sent()[0].1.starts_at_ns;
        // Firing for long is no news, and no outage.
        world.wait(5000.0);
        assert!(files.file.borrow().as_ref().is_some_and(|(number, _)| *number < 20));
        rig.node.crash();
        world.clear();
        let rig = world.start();
        world.wait(15.0);
        assert_eq!(world.sent()[0].1.starts_at_ns, starts_at_ns);
        world.answers(Ok(Vec::new()));
        world.wait(20.0);
        let (at_ns, last) = world.sent().pop().expect("it has ended");
        assert!(last.ends_at_ns <= at_ns && last.starts_at_ns == starts_at_ns, "{last:?}");
        rig.stop();
        // A state that is resolved for long is gone, and with it the file.
        let rig = world.start();
        world.wait(1200.0);
        assert!(files.file.borrow().is_none());
        rig.stop();
    }
}
