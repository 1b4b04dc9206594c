//! The open segment files of one core.
//!
//! Guarantees: at most [`OPEN_MAX`] files stay open besides the ones in use. Files are opened for
//! reading only. The file of a segment that has left the live set is closed when the next file
//! is opened, or when the shard of this core gives a segment up.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use ahash::HashMap;
use logsvc_runtime::{OpenMode, Runtime};

use super::{SealedSegment, hasher};
use crate::manifest::SegmentName;

/// How many files a core keeps open for later reads.
const OPEN_MAX: usize = 256;

/// See the module.
pub struct SegmentFiles<R: Runtime> {
    state: RefCell<State<R::File>>,
}

struct State<F> {
    open: HashMap<SegmentName, (Rc<F>, Weak<()>)>,
    /// In the order of opening.
    order: VecDeque<SegmentName>,
}

impl<R: Runtime> std::fmt::Debug for SegmentFiles<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.state.borrow().order).finish()
    }
}

impl<R: Runtime> Default for SegmentFiles<R> {
    fn default() -> SegmentFiles<R> {
        let open = HashMap::with_hasher(hasher());
        SegmentFiles { state: RefCell::new(State { open, order: VecDeque::new() }) }
    }
}

impl<R: Runtime> SegmentFiles<R> {
    /// The file of a segment.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub async fn get(&self, runtime: &R, segment: &SealedSegment) -> io::Result<Rc<R::File>> {
        let name = segment.live.name;
        if let Some((file, _)) = self.state.borrow().open.get(&name) {
            return Ok(Rc::clone(file));
        }
        let file = Rc::new(runtime.open(&segment.path, OpenMode::ReadPieces).await?);
        self.close_unused();
        let mut state = self.state.borrow_mut();
        let alive = Arc::downgrade(&segment.alive);
        if state.open.insert(name, (Rc::clone(&file), alive)).is_none() {
            state.order.push_back(name);
        }
        while state.order.len() > OPEN_MAX {
            let Some(oldest) = state.order.pop_front() else { break };
            state.open.remove(&oldest);
        }
        Ok(file)
    }

    /// Closes the files of segments that are not held any more: a removed file takes space as long
    /// as it is open.
    pub(crate) fn close_unused(&self) {
        let State { open, order } = &mut *self.state.borrow_mut();
        order.retain(|name| {
            let is_used = open.get(name).is_some_and(|(_, alive)| alive.strong_count() > 0);
            if !is_used {
                open.remove(name);
            }
            is_used
        });
    }
}
