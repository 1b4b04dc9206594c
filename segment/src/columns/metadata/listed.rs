//! Decodes the listed names of a metadata column, for queries that look at no others.
//!
//! Sets that differ in other names alone become one set. So a block whose entries have a trace id
//! each has as many sets as it has levels, if a query asks for levels.
//!
//! Guarantees: an entry has those pairs of its metadata that have a listed name, or all of them if
//! a name is there that makes all matter ([`ListedNames::needs_all`]). Memory and time are at most
//! those of decoding the whole column. Damage in columns that are skipped may go unnoticed here.

use std::collections::BTreeMap;

use logsvc_logql::engine::{ListedNames, MetadataSets};

use super::super::packed::{self, Malformed};
use super::decode::{Column, Reader, Sets, decode, read_column};
use super::plain::{self, PlainMetadata};
use super::{BlockMetadata, FORM_HEX, FORM_TEXT};
use crate::batch::MetadataPairs;

/// As [`decode`]; of the metadata the listed names.
pub(crate) fn decode_listed(
    bytes: &[u8],
    entries: usize,
    pairs_bytes: usize,
    listed: &ListedNames,
) -> Result<BlockMetadata, Malformed> {
    let found = match bytes.first() {
        Some(&plain::MARK) => {
            listed_of_plain(PlainMetadata::decode(bytes, entries, pairs_bytes)?, listed)?
        }
        _ => listed_of_sets(bytes, entries, pairs_bytes, listed)?,
    };
    match found {
        Some((sets, set_ids)) => Ok(BlockMetadata { sets, set_ids, listed: Some(listed.clone()) }),
        None => decode(bytes, entries, pairs_bytes),
    }
}

/// Sets, and the number of each entry's set; `None` if all names matter.
type Found = Option<(MetadataSets, Vec<u32>)>;

fn listed_of_plain(metadata: PlainMetadata, listed: &ListedNames) -> Result<Found, Malformed> {
    let mut sets = MetadataSets::new();
    let mut ids = vec![0];
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for number in 1..metadata.sets.count() as u32 {
        pairs.clear();
        for (name, value) in MetadataPairs::from_checked(metadata.sets.get(number), &[]) {
            if ListedNames::needs_all(name) {
                return Ok(None);
            }
            if listed.has(name) {
                pairs.push((name, value));
            }
        }
        ids.push(sets.intern(pairs.iter().copied()).ok_or(Malformed)?);
    }
    let set_ids = metadata.entry_sets.iter().map(|&set| ids[set as usize]).collect();
    Ok(Some((sets, set_ids)))
}

fn listed_of_sets(
    bytes: &[u8],
    entries: usize,
    pairs_bytes: usize,
    listed: &ListedNames,
) -> Result<Found, Malformed> {
    let mut reader = Reader { bytes, position: 0 };
    let Sets { names, shapes, set_ids, shape_of_set, uses } =
        Sets::read(&mut reader, entries, pairs_bytes)?;
    if names.iter().any(|name| ListedNames::needs_all(name)) {
        return Ok(None);
    }
    let mut sets = MetadataSets::new();
    let mut columns = Vec::with_capacity(names.len());
    for (name, uses) in names.into_iter().zip(uses) {
        columns.push(match listed.has(name) {
            true => Some(read_column(&mut reader, name, uses, &mut sets)?),
            false => {
                skip_column(&mut reader, uses)?;
                None
            }
        });
    }
    if reader.position != bytes.len() {
        return Err(Malformed);
    }
    let is_listed = |name: &&u32| columns[**name as usize].is_some();
    let shapes: Vec<Vec<u32>> =
        shapes.iter().map(|shape| shape.iter().filter(is_listed).copied().collect()).collect();
    let mut tree = Tree::new(&columns);
    let mut ids = Vec::with_capacity(shape_of_set.len() + 1);
    ids.push(0);
    for shape in shape_of_set {
        let mut node = ROOT;
        for &name in &shapes[shape as usize] {
            if let Some(column) = &mut columns[name as usize] {
                node = tree.child(node, name, column.next_index());
            }
        }
        ids.push(tree.set(node, &columns, &mut sets)?);
    }
    let set_ids = set_ids.iter().map(|&set| ids[set as usize]).collect();
    Ok(Some((sets, set_ids)))
}

/// Passes over the values of a name.
fn skip_column(reader: &mut Reader<'_>, uses: usize) -> Result<(), Malformed> {
    let count = reader.count(uses)?;
    let form = reader.take(1)?[0];
    let mut text_len = 0u64;
    packed::decode(reader.section()?, count, |lengths| {
        for &len in lengths {
            text_len = text_len.saturating_add(len);
        }
    })?;
    let text_len = usize::try_from(text_len).map_err(|_| Malformed)?;
    reader.take(match form {
        FORM_TEXT => text_len,
        FORM_HEX => text_len / 2,
        _ => return Err(Malformed),
    })?;
    reader.section()?;
    Ok(())
}

/// The number of the empty set's node.
const ROOT: u32 = 0;

/// Sets of pairs as paths in a tree, so that equal sets are found by the numbers of their values.
struct Tree {
    nodes: Vec<Node>,
    /// By name and value the node below the root; [`ROOT`] if there is none yet.
    first: Vec<Vec<u32>>,
    /// Other nodes by the node above, name and value.
    others: BTreeMap<(u32, u32, usize), u32>,
}

struct Node {
    above: u32,
    name: u32,
    value: usize,
    /// 0 if it has none yet.
    set: u32,
}

impl Tree {
    fn new(columns: &[Option<Column>]) -> Tree {
        let values = |column: &Option<Column>| column.as_ref().map_or(0, |it| it.values.len());
        Tree {
            nodes: vec![Node { above: ROOT, name: 0, value: 0, set: 0 }],
            first: columns.iter().map(|column| vec![ROOT; values(column)]).collect(),
            others: BTreeMap::new(),
        }
    }

    /// The node of a set with one more pair.
    fn child(&mut self, above: u32, name: u32, value: usize) -> u32 {
        let known = match above {
            ROOT => &mut self.first[name as usize][value],
            _ => self.others.entry((above, name, value)).or_insert(ROOT),
        };
        if *known == ROOT {
            *known = self.nodes.len() as u32;
            self.nodes.push(Node { above, name, value, set: 0 });
        }
        *known
    }

    /// The number of a node's set.
    fn set(
        &mut self,
        node: u32,
        columns: &[Option<Column>],
        sets: &mut MetadataSets,
    ) -> Result<u32, Malformed> {
        if node == ROOT || self.nodes[node as usize].set != 0 {
            return Ok(self.nodes[node as usize].set);
        }
        let mut pairs = Vec::new();
        let mut at = node;
        while at != ROOT {
            let Node { above, name, value, .. } = self.nodes[at as usize];
            if let Some(column) = &columns[name as usize] {
                pairs.push((column.name, column.values[value].0));
            }
            at = above;
        }
        let set = sets.push_set(pairs.into_iter().rev()).ok_or(Malformed)?;
        self.nodes[node as usize].set = set;
        Ok(set)
    }
}
