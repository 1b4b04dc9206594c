//! A request to delete entries, as it is recorded.

use std::fmt;

use logsvc_proto::TenantId;

/// The id of a request, unique on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeleteId(pub u32);

impl DeleteId {
    /// Reads an id as clients have it: eight hexadecimal digits.
    pub fn parse(text: &str) -> Option<DeleteId> {
        let is_hex = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| u32::from_str_radix(text, 16).ok()).flatten().map(DeleteId)
    }
}

impl fmt::Display for DeleteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteState {
    /// The request hides entries. So many of its parts are removed from the disk.
    Pending {
        /// From the first part on; fewer than [`DeleteRequest::parts`].
        parts_done: u32,
    },
    /// All entries of the request are removed, or the rest was cancelled.
    Processed {
        /// When, in ms since the Unix epoch.
        at_ms: i64,
    },
}

/// A request to delete entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteRequest {
    /// Its id.
    pub id: DeleteId,
    /// Whose entries.
    pub tenant: TenantId,
    /// The log query, as the client sent it.
    pub query: String,
    /// The oldest time that is deleted, in ns since the Unix epoch.
    pub start_ns: i64,
    /// The newest time that is deleted, in ns since the Unix epoch.
    pub end_ns: i64,
    /// When the request was made, in ms since the Unix epoch.
    pub created_ms: i64,
    /// The length of its parts in ns; `None`: it has one part.
    pub part_ns: Option<i64>,
    /// The progress.
    pub state: DeleteState,
    /// Entries that were removed from the disk for this request.
    pub removed_entries: u64,
    /// Bytes of their lines.
    pub removed_line_bytes: u64,
}

impl DeleteRequest {
    /// The number of its parts, at least 1.
    pub fn parts(&self) -> u32 {
        let Some(part_ns) = self.part_ns.filter(|&ns| ns > 0) else { return 1 };
        let span_ns = i128::from(self.end_ns) - i128::from(self.start_ns) + 1;
        let parts = (span_ns + i128::from(part_ns) - 1) / i128::from(part_ns);
        u32::try_from(parts.max(1)).unwrap_or(u32::MAX)
    }

    /// The oldest and the newest time of a part in ns, both included. Parts leave no gap.
    pub fn part_bounds_ns(&self, part: u32) -> (i64, i64) {
        let Some(part_ns) = self.part_ns.filter(|&ns| ns > 0) else {
            return (self.start_ns, self.end_ns);
        };
        let first = i128::from(self.start_ns) + i128::from(part) * i128::from(part_ns);
        let last = if part + 1 >= self.parts() {
            i128::from(self.end_ns)
        } else {
            (first + i128::from(part_ns) - 1).min(i128::from(self.end_ns))
        };
        let bound = |ns: i128| ns.clamp(i128::from(self.start_ns), i128::from(self.end_ns)) as i64;
        (bound(first), bound(last))
    }

    /// Whether the request still hides entries.
    pub fn is_pending(&self) -> bool {
        matches!(self.state, DeleteState::Pending { .. })
    }
}
