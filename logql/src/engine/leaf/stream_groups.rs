//! Groups of streams by their own labels, for leaves that look at nothing else.
//!
//! A volume over very many streams spends its time on naming them, so a group is found from
//! the stored form of a stream's labels, without a look at any label that does not count.

use logsvc_proto::Labels;

use super::super::interner::BytesInterner;
use super::super::labels::sets::NO_SET;
use super::super::meter::Meter;
use super::super::plan::StreamLabels;

/// The groups that were found.
#[derive(Debug)]
pub(super) struct StreamGroups {
    by: StreamLabels,
    /// The keys of groups, see [`StreamGroups::group`].
    keys: BytesInterner,
    /// Scratch.
    key: Vec<u8>,
}

impl StreamGroups {
    pub(super) fn new(by: &StreamLabels) -> Self {
        Self { by: by.clone(), keys: BytesInterner::new(), key: Vec::new() }
    }

    /// The labels by which streams are told apart.
    pub(super) fn by(&self) -> &StreamLabels {
        &self.by
    }

    /// The number of a stream's group, dense; [`NO_SET`] where there is no memory for another
    /// one, which ends the leaf.
    pub(super) fn group(&mut self, labels: &Labels, meter: &Meter) -> u32 {
        self.key.clear();
        match &self.by {
            StreamLabels::All => {
                return self.keys.intern(labels.as_bytes(), meter).unwrap_or(NO_SET);
            }
            StreamLabels::Listed(names) => {
                for (place, name) in (0u32..).zip(names) {
                    if let Some(value) = labels.get(name) {
                        self.key.extend_from_slice(&place.to_le_bytes());
                        push_text(&mut self.key, value);
                    }
                }
            }
            StreamLabels::Names(listed) => {
                for (name, _) in labels {
                    let counts = |listed: &Vec<String>| listed.iter().any(|it| it == name);
                    if listed.as_ref().is_none_or(counts) {
                        push_text(&mut self.key, name);
                    }
                }
            }
        }
        self.keys.intern(&self.key, meter).unwrap_or(NO_SET)
    }

    /// The labels of a group: the labels of its streams that count, or their names with empty
    /// values.
    pub(super) fn labels(&self, group: u32) -> Labels {
        let mut rest = self.keys.get(group);
        let pairs: Vec<(String, String)> = match &self.by {
            StreamLabels::All => {
                return Labels::from_bytes(rest).expect("the bytes are those of a stream's labels");
            }
            StreamLabels::Listed(names) => std::iter::from_fn(|| {
                let place = take_number(&mut rest)?;
                Some((names[place as usize].clone(), take_text(&mut rest)?))
            })
            .collect(),
            StreamLabels::Names(_) => {
                std::iter::from_fn(|| Some((take_text(&mut rest)?, String::new()))).collect()
            }
        };
        Labels::from_result_pairs(pairs).expect("a stream has every name once")
    }

    /// Heap memory in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.keys.held_bytes() + self.key.capacity()
    }
}

fn push_text(key: &mut Vec<u8>, text: &str) {
    let len = u32::try_from(text.len()).expect("labels of a stream are shorter than 4 GiB");
    key.extend_from_slice(&len.to_le_bytes());
    key.extend_from_slice(text.as_bytes());
}

fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let (number, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(u32::from_le_bytes(*number))
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let len = take_number(rest)?;
    let (text, tail) = rest.split_at_checked(len as usize)?;
    *rest = tail;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_with_equal_labels_that_count_are_in_one_group() {
        let streams: Vec<Labels> = [
            [("a", "1"), ("b", "x")].as_slice(),
            &[("a", "1"), ("b", "y")],
            &[("a", "2")],
            &[("b", "1")],
            &[("a", "1"), ("b", "x")],
        ]
        .into_iter()
        .map(|pairs| Labels::from_pairs(pairs.iter().copied()).expect("labels"))
        .collect();
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        for (by, numbers, labels) in [
            (
                StreamLabels::All,
                [0, 1, 2, 3, 0],
                vec![r#"{a="1", b="x"}"#, r#"{a="1", b="y"}"#, r#"{a="2"}"#, r#"{b="1"}"#],
            ),
            (
                StreamLabels::Listed(names(&["a", "c"])),
                [0, 0, 1, 2, 0],
                vec![r#"{a="1"}"#, r#"{a="2"}"#, "{}"],
            ),
            (StreamLabels::Listed(Vec::new()), [0; 5], vec!["{}"]),
            (
                StreamLabels::Names(None),
                [0, 0, 1, 2, 0],
                vec![r#"{a="", b=""}"#, r#"{a=""}"#, r#"{b=""}"#],
            ),
            (StreamLabels::Names(Some(names(&["b"]))), [0, 0, 1, 0, 0], vec![r#"{b=""}"#, "{}"]),
        ] {
            let mut groups = StreamGroups::new(&by);
            let found: Vec<u32> =
                streams.iter().map(|stream| groups.group(stream, &Meter::default())).collect();
            assert_eq!(found, numbers, "{by:?}");
            let named: Vec<String> =
                (0..labels.len() as u32).map(|group| groups.labels(group).canonical()).collect();
            assert_eq!(named, labels, "{by:?}");
        }
    }
}
