//! Metrics of streams by tenant: those that there are, and those that came and went since the start.

use std::collections::BTreeMap;

use logsvc_proto::TenantId;
use logsvc_shards::messages::{ShardStatus, TenantCounts};

use super::exposition::Exposition;
use super::pushes::{OTHERS, TENANTS_MAX};

/// Writes the sums over all shards.
pub(super) fn expose(out: &mut Exposition, shards: &[ShardStatus]) {
    const STREAMS: &str = "loki_ingester_memory_streams";
    out.family(STREAMS, "gauge", "Streams in memory.");
    let mut per_tenant = BTreeMap::new();
    for (tenant, streams) in shards.iter().flat_map(|shard| &shard.streams) {
        *per_tenant.entry(tenant).or_insert(0) += streams;
    }
    // If there are too many tenants for one answer, the ones with fewest streams are counted
    // together.
    let mut per_tenant: Vec<(&TenantId, u64)> = per_tenant.into_iter().collect();
    let mut others = 0;
    if per_tenant.len() > TENANTS_MAX {
        per_tenant.sort_by_key(|&(tenant, streams)| (std::cmp::Reverse(streams), tenant));
        others = per_tenant.drain(TENANTS_MAX..).map(|(_, streams)| streams).sum();
        per_tenant.sort_unstable();
    }
    let named = per_tenant.iter().map(|&(tenant, streams)| (tenant.as_str(), streams));
    for (tenant, streams) in named.chain((others > 0).then_some((OTHERS, others))) {
        out.sample(STREAMS, &[("tenant", tenant)], streams as f64);
    }
    type Read = fn(&ShardStatus) -> &TenantCounts;
    let families: [(&str, &str, Read); 2] = [
        (
            "loki_ingester_streams_created_total",
            "Streams that pushes made known since the start.",
            |shard| &shard.created_streams,
        ),
        (
            "loki_ingester_streams_removed_total",
            "Streams that left the memory since the start, because others needed it.",
            |shard| &shard.removed_streams,
        ),
    ];
    for (name, help, read) in families {
        out.family(name, "counter", help);
        let mut sums = BTreeMap::<&str, u64>::new();
        for counts in shards.iter().map(read) {
            let alone = counts.alone.iter().map(|(tenant, &count)| (tenant.as_str(), count));
            let others = (counts.others > 0).then_some((OTHERS, counts.others));
            for (tenant, count) in alone.chain(others) {
                *sums.entry(tenant).or_default() += count;
            }
        }
        for (tenant, count) in sums {
            out.sample(name, &[("tenant", tenant)], count as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ExpositionFormat;
    use super::*;

    #[test]
    fn streams_of_all_shards_add_up() {
        let tenant = TenantId::new("t").expect("a tenant");
        let mut shard =
            ShardStatus { streams: vec![(tenant.clone(), 2)], ..ShardStatus::default() };
        shard.created_streams.add(&tenant);
        let mut other = shard.clone();
        other.created_streams.others = 5;
        other.removed_streams.add(&tenant);
        let mut out = Exposition::new(ExpositionFormat::Text);
        expose(&mut out, &[shard, other]);
        let text = out.into_text();
        for line in [
            r#"loki_ingester_memory_streams{tenant="t"} 4"#,
            r#"loki_ingester_streams_created_total{tenant="t"} 2"#,
            r#"loki_ingester_streams_created_total{tenant="(others)"} 5"#,
            r#"loki_ingester_streams_removed_total{tenant="t"} 1"#,
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }
}
