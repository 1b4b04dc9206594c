//! How fast samples are encoded. A figure for people; the bound is far below it.

use std::sync::Arc;

use logsvc_runtime::Monotonic;

use super::rig::{sample, tenant};
use crate::remote::append::encode;
use crate::remote::batch::{BatchInput, build};
use crate::remote::segment::{HEADER_BYTES, header};
use crate::remote::state::LogState;
use crate::remote::wire::Version;

#[test]
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn encoding_is_fast() {
    const SERIES: u64 = 2000;
    const ROUNDS: i64 = 50;
    let mut state = LogState::new(tenant());
    state.add_segment(Monotonic(0));
    let mut bytes = header(1).to_vec();
    let begun = std::time::Instant::now();
    for round in 0..ROUNDS {
        let samples: Vec<_> = (0..SERIES).map(|series| sample(series, round, 1.0)).collect();
        let encoded = encode(&samples);
        let mut rest = &encoded[..];
        while !rest.is_empty() {
            let (done, _, frame) = state.frame(rest, Monotonic(0), 0);
            bytes.extend_from_slice(&frame);
            rest = &rest[done..];
        }
    }
    let appended = begun.elapsed();
    let mut from = (HEADER_BYTES as u32, 0);
    let (mut sent, mut body_bytes) = (0, 0);
    let begun = std::time::Instant::now();
    while sent < SERIES * ROUNDS as u64 {
        let batch = build(BatchInput {
            bytes: bytes.clone(),
            from,
            until: None,
            max_samples: 2000,
            version: Version::V1,
            relabeller: Arc::default(),
        });
        (from, sent) = (batch.end, sent + batch.samples);
        body_bytes += batch.body.len();
    }
    let built = begun.elapsed();
    let per_second = |time: std::time::Duration| (sent as f64 / time.as_secs_f64()) as u64;
    println!(
        "{} samples/s into frames of {:.1} bytes a sample; {} samples/s into requests of {:.1} \
         bytes a sample",
        per_second(appended),
        bytes.len() as f64 / sent as f64,
        per_second(built),
        body_bytes as f64 / sent as f64,
    );
    assert!(per_second(appended) > 1000 && per_second(built) > 1000);
}
