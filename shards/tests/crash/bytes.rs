//! Looks for lines in the bytes of all files of a data folder.

use std::path::Path;

use logsvc_runtime::sim::Simulation;
use logsvc_segment::{ColumnKind, Decoder, Directory, FOOTER_LEN, Footer};

use crate::cluster::DATA_DIR;

/// The bytes of every file, and the lines and metadata of every segment.
pub(crate) fn all_bytes(simulation: &Simulation) -> Vec<(String, Vec<u8>)> {
    let disk = simulation.disk();
    let mut all = Vec::new();
    for path in disk.files(DATA_DIR) {
        let Some(bytes) = disk.read(&path) else { continue };
        if path.extension().is_some_and(|end| end == "seg") {
            all.push((format!("{} decoded", path.display()), decoded(&path, &bytes)));
        }
        all.push((path.display().to_string(), bytes));
    }
    all
}

/// Lines and metadata of a segment.
fn decoded(path: &Path, bytes: &[u8]) -> Vec<u8> {
    let of = |range: std::ops::Range<u64>| &bytes[range.start as usize..range.end as usize];
    let footer = Footer::parse(&bytes[bytes.len() - FOOTER_LEN..], bytes.len() as u64);
    let footer = footer.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let directory = Directory::open(footer, of(footer.directory_range()).to_vec()).unwrap();
    let mut decoder = Decoder::new();
    let mut all = Vec::new();
    for block in 0..directory.block_count() {
        let info = directory.block(block);
        let stored = |kind| of(info.column(kind).range());
        let times = decoder.timestamps(&directory, block, stored(ColumnKind::Timestamps));
        let lines = decoder.lines(&directory, block, stored(ColumnKind::Lines), &times.unwrap());
        all.extend_from_slice(&lines.unwrap());
        let metadata = decoder.metadata(&directory, block, stored(ColumnKind::Metadata));
        if let Some(column) = metadata.unwrap() {
            for &set in &column.set_ids {
                for (name, value) in column.sets.get(set) {
                    all.extend_from_slice(format!(" {name}={value}").as_bytes());
                }
            }
        }
    }
    all
}

/// Asserts that none of these words is in any file.
pub(crate) fn assert_nowhere<'w>(simulation: &Simulation, words: impl Iterator<Item = &'w str>) {
    let all = all_bytes(simulation);
    for word in words {
        let finder = memchr::memmem::Finder::new(word);
        for (place, bytes) in &all {
            assert!(finder.find(bytes).is_none(), "{word} is in {place}");
        }
    }
}
