//! The fuzz bodies over random, damaged and small inputs.

use logsvc_fuzz_bodies::segment::random_batch;
use logsvc_fuzz_bodies::shards as fuzz;
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_segment::batch::sections;
use logsvc_shards::deletion::format::{decode, encode};
use logsvc_shards::deletion::{DeleteId, DeleteRequest, DeleteState};
use logsvc_shards::wal::format::{
    FileHeader, FrameHeader, Layout, Previous, WalName, records, write_batch, write_definition,
};
use logsvc_testkit::{Rng, SeedGuard, seeds};

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

fn random_requests(rng: &mut Rng) -> Vec<u8> {
    let requests: Vec<_> = (0..rng.below(4))
        .map(|id| DeleteRequest {
            id: DeleteId(id as u32),
            tenant: TenantId::new("acme").unwrap(),
            query: r#"{app="x"} |= "secret""#.to_owned(),
            start_ns: rng.next_u64() as i64 >> 2,
            end_ns: i64::MAX >> rng.below(2),
            created_ms: rng.next_u64() as i64,
            part_ns: rng.one_in(2).then(|| 1 + rng.below(1 << 60) as i64),
            state: match rng.below(2) {
                0 => DeleteState::Pending { parts_done: 0 },
                _ => DeleteState::Processed { at_ms: rng.next_u64() as i64 },
            },
            removed_entries: rng.next_u64(),
            removed_line_bytes: rng.next_u64(),
        })
        .collect();
    let bytes = encode(requests.iter()).unwrap();
    assert_eq!(decode(&bytes).unwrap(), requests);
    bytes
}

#[test]
fn decoders_keep_their_word_on_damaged_and_random_bytes() {
    for seed in seeds(20_000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let mut batch = random_batch(&mut rng);
        assert!(sections(&batch).all(|section| section.is_ok()));
        fuzz::batch_sections(&batch);
        rng.damage(&mut batch);
        fuzz::batch_sections(&batch);
        let mut payload = random_payload(&mut rng);
        assert!(records(&payload).all(|record| record.is_ok()));
        fuzz::wal_records(&payload);
        rng.damage(&mut payload);
        fuzz::wal_records(&payload);
        let random: Vec<u8> = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect();
        fuzz::batch_sections(&random);
        fuzz::wal_records(&random);
        fuzz::delete_requests(&random);
        let mut requests = random_requests(&mut rng);
        fuzz::delete_requests(&requests);
        rng.damage(&mut requests);
        fuzz::delete_requests(&requests);
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

#[test]
fn pieces_of_log_files_survive_anything() {
    for seed in seeds(200) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let noise: Vec<u8> = (0..rng.below(300)).map(|_| rng.below(4) as u8).collect();
        fuzz::wal_pieces(&noise);
    }
}
