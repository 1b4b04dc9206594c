//! The bulk request of Elasticsearch: actions with documents, and an answer with the fate of each.
//!
//! Guarantees: a broken action line is found before anything is taken ([`check`]), as there. A
//! document is not read here; an action without one says so. The answer has one item for each
//! action, in order and under its own name.

mod filter;
mod reply;
#[cfg(test)]
mod tests;

pub use filter::filter;
pub use reply::{Reply, write_error};

use std::borrow::Cow;

use crate::lines::Lines;
use crate::push::json::{Cursor, JsonError, RawText, Value};

/// What to do with a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Action {
    Create,
    Index,
    Update,
    Delete,
}

impl Action {
    /// The name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Index => "index",
            Action::Update => "update",
            Action::Delete => "delete",
        }
    }

    /// Whether it adds an entry.
    pub fn is_stored(self) -> bool {
        matches!(self, Action::Create | Action::Index)
    }

    fn of(name: &[u8]) -> Option<Action> {
        let all = [Action::Create, Action::Index, Action::Update, Action::Delete];
        all.into_iter().find(|action| action.name().as_bytes() == name)
    }
}

/// An action with its document.
#[derive(Clone, Copy, Debug)]
pub struct Item<'b> {
    /// What to do.
    pub action: Action,
    index: Option<RawText<'b>>,
    id: Option<RawText<'b>>,
    /// The document; `None` if the body ends before it.
    pub document: Option<&'b [u8]>,
}

impl<'b> Item<'b> {
    /// The index that the action names.
    pub fn index(&self) -> Option<Cow<'b, str>> {
        self.index.map(text_of)
    }

    /// The id that the action names.
    pub fn id(&self) -> Option<Cow<'b, str>> {
        self.id.map(text_of)
    }
}

fn text_of(text: RawText<'_>) -> Cow<'_, str> {
    match text.unescaped() {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Why a whole request is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BulkError {
    /// There is no body.
    #[error("request body is required")]
    Empty,
    /// The body has no action.
    #[error("Validation Failed: 1: no requests added;")]
    NoActions,
    /// The last line does not end, so it may have been cut off.
    #[error("The bulk request must be terminated by a newline [\\n]")]
    NotTerminated,
    /// A line is no action.
    #[error("Malformed action/metadata line [{line}], {message}")]
    Malformed {
        /// Its number, from 1.
        line: u64,
        /// The problem, in words.
        message: Cow<'static, str>,
    },
}

impl BulkError {
    /// The name of the error in answers.
    pub fn kind(&self) -> &'static str {
        match self {
            BulkError::Empty => "parse_exception",
            BulkError::NoActions => "action_request_validation_exception",
            BulkError::NotTerminated | BulkError::Malformed { .. } => "illegal_argument_exception",
        }
    }
}

/// The number of actions of a body.
///
/// # Errors
/// The body is refused as a whole.
pub fn check(body: &[u8]) -> Result<u64, BulkError> {
    if body.is_empty() {
        return Err(BulkError::Empty);
    }
    if !body.ends_with(b"\n") {
        return Err(BulkError::NotTerminated);
    }
    let mut count = 0;
    for item in items(body) {
        item?;
        count += 1;
    }
    if count == 0 { Err(BulkError::NoActions) } else { Ok(count) }
}

/// The actions of a body.
pub fn items(body: &[u8]) -> impl Iterator<Item = Result<Item<'_>, BulkError>> {
    let mut lines = Lines::new(body);
    std::iter::from_fn(move || {
        let (number, line) = lines.find(|(_, line)| !line.trim_ascii().is_empty())?;
        let mut item = match read_action(line) {
            Ok(item) => item,
            Err(message) => return Some(Err(BulkError::Malformed { line: number, message })),
        };
        if item.action != Action::Delete {
            item.document = lines.next_any().map(|(_, document)| document);
        }
        Some(Ok(item))
    })
}

fn read_action(line: &[u8]) -> Result<Item<'_>, Cow<'static, str>> {
    let mut cursor = Cursor::new(line);
    if cursor.peek() != Some(b'{') {
        return Err("expected START_OBJECT".into());
    }
    let mut item = None;
    let mut fault: Option<Cow<'static, str>> = None;
    let read = cursor.object(|cursor, name| {
        let name = text_of(name);
        let action = Action::of(name.as_bytes());
        if item.is_some() {
            fault = Some("expected one action".into());
            return cursor.error("expected one action");
        }
        let Some(action) = action else {
            let name: String = name.chars().take(64).collect();
            fault = Some(
                format!(
                    "expected field [create], [delete], [index] or [update] but found [{name}]"
                )
                .into(),
            );
            return cursor.error("unknown action");
        };
        item = Some(read_metadata(cursor, action)?);
        Ok(())
    });
    match (read, fault, item) {
        (_, Some(fault), _) => Err(fault),
        (Err(JsonError::Invalid { offset_bytes, message }), ..) => {
            Err(format!("{message} at byte {}", offset_bytes + 1).into())
        }
        (Err(JsonError::Empty), ..) | (Ok(()), None, None) => {
            Err("expected FIELD_NAME but found [END_OBJECT]".into())
        }
        (Ok(()), None, Some(_)) if cursor.peek().is_some() => {
            Err("there is something behind the action".into())
        }
        (Ok(()), None, Some(item)) => Ok(item),
    }
}

fn read_metadata<'b>(cursor: &mut Cursor<'b>, action: Action) -> Result<Item<'b>, JsonError> {
    let mut item = Item { action, index: None, id: None, document: None };
    cursor.object(|cursor, name| {
        let value = cursor.value()?;
        if let Value::Text(value) = value {
            match &*name.unescaped() {
                b"_index" => item.index = Some(value),
                b"_id" => item.id = Some(value),
                _ => {}
            }
        }
        Ok(())
    })?;
    Ok(item)
}
