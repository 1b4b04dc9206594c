//! Templates of nothing but text and labels, such as `{{.level}} {{.msg}}`, which most are.
//!
//! Guarantees: the output equals the output of a walk over the tree. What can
//! go wrong: an output beyond its bound. The walk over the tree reports it, as the walk knows the
//! position for the message.

use super::ast::{List, Node};
use super::execution::{Input, max_output_bytes};
use super::labels::LabelMap;
use super::out::ENDED;

/// Most nodes of a plain template; fewer than an execution may visit.
const NODES_MAX: usize = 1000;

/// The work of a node besides its bytes, see [`crate::engine::meter`].
const NODE_WORK: usize = 16;

/// Whether a tree has nothing but text and labels.
pub(super) fn is_plain(list: &List) -> bool {
    list.len() <= NODES_MAX
        && list.iter().all(|node| matches!(node, Node::Text(_) | Node::Field { .. }))
}

/// Appends the output of a plain tree. False, and nothing is appended, if that is too long.
///
/// # Errors
/// The leaf has to end.
pub(super) fn execute(
    list: &List,
    labels: &LabelMap<'_>,
    input: &Input<'_>,
    out: &mut Vec<u8>,
) -> Result<bool, String> {
    let (meter, start) = (input.labels.meter(), out.len());
    let max_len_bytes = start.saturating_add(max_output_bytes(input));
    for node in list {
        let bytes = match node {
            Node::Field { name, .. } => labels.get(*name),
            Node::Text(text) => text,
            _ => unreachable!("the tree is plain"),
        };
        if out.len() + bytes.len() > max_len_bytes {
            out.truncate(start);
            return Ok(false);
        }
        if !meter.append(out, bytes) {
            return Err(ENDED.to_owned());
        }
    }
    let has_ended = !meter.work(NODE_WORK * list.len() + (out.len() - start));
    if has_ended { Err(ENDED.to_owned()) } else { Ok(true) }
}

#[cfg(test)]
mod tests {
    use super::super::{EntryLabels, Input, Template};
    use logsvc_proto::Labels;

    fn render(template: &str, line: &str) -> (bool, Result<Vec<u8>, String>) {
        let mut labels = EntryLabels::new();
        let template =
            Template::compile("line", template.as_bytes(), &mut labels).expect("a template");
        let base = labels.base(&Labels::from_pairs([("user", "ann")]).expect("valid"));
        labels.start(&base);
        let long = labels.name_id(b"long");
        labels.set(long, &[b'x'; 100_000]);
        labels.set_error(b"LabelFilterErr", b"a detail");
        let input = Input { labels: &labels, line: line.as_bytes(), timestamp_ns: 0, now_ns: 0 };
        let mut out = b"before".to_vec();
        let result = template.execute(input, &mut out).map(|()| out);
        (template.is_plain, result)
    }

    #[test]
    fn plain_templates_write_what_others_write() {
        let too_long = "{{.long}}\n".repeat(43);
        for template in [
            "",
            "text",
            "{{.user}}",
            "{{ .user }}-{{.none}}-{{- .user -}} x {{.__error__}} {{.__error_details__}}",
            &"{{.long}}".repeat(40),
            &too_long,
        ] {
            for line in ["", &"y".repeat(200_000)] {
                let (is_plain, found) = render(template, line);
                // An action that is evaluated makes the difference.
                let (is_other_plain, expected) = render(&format!("{template}{{{{``}}}}"), line);
                assert!(is_plain && !is_other_plain, "{template:.40}");
                assert_eq!(found, expected, "{template:.40}");
            }
        }
        assert!(render(&too_long, "").1.is_err());
    }
}
