//! Where the entries of streams go: to shards of this node, or to other nodes.

use logsvc_cluster::map::Epoch;
use logsvc_proto::StreamId;
use logsvc_runtime::{CoreId, Monotonic};
use logsvc_shards::member::{Place, Routes};
use logsvc_shards::types::Layout;

/// A place where entries go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The shard of a core of this node.
    Shard(CoreId),
    /// Another node.
    Node(Epoch),
    /// None for now: nobody takes entries of the partition.
    Nobody,
}

/// The targets of all partitions at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Targets {
    list: Vec<Target>,
    /// Of each partition, the place of its target in the list.
    of_partition: Vec<u16>,
}

impl Targets {
    /// Those of a node that has everything.
    pub(super) fn of_layout(layout: Layout) -> Targets {
        let list = (0..layout.cores()).map(|core| Target::Shard(CoreId(core))).collect();
        let partitions = 0..layout.partitions();
        let of_partition = partitions.map(|one| layout.core_of_partition(one)).collect();
        Targets { list, of_partition }
    }

    /// Those of a node among others, at this moment.
    pub(super) fn of_routes(routes: &Routes, now: Monotonic) -> Targets {
        let mut list: Vec<Target> = Vec::new();
        let mut of_partition = Vec::with_capacity(routes.map.slots.len());
        for (partition, _) in routes.map.partitions() {
            let target = match routes.place(partition, now) {
                Place::Core(core) => Target::Shard(core),
                Place::Node(epoch) => Target::Node(epoch),
                Place::Nowhere => Target::Nobody,
            };
            let place = list.iter().position(|known| *known == target).unwrap_or_else(|| {
                list.push(target);
                list.len() - 1
            });
            of_partition.push(place as u16);
        }
        Targets { list, of_partition }
    }

    /// Those of a node that has not joined the others yet.
    pub(super) fn none() -> Targets {
        Targets { list: vec![Target::Nobody], of_partition: vec![0] }
    }

    /// All targets, each once.
    pub(crate) fn list(&self) -> &[Target] {
        &self.list
    }

    /// The place in the list of a stream's target.
    #[inline]
    pub(crate) fn place_of(&self, stream: StreamId) -> usize {
        let partition = stream.shard(self.of_partition.len() as u16);
        usize::from(self.of_partition[usize::from(partition)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_has_everything_sends_streams_to_the_cores_of_its_layout() {
        for (partitions, cores) in [(1, 1), (2, 2), (64, 3), (5, 4)] {
            let layout = Layout::new(partitions, cores);
            let targets = Targets::of_layout(layout);
            for n in 0..1000_u128 {
                let stream = StreamId(n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
                let core = CoreId(layout.core_of(stream));
                assert_eq!(targets.list()[targets.place_of(stream)], Target::Shard(core));
            }
        }
    }
}
