//! Removes files of the segments folder that nothing reads any more, and tells which are left.
//!
//! Guarantees: a removal that fails is tried again after a pause, which doubles up to
//! [`RETRY_PAUSE_MAX`], until it succeeds or the process ends. The next start removes what is left
//! then.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::Runtime;

/// How long after a failure the next attempt is made at first.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause between attempts.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(300);

/// See the module.
#[derive(Debug)]
pub(crate) struct Removals<R: Runtime> {
    runtime: R,
    /// The files that are being removed.
    paths: RefCell<BTreeSet<PathBuf>>,
}

impl<R: Runtime> Removals<R> {
    pub(crate) fn new(runtime: R) -> Removals<R> {
        Removals { runtime, paths: RefCell::default() }
    }

    /// The files that are being removed.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.paths.borrow().iter().cloned().collect()
    }

    /// Notes a file that [`Removals::remove`] will be called for.
    pub(crate) fn note(&self, path: PathBuf) {
        self.paths.borrow_mut().insert(path);
    }

    /// Removes a file; returns after the first attempt. A file that is not there is removed.
    pub(crate) async fn remove(self: &Rc<Self>, path: PathBuf) {
        self.note(path.clone());
        if !self.attempt(&path, RETRY_PAUSE).await {
            let removals = Rc::clone(self);
            drop(self.runtime.spawn(async move { removals.try_again(path).await }));
        }
    }

    async fn try_again(&self, path: PathBuf) {
        let mut pause = RETRY_PAUSE;
        loop {
            self.runtime.sleep_until(self.runtime.now().after(pause)).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
            if self.attempt(&path, pause).await {
                return;
            }
        }
    }

    async fn attempt(&self, path: &PathBuf, pause: Duration) -> bool {
        match self.runtime.remove_file(path).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(
                    %error, file = %path.display(), pause_s = pause.as_secs(),
                    "cannot remove a file that is not needed any more; it is tried again"
                );
                return false;
            }
        }
        self.paths.borrow_mut().remove(path);
        true
    }
}

#[cfg(test)]
mod tests {
    use logsvc_runtime::sim::{DiskOperation, Simulation};

    use super::*;

    #[test]
    fn a_file_is_listed_until_it_is_gone() {
        let simulation = Simulation::new(1);
        let disk = simulation.disk().clone();
        disk.write("/data/one", b"1");
        disk.write("/data/two", b"2");
        disk.fail_next(DiskOperation::Remove, "/data/one", 2);
        simulation.block_on(|runtime| async move {
            let removals = Rc::new(Removals::new(runtime.clone()));
            for name in ["/data/one", "/data/two", "/data/three"] {
                removals.remove(name.into()).await;
            }
            assert_eq!(removals.paths(), [PathBuf::from("/data/one")]);
            runtime.sleep_until(runtime.now().after(2 * RETRY_PAUSE)).await;
            assert_eq!(removals.paths().len(), 1, "the second attempt fails, too");
            runtime.sleep_until(runtime.now().after(2 * RETRY_PAUSE)).await;
            assert!(removals.paths().is_empty());
        });
        assert!(disk.files("/data").is_empty());
    }
}
