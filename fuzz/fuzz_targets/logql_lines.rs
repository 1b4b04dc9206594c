//! Every parser and stage over arbitrary lines: no panic, no hang, bounded memory.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use logsvc_logql::engine::testing::LineFeeder;

thread_local! {
    static FEEDER: RefCell<LineFeeder> = RefCell::default();
}

fuzz_target!(|data: &[u8]| {
    FEEDER.with_borrow_mut(|feeder| feeder.feed(data));
});
