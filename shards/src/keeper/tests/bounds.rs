//! The bounds of the record, and which processed requests make room.

use std::sync::Arc;

use logsvc_runtime::Monotonic;

use super::super::records::{Change, PENDING_MAX, Records, TENANT_MAX};
use super::rig::tenant;
use crate::deletion::store::{LoadedRequests, filter_of};
use crate::deletion::{CreateError, DeleteId, DeleteRequest, DeleteState, DeletionVersion};

fn request(id: u32, tenant_name: &str, state: DeleteState, query_len: usize) -> DeleteRequest {
    DeleteRequest {
        id: DeleteId(id),
        tenant: tenant(tenant_name),
        query: format!("{{app=\"a\"}} |= \"{}\"", "x".repeat(query_len)),
        start_ns: 0,
        end_ns: 1,
        created_ms: i64::from(id),
        part_ns: None,
        state,
        removed_entries: 0,
        removed_line_bytes: 0,
    }
}

const PENDING: DeleteState = DeleteState::Pending { parts_done: 0 };
const PROCESSED: DeleteState = DeleteState::Processed { at_ms: 0 };

fn records(requests: Vec<DeleteRequest>) -> Records {
    let pending = requests.iter().filter(|request| request.is_pending());
    let filters: Vec<_> =
        pending.map(|r| Arc::new(filter_of(r, DeletionVersion::FIRST).expect("valid"))).collect();
    Records::new(&LoadedRequests { requests: requests.into(), filters: filters.into() })
}

#[test]
fn a_tenant_and_the_node_have_bounds() {
    let names: Vec<String> = (0..5).map(|number| format!("t{number}")).collect();
    let full: Vec<_> = (0..PENDING_MAX as u32 - 1)
        .map(|id| request(id, &names[id as usize / TENANT_MAX], PENDING, 1))
        .collect();
    let records = records(full);
    let none = Change::default();
    let too_many = |max| Err(CreateError::TooMany { max });
    assert_eq!(records.admit(&tenant("t0"), "{}", &none), too_many(TENANT_MAX));
    assert_eq!(records.admit(&tenant("t4"), "{}", &none), Ok(()));
    // Those of the same write count.
    let last = request(u32::MAX, "t4", PENDING, 1);
    let change = Change { added: vec![last], ..Change::default() };
    assert_eq!(records.admit(&tenant("other"), "{}", &change), too_many(PENDING_MAX));
}

#[test]
fn long_queries_of_one_tenant_leave_room_for_others() {
    let long = (0..80).map(|id| request(id, "t", PENDING, 100_000));
    let mut records = records(long.collect());
    let query = "x".repeat(500_000);
    let refused = records.admit(&tenant("t"), &query, &Change::default());
    assert_eq!(refused, Err(CreateError::TooMany { max: 80 }));
    assert_eq!(records.admit(&tenant("u"), &query, &Change::default()), Ok(()));
    let removed = [DeleteId(3)].into();
    let change = Change { removed, ..Change::default() };
    assert_eq!(records.with(&change).count(), 79);
    assert_eq!(records.apply(change, Vec::new(), Monotonic(0)).len(), 1, "its filter ends");
}

#[test]
fn the_oldest_processed_requests_make_room() {
    let mut requests: Vec<_> =
        (0..TENANT_MAX as u32 + 3).map(|id| request(id, "t", PROCESSED, 1)).collect();
    requests.push(request(u32::MAX, "u", PROCESSED, 1));
    requests[1].state = PENDING;
    let records = records(requests);
    let removed: Vec<u32> =
        records.crowded_out(&Change::default()).into_iter().map(|id| id.0).collect();
    assert_eq!(removed, [0, 2], "the newest of the tenant stay, and pending ones");
}
