//! Numbers that no two writers of a bucket ever have in common.
//!
//! A writer creates `writers/<epoch>`; whoever creates a number has it. The objects are never
//! removed, so a number is never given twice.

use logsvc_runtime::{Monotonic, Runtime};

use crate::bucket::BucketError;
use crate::name::{Folder, ObjectName};
use crate::object::{Header, Nonce, PROOF};
use crate::store::{Created, Store, StoreError};

/// The payload says who the writer is, as text.
const KIND_WRITER: u32 = 3;
const FOLDER: &str = "writers";

/// A number that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The number.
    pub epoch: u32,
    /// Those that others have taken before, as far as they are known, ascending.
    pub earlier: Vec<u32>,
}

/// The numbers that were given, ascending, as far as a listing shows them.
///
/// # Errors
/// The store refuses, or the deadline has passed.
pub async fn given_epochs<R: Runtime>(
    store: &Store<R>,
    until: Monotonic,
) -> Result<Vec<u32>, StoreError> {
    let folder = Folder::new(FOLDER).map_err(|error| impossible(&error))?;
    let given = store.list(&folder, None, until).await?;
    Ok(given.iter().filter_map(|info| number_of(&info.name)).collect())
}

/// Takes a number above all that were given, and above `floor`. `who` is for people: a host and a
/// time.
///
/// # Errors
/// The store refuses, or the deadline has passed. A number may be lost then; there are four billion.
pub async fn take_epoch<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    floor: Option<u32>,
    who: &str,
    until: Monotonic,
) -> Result<Taken, StoreError> {
    let mut earlier = given_epochs(store, until).await?;
    let highest = earlier.last().copied().max(floor);
    let mut epoch = highest.map_or(Some(0), |last| last.checked_add(1));
    loop {
        let Some(number) = epoch else { return Err(impossible(&"all epochs are given")) };
        let name = ObjectName::new(&format!("{FOLDER}/{number:08x}"));
        let name = name.map_err(|error| impossible(&error))?;
        let nonce = Nonce::random(runtime);
        let object = Header { kind: KIND_WRITER, nonce, previous: Nonce::NONE };
        match store.create(&name, object.encode(who.as_bytes()), PROOF, until).await? {
            Created::New | Created::Retried => return Ok(Taken { epoch: number, earlier }),
            // The listing was behind, another writer starts, or the number is lost.
            Created::Existing(_) | Created::Torn => {
                earlier.push(number);
                epoch = number.checked_add(1);
            }
        }
    }
}

fn number_of(name: &ObjectName) -> Option<u32> {
    let text = name.as_str().strip_prefix(FOLDER)?.strip_prefix('/')?;
    if text.len() == 8 { u32::from_str_radix(text, 16).ok() } else { None }
}

fn impossible(reason: &dyn std::fmt::Display) -> StoreError {
    let (bucket, name) = (String::new(), FOLDER.to_owned());
    StoreError::Failed { bucket, name, error: BucketError::failed(reason) }
}
