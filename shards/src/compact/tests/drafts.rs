//! Drafts are read wherever their columns are: drafts of older builds have their columns apart.

use super::*;
use crate::compact::block::together;
use logsvc_segment::Footer;

/// Lines that are larger when they are encoded, for some blocks.
fn noise(rng: &mut Rng) -> Content {
    let mut entry = |at: i64| Entry {
        timestamp_ns: at,
        line: (0..600).map(|_| rng.next_u64() as u8).collect(),
        metadata: if at % 3 == 0 { vec![("id".into(), at.to_string())] } else { Vec::new() },
    };
    (1..4).map(|stream| (stream, (0..500).map(&mut entry).collect())).collect()
}

#[test]
fn a_draft_is_read_wherever_its_columns_are() {
    Simulation::new(1).block_on(|runtime| async move {
        let bench = Bench::new(runtime).await;
        let content = noise(&mut Rng::new(1));
        for are_together in [true, false] {
            let written = write_as(&bench.folder, &content, 0, are_together).await;
            let footer = Footer { is_draft: true, ..written.footer };
            let draft = Arc::new(SealedSegment::new(written.live, written.path.clone(), footer));
            let directory = bench.folder.directories.get(&draft).await.unwrap();
            let blocks = directory.block_count();
            assert!(blocks >= 3);
            for block in 0..blocks {
                assert_eq!(together(&directory.block(block)).is_some(), are_together);
            }
            assert!(read(&bench.folder, &draft).await == content);
        }
    });
}
