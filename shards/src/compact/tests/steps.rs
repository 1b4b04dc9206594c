//! Turns on the side thread against one for everything.

use super::*;
use crate::compact::aside::{
    BLOCKS_IN_A_ROW, EndChunk, MergeWorker, Step, StepResults, WholeBlock, next_end_chunk,
};
use logsvc_segment::{MergedPlace, RunInfo, SegmentIdentity, WriterBuffers};

/// All of a segment, run by run: whole blocks where `rng` says so, which is not always right,
/// and other runs in pieces.
async fn steps(folder: &SegmentFolder<SimRuntime>, segment: &Arc<SealedSegment>) -> Vec<Step> {
    let mut rng = Rng::new(segment.live.entries);
    let mut decoder = Decoder::new();
    let mut input = Input::open(folder, Arc::clone(segment)).await.unwrap();
    let mut steps = Vec::new();
    loop {
        input.load_stream(&folder.runtime).await.unwrap();
        let Some(stream) = input.stream().cloned() else { return steps };
        let (line_bytes, is_late) = (rng.below(100_000), rng.one_in(3));
        steps.push(Step::Stream { stream, line_bytes, is_late });
        let row = input.take_stream().unwrap();
        let runs: Vec<RunInfo> = input.directory.runs_of_stream(row).collect();
        for run in runs {
            let stored = input.stored(0, run.block).await.unwrap();
            if input.directory.block(run.block).runs.len() == 1 && rng.one_in(2) {
                let filters = input.filters(&folder.runtime).await.unwrap();
                let in_a_row = rng.between(1, BLOCKS_IN_A_ROW as u64) as usize;
                let whole = WholeBlock { stored, run, filters, in_a_row };
                steps.push(Step::Whole(Box::new(whole)));
                continue;
            }
            let block = Arc::new(stored.decode(&mut decoder).unwrap());
            let middle = rng.between(run.entries.start.into(), run.entries.end.into()) as usize;
            let (start, end) = (run.entries.start as usize, run.entries.end as usize);
            for range in [start..middle, middle..end] {
                let (block, run) = (Arc::clone(&block), run.clone());
                steps.push(Step::Entries { block, run, range });
            }
        }
    }
}

/// The bytes of a segment when as many steps are done at once as `turns` says.
fn bytes(steps: Vec<Step>, mut turns: impl FnMut() -> usize) -> Vec<u8> {
    let identity = SegmentIdentity { epoch: 1, shards: 1, shard: 0, seq: 1, created_ns: 1 };
    let place = MergedPlace { level: 1, order: 1 };
    let mut worker = MergeWorker::new(identity, place, WriterBuffers::new().unwrap());
    let mut steps = steps.into_iter().peekable();
    let mut bytes = Vec::new();
    while steps.peek().is_some() {
        let some: Vec<Step> = steps.by_ref().take(turns()).collect();
        let StepResults { worker: back, steps: memory, decoded } = worker.run(some, None).unwrap();
        assert!(memory.is_empty() && decoded.is_none());
        worker = back;
        bytes.extend_from_slice(&worker.writer.take_output());
    }
    let mut ending = worker.end().unwrap();
    loop {
        match ending {
            EndChunk::Some(more, rest) => {
                bytes.extend_from_slice(&more);
                ending = next_end_chunk(rest).unwrap();
            }
            EndChunk::Last(finished) => {
                bytes.extend_from_slice(&finished.bytes);
                return bytes;
            }
        }
    }
}

#[test]
fn a_segment_does_not_depend_on_how_many_steps_are_done_at_once() {
    for seed in seeds(15) {
        let _guard = SeedGuard(seed);
        Simulation::new(seed).block_on(move |runtime| async move {
            let mut rng = Rng::new(seed);
            let bench = Bench::new(runtime).await;
            let content = random_content(&mut rng, 0, 1000, &[]);
            let input = write(&bench.folder, &content, 0).await;
            let at_once = bytes(steps(&bench.folder, &input).await, || usize::MAX);
            let one_by_one = bytes(steps(&bench.folder, &input).await, || 1);
            let mixed = steps(&bench.folder, &input).await;
            assert!(at_once == one_by_one);
            assert!(at_once == bytes(mixed, || rng.between(1, 9) as usize));
        });
    }
}
