//! For fuzzing: templates out of arbitrary bytes.

use logsvc_proto::Labels;

use crate::engine::labels::EntryLabels;
use crate::engine::template::{Input, Template};

/// Executes a template, the bytes before the first NUL, over an entry whose line
/// and labels are the bytes behind it. True when the template has an output.
///
/// # Panics
/// When it gives two outputs, or fails without saying where.
#[must_use]
pub fn check_template(data: &[u8]) -> bool {
    let (template, value) = match data.iter().position(|b| *b == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b""[..]),
    };
    let mut labels = EntryLabels::new();
    let compiled = match Template::compile("line", template, &mut labels) {
        Ok(compiled) => compiled,
        Err(error) => {
            assert!(error.starts_with("template: line:"), "{error}");
            return false;
        }
    };
    let stream = Labels::from_pairs([("app", "a"), ("n", "12")]).expect("the names are valid");
    let base = labels.base(&stream);
    labels.start(&base);
    let name = labels.name_id(b"x");
    labels.set(name, value);
    let execute = || {
        let mut out = Vec::new();
        let input = Input { labels: &labels, line: value, timestamp_ns: 1, now_ns: 2 };
        compiled.execute(input, &mut out).map(|()| out)
    };
    let output = execute();
    assert_eq!(output, execute());
    match output {
        Ok(_) => true,
        Err(error) => {
            assert!(error.starts_with("template: line"), "{error}");
            false
        }
    }
}
