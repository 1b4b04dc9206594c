//! The part of the documentation about nodes that share a bucket.

pub(super) const CLUSTER: &str = "
## Many nodes

```yaml
storage:
  bucket: s3://logs
memberlist:
  join_members: [dns+logsvc.example.com:7946]
```

`memberlist.join_members`, or `common.ring.kvstore.store: memberlist` for the first node, or `etcd`, makes a node
one of many that share a bucket. Then a bucket is needed, and `wal.durability` is `store` unless
somebody says otherwise; `local` is an error. `common.replication_factor` has no effect: the bucket has
each entry before its push is answered, whatever node is lost.

Nodes find each other by gossip, over UDP and TCP on `memberlist.bind_port`, and talk to each other on
`server.grpc_listen_port`. Whoever reaches these ports can make nodes believe anything about each other:
they belong in a private network, or speak [TLS](cluster.md#encryption). Nodes of one cluster run logsvc; a
ring with Loki is not possible.

Each node needs an address that the others can reach. If no key says one, the node takes the first
address of the machine that is neither its loopback nor link-local, IPv4 first; of the interfaces
in `common.instance_interface_names` if they are set. If there is none it takes the loopback, and the
log warns of it.
";
