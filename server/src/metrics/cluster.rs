//! Metrics of a node among others: what it owns, and what it has sent to others.

use super::Exposition;

/// The numbers of a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClusterNumbers {
    /// The newest map that the node knows.
    pub(crate) map_number: u64,
    /// Partitions that it owns by this map.
    pub(crate) partitions: u64,
    /// Nodes of this map.
    pub(crate) nodes: u64,
    /// Messages to other nodes.
    pub(crate) messages: u64,
    /// Those without an answer.
    pub(crate) failures: u64,
    /// Bytes of messages.
    pub(crate) sent_bytes: u64,
    /// Bytes of their answers.
    pub(crate) received_bytes: u64,
}

/// Writes the numbers; nothing at all if the node has no others.
pub(super) fn expose(numbers: Option<ClusterNumbers>, out: &mut Exposition) {
    let Some(numbers) = numbers else { return };
    let families = [
        (
            "logsvc_cluster_map_number",
            "gauge",
            "The number of the newest map of who owns what that the node knows.",
            numbers.map_number,
        ),
        ("logsvc_cluster_nodes", "gauge", "Nodes of this map.", numbers.nodes),
        (
            "logsvc_cluster_partitions",
            "gauge",
            "Partitions that the node owns by this map.",
            numbers.partitions,
        ),
        (
            "logsvc_peer_messages_total",
            "counter",
            "Pushes and questions that were sent to other nodes.",
            numbers.messages,
        ),
        (
            "logsvc_peer_message_failures_total",
            "counter",
            "Those that got no answer.",
            numbers.failures,
        ),
        ("logsvc_peer_sent_bytes_total", "counter", "Their bytes.", numbers.sent_bytes),
        (
            "logsvc_peer_received_bytes_total",
            "counter",
            "Bytes of their answers.",
            numbers.received_bytes,
        ),
    ];
    for (name, kind, help, value) in families {
        out.single(name, kind, help, value);
    }
}
