//! `|= "x"` and its like, behind a stage that changes the line.

use super::super::filter::LineFilters;
use super::{CompiledStage, Entry};

impl CompiledStage for LineFilters {
    type Outcome = bool;

    fn process(&mut self, entry: &mut Entry<'_>) -> bool {
        self.keeps_counted(entry.line(), entry.meter())
    }

    fn held_bytes(&self) -> usize {
        LineFilters::held_bytes(self)
    }
}
