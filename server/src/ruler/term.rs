//! The common files of a cluster as the ruler sees them, for one term: the time in which the node is
//! the keeper by the map of one number.

use std::fmt;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use logsvc_rules::common::{
    ChangeError, CommonFiles as FilesOfRules, ContentNumber, Keeping, ReadError, Waiting,
};
use logsvc_runtime::{Latch, Runtime};
use logsvc_shards::common::{self, CommonError, CommonFiles};
use logsvc_shards::kept::{KeptFile, KeptPath};
use logsvc_shards::ledger::LedgerError;

/// See the module.
pub(super) struct Term<R: Runtime> {
    files: CommonFiles<R>,
    /// The number of the map.
    since: u64,
    /// Triggered when the node has noticed the end.
    over: Latch,
}

impl<R: Runtime> fmt::Debug for Term<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term").field("since", &self.since).finish_non_exhaustive()
    }
}

impl<R: Runtime> Term<R> {
    /// The term that has begun with the map of a number.
    pub(super) fn new(files: CommonFiles<R>, since: u64) -> Rc<Term<R>> {
        Rc::new(Term { files, since, over: Latch::new() })
    }

    /// Waits until the node notices that it is the keeper no more.
    pub(super) async fn ended(&self) {
        let mut view = self.files.view();
        while view.keeps(self.since) {
            view = self.files.changed(&view).await;
        }
        self.over.trigger();
    }

    fn find(&self, path: &str) -> Option<(KeptPath, KeptFile)> {
        let path = KeptPath::parse(path)?;
        let file = self.files.view().file(&path)?;
        Some((path, file))
    }

    /// What something gives, or nothing if the term is over before.
    async fn within<T>(over: Latch, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(over.wait()), pin!(work)).await {
            Either::Left(_) => None,
            Either::Right((output, _)) => Some(output),
        }
    }
}

impl<R: Runtime> FilesOfRules for Term<R> {
    fn list(&self, folder: &str) -> Vec<(String, ContentNumber)> {
        let view = self.files.view();
        view.below(folder).map(|(path, file)| (path.as_str().to_owned(), file.number())).collect()
    }

    fn number(&self, path: &str) -> Option<ContentNumber> {
        self.find(path).map(|(_, file)| file.number())
    }

    fn read(&self, path: &str, number: ContentNumber) -> Waiting<Result<Vec<u8>, ReadError>> {
        let found = self.find(path).filter(|(_, file)| file.number() == number);
        let (files, over) = (self.files.clone(), self.over.clone());
        Box::pin(async move {
            let Some((path, file)) = found else {
                return Err(ReadError::Away("the file has changed meanwhile".to_owned()));
            };
            match Term::<R>::within(over, files.read(&path, &file)).await {
                Some(Ok(bytes)) => Ok(bytes),
                Some(Err(error @ LedgerError::KeptFile { .. })) => {
                    Err(ReadError::Unusable(error.to_string()))
                }
                Some(Err(error)) => Err(ReadError::Away(error.to_string())),
                None => Err(ReadError::Away(CommonError::Elsewhere.to_string())),
            }
        })
    }

    fn replace(
        &self,
        path: &str,
        based_on: Option<ContentNumber>,
        content: Option<Vec<u8>>,
    ) -> Waiting<Result<Option<ContentNumber>, ChangeError>> {
        let failed = |error: CommonError| ChangeError(error.to_string());
        let view = self.files.view();
        let path = KeptPath::parse(path).ok_or_else(|| ChangeError(format!("no file is {path}")));
        let (files, since, over) = (self.files.clone(), self.since, self.over.clone());
        Box::pin(async move {
            let path = path?;
            if !view.keeps(since) {
                return Err(failed(CommonError::Elsewhere));
            }
            let known = view.file(&path);
            if known.map(|file| file.number()) != based_on {
                return Err(failed(CommonError::Stale));
            }
            match Term::<R>::within(over, files.replace(path, known, content, false)).await {
                Some(Ok((_, file))) => Ok(file.map(|file| file.number())),
                Some(Err(error)) => Err(failed(error)),
                None => Err(failed(CommonError::Elsewhere)),
            }
        })
    }

    fn is_over(&self) -> bool {
        !self.files.view().keeps(self.since)
    }

    fn keeping(&self) -> Waiting<Keeping> {
        let (files, since, over) = (self.files.clone(), self.since, self.over.clone());
        Box::pin(async move {
            match Term::<R>::within(over, files.proven(since)).await {
                Some(common::Keeping::Yes) => Keeping::Yes,
                Some(common::Keeping::Unknown) => Keeping::Unknown,
                Some(common::Keeping::No) | None => Keeping::No,
            }
        })
    }
}
