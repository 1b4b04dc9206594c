//! The cell of the entry before: most entries fall into the same one, so it is looked up once.

use super::super::params::{Cell, Windows};

/// See the module.
#[derive(Debug)]
pub(super) struct CellCursor {
    windows: Windows,
    cell: Cell,
}

impl CellCursor {
    pub(super) fn new(windows: Windows) -> Self {
        Self { windows, cell: windows.cell(0) }
    }

    /// The steps that see an entry.
    pub(super) fn cell(&mut self, timestamp_ns: i64) -> Cell {
        if !self.cell.holds(timestamp_ns) {
            self.cell = self.windows.cell(timestamp_ns);
        }
        self.cell
    }

    /// Whether any window sees an entry of this time.
    pub(super) fn sees(&mut self, timestamp_ns: i64) -> bool {
        !self.cell(timestamp_ns).is_gap()
    }

    /// Whether an entry within these times could be seen by a window.
    pub(super) fn wants(&self, min_timestamp_ns: i64, max_timestamp_ns: i64) -> bool {
        self.windows.any_sees(min_timestamp_ns, max_timestamp_ns)
    }
}
