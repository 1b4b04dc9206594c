//! Where in a JSON object the labels of `| json` come from.

use super::escapes::push_unescaped;
use super::push_part;
use super::scan::{Fields, Kind, MAX_DEPTH};

/// Takes the name of a field, and the keys that lead to it.
type Visit<'v> = dyn FnMut(&[u8], &[Vec<u8>]) + 'v;

/// Calls `visit` for every field that `| json` makes a label of: its name before any
/// suffix, and the keys that lead to it. Ends where `| json` would report an error.
pub(crate) fn for_each_path(line: &[u8], visit: &mut Visit<'_>) {
    let mut walk = Walk { name: Vec::new(), path: Vec::new(), visit };
    // A malformed value ends the walk.
    let _ = walk.object(line, 0);
}

struct Walk<'v> {
    name: Vec<u8>,
    path: Vec<Vec<u8>>,
    visit: &'v mut Visit<'v>,
}

impl Walk<'_> {
    /// `None` at something malformed.
    fn object(&mut self, data: &[u8], depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut fields = Fields::open(data).ok()?;
        let prefix_len = self.name.len();
        while let Some(field) = fields.next().ok()? {
            let mut key = Vec::new();
            if field.key_has_escapes {
                push_unescaped(&mut key, field.key, false).then_some(())?;
            } else {
                key.extend_from_slice(field.key);
            }
            push_part(&mut self.name, &key);
            self.path.push(key);
            match field.value.kind {
                Kind::Object => self.object(field.value.text, depth + 1)?,
                Kind::Null | Kind::Array => {}
                _ if self.name.is_empty() => {}
                _ => (self.visit)(&self.name, &self.path),
            }
            self.path.pop();
            self.name.truncate(prefix_len);
        }
        Some(())
    }
}
