//! The fuzz bodies over random, damaged and small inputs.

use logsvc_fuzz_bodies::shards as fuzz;
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_segment::batch::{BatchBuilder, sections};
use logsvc_shards::wal::format::{
    FileHeader, FrameHeader, Layout, Previous, WalName, records, write_batch, write_definition,
};
use logsvc_testkit::{Rng, SeedGuard, seeds};

fn random_batch(rng: &mut Rng) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    for _ in 0..rng.below(4) {
        builder.begin(StreamId(u128::from(rng.below(2))));
        for _ in 0..rng.below(5) {
            let line = vec![b'x'; rng.below(20) as usize];
            let metadata = (0..rng.below(3)).map(|n| (format!("k{n}"), "v".repeat(n as usize)));
            let (ns, metadata) = (rng.below(4) as i64, metadata.collect::<Vec<_>>().into_iter());
            match rng.below(3) {
                0 => builder.push(ns, &line, metadata),
                1 => builder.push_sharing(ns, &line, &[(b"k1", b"shared")], metadata),
                _ => builder.push_sharing(ns, &line, &[(b"level", b"info")], metadata),
            }
        }
        builder.end();
    }
    builder.finish()
}

fn random_payload(rng: &mut Rng) -> Vec<u8> {
    let mut payload = Vec::new();
    for _ in 0..rng.below(4) {
        if rng.one_in(2) {
            let labels = Labels::from_pairs([("app", "x"), ("number", "7")]).unwrap();
            let tenant = TenantId::new("acme").unwrap();
            write_definition(&mut payload, StreamId(1), &tenant, &labels);
        } else {
            write_batch(&mut payload, &random_batch(rng));
        }
    }
    payload
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.next_u64() as u8),
            2 => bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            _ => bytes[at] ^= 1 << rng.below(8),
        }
    }
}

#[test]
fn decoders_keep_their_word_on_damaged_and_random_bytes() {
    for seed in seeds(20_000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut batch = random_batch(&mut rng);
        assert!(sections(&batch).all(|section| section.is_ok()));
        fuzz::batch_sections(&batch);
        damage(&mut rng, &mut batch);
        fuzz::batch_sections(&batch);
        let mut payload = random_payload(&mut rng);
        assert!(records(&payload).all(|record| record.is_ok()));
        fuzz::wal_records(&payload);
        damage(&mut rng, &mut payload);
        fuzz::wal_records(&payload);
        let random: Vec<u8> = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect();
        fuzz::batch_sections(&random);
        fuzz::wal_records(&random);
    }
}

#[test]
fn headers_and_names_are_read_too() {
    let layout = Layout::Padded;
    let name = WalName { epoch: 1, shards: 2, shard: 1, index: 9 };
    fuzz::wal_records(name.file_name().as_bytes());
    let previous = Some(Previous { index: 8, durable_len: 4096 });
    let (nonce, created_ns, is_reused) = (name.nonce(5), -1, true);
    let header = FileHeader { name, nonce, created_ns, layout, is_reused, previous };
    fuzz::wal_records(&header.encode());
    let (nonce, number, payload_len, payload_crc) = (5, 1, 3, 9);
    let frame = FrameHeader { nonce, number, durable_len: 64, payload_len, payload_crc, layout };
    fuzz::wal_records(&frame.encode());
}
