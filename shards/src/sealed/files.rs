//! Open segment files of one core.
//!
//! Guarantees: at most [`OPEN_MAX`] files stay open beyond those in use; a file is
//! opened for reading only.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::rc::Rc;

use ahash::HashMap;
use logsvc_runtime::{OpenMode, Runtime};

use super::hasher;
use crate::manifest::SegmentName;

/// How many files a core keeps open for later reads.
const OPEN_MAX: usize = 256;

/// See the module.
pub struct SegmentFiles<R: Runtime> {
    state: RefCell<State<R::File>>,
}

struct State<F> {
    open: HashMap<SegmentName, Rc<F>>,
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
    /// It cannot be opened.
    pub async fn get(
        &self,
        runtime: &R,
        name: SegmentName,
        path: &Path,
    ) -> io::Result<Rc<R::File>> {
        if let Some(file) = self.state.borrow().open.get(&name) {
            return Ok(Rc::clone(file));
        }
        let file = Rc::new(runtime.open(path, OpenMode::Read).await?);
        let mut state = self.state.borrow_mut();
        if state.open.insert(name, Rc::clone(&file)).is_none() {
            state.order.push_back(name);
        }
        while state.order.len() > OPEN_MAX {
            let Some(oldest) = state.order.pop_front() else { break };
            state.open.remove(&oldest);
        }
        Ok(file)
    }
}
