//! Files that the nodes of a cluster have in common, as this crate sees them.
//!
//! This crate knows nothing of buckets and of other nodes. The server puts both behind
//! [`CommonFiles`]. A value stands for a *term*: the time in which this node is the one that changes
//! the files and evaluates the rules of all nodes, their *keeper*. Once the term is over every change
//! is refused.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;

/// Tells contents of files apart: no two contents of a cluster have the same.
pub type ContentNumber = u64;

/// What is waited for.
pub type Waiting<T> = Pin<Box<dyn Future<Output = T>>>;

/// Whether the node is the keeper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeping {
    /// It is, at this very instant.
    Yes,
    /// It is not, or not any more.
    No,
    /// That could not be found out in some seconds.
    Unknown,
}

/// Why a file cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// Its content is missing or damaged, and so it will be.
    #[error("{0}")]
    Unusable(String),
    /// It cannot be had at the moment.
    #[error("{0}")]
    Away(String),
}

/// Why a file was not changed, or perhaps was not.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ChangeError(pub String);

impl From<ChangeError> for io::Error {
    fn from(error: ChangeError) -> io::Error {
        io::Error::other(error)
    }
}

/// See the module. Everything is called on core 0. Paths begin at the data folder of a node that is
/// alone.
pub trait CommonFiles: fmt::Debug + 'static {
    /// The files in a folder and in those below it, in the order of their paths.
    fn list(&self, folder: &str) -> Vec<(String, ContentNumber)>;

    /// The content of a file; `None` if there is no such file.
    fn number(&self, path: &str) -> Option<ContentNumber>;

    /// Reads a content of a file.
    ///
    /// # Errors
    /// See [`ReadError`].
    fn read(&self, path: &str, number: ContentNumber) -> Waiting<Result<Vec<u8>, ReadError>>;

    /// Replaces the content `based_on`, or removes the file. When it ends, whoever is the keeper later
    /// has the change.
    ///
    /// # Errors
    /// The file has another content, the term is over, or the bucket does not answer. In the last two
    /// cases the change may be in force.
    fn replace(
        &self,
        path: &str,
        based_on: Option<ContentNumber>,
        content: Option<Vec<u8>>,
    ) -> Waiting<Result<Option<ContentNumber>, ChangeError>>;

    /// Whether the term is over, as far as the node knows at this moment.
    fn is_over(&self) -> bool;

    /// Waits for a proof that the term is not over.
    fn keeping(&self) -> Waiting<Keeping>;
}

/// Files in memory.
#[cfg(test)]
pub(crate) mod fake {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeMap;
    use std::rc::Rc;

    use super::*;

    /// What happens to the next change.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) enum Fate {
        #[default]
        Made,
        /// Nobody says so.
        MadeSilently,
        Lost,
    }

    /// See the module.
    #[derive(Debug, Default)]
    pub(crate) struct Fake {
        pub(crate) files: RefCell<BTreeMap<String, (ContentNumber, Vec<u8>)>>,
        pub(crate) fate: Cell<Fate>,
        /// Reads fail in passing.
        pub(crate) is_away: Cell<bool>,
        pub(crate) is_over: Cell<bool>,
        pub(crate) changes: Cell<u64>,
    }

    impl Fake {
        pub(crate) fn shared() -> Rc<Fake> {
            Rc::default()
        }

        pub(crate) fn write(&self, path: &str, content: Option<Vec<u8>>) {
            self.changes.set(self.changes.get() + 1);
            match content {
                Some(content) => {
                    let entry = (self.changes.get(), content);
                    self.files.borrow_mut().insert(path.to_owned(), entry);
                }
                None => drop(self.files.borrow_mut().remove(path)),
            }
        }
    }

    impl CommonFiles for Fake {
        fn list(&self, folder: &str) -> Vec<(String, ContentNumber)> {
            let files = self.files.borrow();
            let below = files.iter().filter(|(path, _)| {
                path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
            });
            below.map(|(path, (number, _))| (path.clone(), *number)).collect()
        }

        fn number(&self, path: &str) -> Option<ContentNumber> {
            self.files.borrow().get(path).map(|(number, _)| *number)
        }

        fn read(&self, path: &str, number: ContentNumber) -> Waiting<Result<Vec<u8>, ReadError>> {
            let found = self.files.borrow().get(path).cloned();
            let read = match found {
                _ if self.is_away.get() => Err(ReadError::Away("away".to_owned())),
                Some((known, content)) if known == number => Ok(content),
                _ => Err(ReadError::Unusable("missing".to_owned())),
            };
            Box::pin(async { read })
        }

        fn replace(
            &self,
            path: &str,
            based_on: Option<ContentNumber>,
            content: Option<Vec<u8>>,
        ) -> Waiting<Result<Option<ContentNumber>, ChangeError>> {
            let failed = |text: &str| Err(ChangeError(text.to_owned()));
            let changed = match self.fate.take() {
                _ if self.is_over.get() => failed("over"),
                _ if self.number(path) != based_on => failed("another change came first"),
                Fate::Lost => failed("lost"),
                fate => {
                    self.write(path, content);
                    let made = Ok(self.number(path));
                    if fate == Fate::Made { made } else { failed("silent") }
                }
            };
            Box::pin(async { changed })
        }

        fn is_over(&self) -> bool {
            self.is_over.get()
        }

        fn keeping(&self) -> Waiting<Keeping> {
            let keeping = if self.is_over.get() { Keeping::No } else { Keeping::Yes };
            Box::pin(async move { keeping })
        }
    }
}
