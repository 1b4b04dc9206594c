_logsvc() {
    local i cur prev opts cmd
    COMPREPLY=()
    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        cur="$2"
    else
        cur="${COMP_WORDS[COMP_CWORD]}"
    fi
    prev="$3"
    cmd=""
    opts=""

    for i in "${COMP_WORDS[@]:0:COMP_CWORD}"
    do
        case "${cmd},${i}" in
            ",$1")
                cmd="logsvc"
                ;;
            logsvc,backup)
                cmd="logsvc__subcmd__backup"
                ;;
            logsvc,check)
                cmd="logsvc__subcmd__check"
                ;;
            logsvc,export)
                cmd="logsvc__subcmd__export"
                ;;
            logsvc,health)
                cmd="logsvc__subcmd__health"
                ;;
            logsvc,help)
                cmd="logsvc__subcmd__help"
                ;;
            logsvc,import)
                cmd="logsvc__subcmd__import"
                ;;
            logsvc,inspect)
                cmd="logsvc__subcmd__inspect"
                ;;
            logsvc,restore)
                cmd="logsvc__subcmd__restore"
                ;;
            logsvc__subcmd__help,backup)
                cmd="logsvc__subcmd__help__subcmd__backup"
                ;;
            logsvc__subcmd__help,check)
                cmd="logsvc__subcmd__help__subcmd__check"
                ;;
            logsvc__subcmd__help,export)
                cmd="logsvc__subcmd__help__subcmd__export"
                ;;
            logsvc__subcmd__help,health)
                cmd="logsvc__subcmd__help__subcmd__health"
                ;;
            logsvc__subcmd__help,help)
                cmd="logsvc__subcmd__help__subcmd__help"
                ;;
            logsvc__subcmd__help,import)
                cmd="logsvc__subcmd__help__subcmd__import"
                ;;
            logsvc__subcmd__help,inspect)
                cmd="logsvc__subcmd__help__subcmd__inspect"
                ;;
            logsvc__subcmd__help,restore)
                cmd="logsvc__subcmd__help__subcmd__restore"
                ;;
            *)
                ;;
        esac
    done

    case "${cmd}" in
        logsvc)
            opts="-h -V --config.file --config.expand-env --verify-config --print-config-stderr --list-targets --target --legacy-read-mode --server.http-listen-address --server.http-listen-port --server.http-read-timeout --server.http-write-timeout --server.http-idle-timeout --server.http-conn-limit --server.http-tls-cert-path --server.http-tls-key-path --server.http-tls-client-auth --server.http-tls-ca-path --server.users-file --server.cors-allowed-origins --server.tls-cipher-suites --server.tls-min-version --server.graceful-shutdown-timeout --log.level --log.format --server.log-request-at-info-level-enabled --server.grpc-listen-address --server.grpc-listen-port --server.grpc-tls-cert-path --server.grpc-tls-key-path --server.grpc-tls-client-auth --server.grpc-tls-ca-path --auth.enabled --common.path-prefix --common.storage.s3 --common.storage.gcs --common.storage.azure --common.storage.bos --common.storage.swift --common.storage.filesystem --common.storage.object-store --common.storage.ring.store --common.storage.ring.prefix --common.storage.ring.etcd.endpoints --common.storage.ring.etcd.dial-timeout --common.storage.ring.etcd.username --common.storage.ring.etcd.password --common.storage.ring.etcd.tls-enabled --common.storage.ring.etcd.tls-cert-path --common.storage.ring.etcd.tls-key-path --common.storage.ring.etcd.tls-ca-path --common.storage.ring.etcd.tls-server-name --common.storage.ring.etcd.tls-insecure-skip-verify --common.storage.ring.heartbeat-period --common.storage.ring.heartbeat-timeout --common.storage.ring.instance-id --common.storage.ring.instance-addr --common.storage.ring.instance-interface-names --common.storage.ring.instance-availability-zone --common.instance-addr --common.instance-interface-names --common.replication-factor --common.persist-tokens --data-dir --cores --runtime --runtime.driver --memory.max-bytes --wal.sync --wal.durability --wal.file-max-bytes --wal.max-bytes --ingester.flush-on-shutdown --storage.head-max-bytes --storage.head-max-age --storage.ignore-unknown-versions --storage.bucket --storage.bucket-endpoint --storage.bucket-region --storage.bucket-access-key-id --storage.bucket-secret-access-key --storage.cache-max-bytes --storage.partitions --storage.upload-max-age --compaction.enabled --compactor.retention-enabled --compactor.delete-request-cancel-period --compactor.retention-delete-delay --compactor.delete-max-interval --compactor.delete-batch-size --compactor.allow-deletes --compactor.deletion-mode --compactor.working-directory --compactor.delete-request-store --compactor.max-compaction-parallelism --retention.max-disk-bytes --retention.max-disk-percent --distributor.max-recv-msg-size --distributor.max-decompressed-size --distributor.otlp.default_resource_attributes_as_index_labels --frontend.max-body-size --frontend.log-queries-longer-than --frontend.query-stats-enabled --querier.max-outstanding-requests-per-tenant --ingester.max-chunk-age --ingester.checkpoint-duration --ingester.query-store-max-look-back-period --ring.store --ingester.availability-zone --querier.tail-max-duration --querier.max-concurrent --querier.multi-tenant-queries-enabled --querier.per-request-limits-enabled --pattern-ingester.enabled --query-scheduler.max-outstanding-requests-per-tenant --query-range.align-queries-with-step --query-range.cache-results --schema-config.configs --storage-config.aws --storage-config.gcs --storage-config.azure --storage-config.bos --storage-config.swift --storage-config.filesystem --storage-config.named-stores --store.object-prefix --use-thanos-objstore --storage-config.object-store --tsdb.shipper.active-index-directory --tsdb.shipper.cache-location --ingester.client.tls-enabled --ingester.client.tls-cert-path --ingester.client.tls-key-path --ingester.client.tls-ca-path --ingester.client.tls-server-name --ingester.client.tls-insecure-skip-verify --memberlist.nodename --memberlist.bind-addr --memberlist.bind-port --memberlist.advertise-addr --memberlist.advertise-port --memberlist.cluster-label --memberlist.cluster-label-verification-disabled --memberlist.join --memberlist.min-join-backoff --memberlist.max-join-backoff --memberlist.max-join-retries --memberlist.abort-if-join-fails --memberlist.rejoin-interval --memberlist.left-ingesters-timeout --memberlist.leave-timeout --memberlist.gossip-interval --memberlist.gossip-nodes --memberlist.pullpush-interval --memberlist.packet-dial-timeout --memberlist.stream-timeout --memberlist.tls-enabled --memberlist.tls-cert-path --memberlist.tls-key-path --memberlist.tls-ca-path --memberlist.tls-server-name --memberlist.tls-insecure-skip-verify --intake.elasticsearch.version --intake.elasticsearch.index-label --intake.elasticsearch.label-fields --intake.elasticsearch.message-fields --intake.elasticsearch.time-fields --intake.elasticsearch.ignored-fields --intake.journald.labels --intake.journald.dropped-fields --intake.journald.source-time --intake.journald.field-max-bytes --intake.lines.label-fields --intake.lines.message-fields --intake.lines.time-fields --intake.lines.ignored-fields --ruler.external.url --ruler.datasource-uid --ruler.external-labels --ruler.evaluation-interval --ruler.poll-interval --ruler.evaluation.mode --ruler.evaluation.max-jitter --ruler.evaluation.max-concurrent --ruler.storage.type --ruler.storage.local.directory --ruler.rule-path --ruler.alertmanager-url --ruler.alertmanager-discovery --ruler.alertmanager-refresh-interval --ruler.alertmanager-use-v2 --ruler.alert-relabel-configs --ruler.notification-queue-capacity --ruler.notification-timeout --ruler.alertmanager-client.tls-cert-path --ruler.alertmanager-client.tls-key-path --ruler.alertmanager-client.tls-ca-path --ruler.alertmanager-client.tls-server-name --ruler.alertmanager-client.tls-insecure-skip-verify --ruler.alertmanager-client.basic-auth-username --ruler.alertmanager-client.basic-auth-password --ruler.alertmanager-client.type --ruler.alertmanager-client.credentials --ruler.alertmanager-client.credentials-file --ruler.for-outage-tolerance --ruler.for-grace-period --ruler.resend-delay --ruler.enable-api --ruler.enabled-tenants --ruler.disabled-tenants --ruler.disable-rule-group-label --ruler.wal.max-age --ruler.wal.max-bytes --ruler.remote-write.enabled --ruler.remote-write.client --ruler.remote-write.clients --ruler.remote-write.add-org-id-header --ruler-storage.backend --ruler-storage.local.directory --intake.syslog.tcp-address --intake.syslog.tls-address --intake.syslog.udp-address --intake.syslog.tenant --intake.syslog.time-zone --intake.syslog.labels --intake.syslog.idle-timeout --intake.syslog.max-message-size --intake.syslog.max-connections --limits.max-line-size --limits.max-line-size-truncate --limits.max-line-size-truncate-identifier --limits.increment-duplicate-timestamp --limits.discover-service-name --limits.discover-log-levels --limits.log-level-fields --limits.log-level-from-json-max-depth --limits.block-ingestion-until --limits.block-ingestion-status-code --limits.otlp-config --limits.enforced-labels --limits.ingestion-rate-mb --limits.ingestion-rate-strategy --limits.ingestion-burst-size-mb --limits.max-streams-per-user --limits.max-global-streams-per-user --limits.per-stream-rate-limit --limits.per-stream-rate-limit-burst --limits.reject-old-samples --limits.reject-old-samples-max-age --limits.creation-grace-period --limits.max-label-names-per-series --limits.max-label-name-length --limits.max-label-value-length --limits.allow-structured-metadata --limits.max-structured-metadata-size --limits.max-structured-metadata-entries-count --limits.max-entries-limit-per-query --limits.allow-partial-answers --limits.max-query-series --limits.max-query-length --limits.max-query-lookback --limits.query-timeout --limits.max-query-range --limits.max-query-bytes-read --limits.max-querier-bytes-read --limits.max-streams-matchers-per-query --limits.required-labels --limits.minimum-labels-number --limits.blocked-queries --limits.max-query-parallelism --limits.tsdb-max-query-parallelism --limits.max-concurrent-tail-requests --limits.retention-period --limits.retention-stream --limits.allow-deletes --limits.deletion-mode --limits.volume-enabled --limits.volume-max-series --limits.ruler-max-rules-per-rule-group --limits.ruler-max-rule-groups-per-tenant --limits.ruler-alertmanager-config --limits.ruler-evaluation-delay-duration --limits.ruler-remote-write-disabled --limits.ruler-remote-write-url --limits.ruler-remote-write-timeout --limits.ruler-remote-write-headers --limits.ruler-remote-write-relabel-configs --limits.ruler-remote-write-queue-max-samples-per-send --limits.ruler-remote-write-queue-batch-send-deadline --limits.ruler-remote-write-queue-min-backoff --limits.ruler-remote-write-queue-max-backoff --limits.ruler-remote-write-queue-retry-on-ratelimit --limits.ruler-remote-write-sigv4-config --limits.ruler-remote-write-config --limits.per-user-override-config --limits.per-user-override-period --runtime-config.file --runtime-config.reload-period --help --version check inspect health backup restore export import help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 1 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --config.file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config.expand-env)
                    COMPREPLY=($(compgen -W "true false" -- "${cur}"))
                    return 0
                    ;;
                --target)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --legacy-read-mode)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.http-listen-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.http-listen-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.http-read-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.http-write-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.http-idle-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.http-conn-limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.http-tls-cert-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.http-tls-key-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.http-tls-client-auth)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.http-tls-ca-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.users-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.cors-allowed-origins)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.tls-cipher-suites)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.tls-min-version)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.graceful-shutdown-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log.level)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --log.format)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.log-request-at-info-level-enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.grpc-listen-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.grpc-listen-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.grpc-tls-cert-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.grpc-tls-key-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.grpc-tls-client-auth)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --server.grpc-tls-ca-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --auth.enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.path-prefix)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.s3)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.gcs)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.azure)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.bos)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.swift)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.filesystem)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.object-store)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.store)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.prefix)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.etcd.endpoints)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.etcd.dial-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.etcd.username)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.etcd.password)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.etcd.tls-enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.etcd.tls-cert-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.etcd.tls-key-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.etcd.tls-ca-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.etcd.tls-server-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.etcd.tls-insecure-skip-verify)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.heartbeat-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.heartbeat-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.instance-id)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.instance-addr)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.instance-interface-names)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.storage.ring.instance-availability-zone)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.instance-addr)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.instance-interface-names)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.replication-factor)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --common.persist-tokens)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --data-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --cores)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --runtime)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --runtime.driver)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memory.max-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --wal.sync)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --wal.durability)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --wal.file-max-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --wal.max-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.flush-on-shutdown)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.head-max-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.head-max-age)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.ignore-unknown-versions)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-endpoint)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-region)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-access-key-id)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-secret-access-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.cache-max-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.partitions)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.upload-max-age)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compaction.enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compactor.retention-enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compactor.delete-request-cancel-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compactor.retention-delete-delay)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compactor.delete-max-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compactor.delete-batch-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compactor.allow-deletes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compactor.deletion-mode)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compactor.working-directory)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compactor.delete-request-store)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --compactor.max-compaction-parallelism)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --retention.max-disk-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --retention.max-disk-percent)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --distributor.max-recv-msg-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --distributor.max-decompressed-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --distributor.otlp.default_resource_attributes_as_index_labels)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --frontend.max-body-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --frontend.log-queries-longer-than)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --frontend.query-stats-enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --querier.max-outstanding-requests-per-tenant)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.max-chunk-age)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.checkpoint-duration)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.query-store-max-look-back-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ring.store)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.availability-zone)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --querier.tail-max-duration)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --querier.max-concurrent)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --querier.multi-tenant-queries-enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --querier.per-request-limits-enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --pattern-ingester.enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --query-scheduler.max-outstanding-requests-per-tenant)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --query-range.align-queries-with-step)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --query-range.cache-results)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --schema-config.configs)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage-config.aws)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage-config.gcs)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage-config.azure)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage-config.bos)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage-config.swift)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage-config.filesystem)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage-config.named-stores)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --store.object-prefix)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --use-thanos-objstore)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage-config.object-store)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tsdb.shipper.active-index-directory)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tsdb.shipper.cache-location)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.client.tls-enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.client.tls-cert-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.client.tls-key-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.client.tls-ca-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.client.tls-server-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ingester.client.tls-insecure-skip-verify)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.nodename)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.bind-addr)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.bind-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.advertise-addr)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.advertise-port)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.cluster-label)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.cluster-label-verification-disabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.join)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.min-join-backoff)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.max-join-backoff)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.max-join-retries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.abort-if-join-fails)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.rejoin-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.left-ingesters-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.leave-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.gossip-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.gossip-nodes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.pullpush-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.packet-dial-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.stream-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.tls-enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.tls-cert-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.tls-key-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.tls-ca-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.tls-server-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --memberlist.tls-insecure-skip-verify)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.elasticsearch.version)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.elasticsearch.index-label)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.elasticsearch.label-fields)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.elasticsearch.message-fields)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.elasticsearch.time-fields)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.elasticsearch.ignored-fields)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.journald.labels)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.journald.dropped-fields)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.journald.source-time)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.journald.field-max-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.lines.label-fields)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.lines.message-fields)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.lines.time-fields)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.lines.ignored-fields)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.external.url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.datasource-uid)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.external-labels)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.evaluation-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.poll-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.evaluation.mode)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.evaluation.max-jitter)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.evaluation.max-concurrent)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.storage.type)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.storage.local.directory)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.rule-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-discovery)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-refresh-interval)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-use-v2)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alert-relabel-configs)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.notification-queue-capacity)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.notification-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-client.tls-cert-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-client.tls-key-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-client.tls-ca-path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-client.tls-server-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-client.tls-insecure-skip-verify)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-client.basic-auth-username)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-client.basic-auth-password)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-client.type)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-client.credentials)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.alertmanager-client.credentials-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.for-outage-tolerance)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.for-grace-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.resend-delay)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.enable-api)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.enabled-tenants)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.disabled-tenants)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.disable-rule-group-label)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.wal.max-age)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.wal.max-bytes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.remote-write.enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.remote-write.client)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.remote-write.clients)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler.remote-write.add-org-id-header)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler-storage.backend)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --ruler-storage.local.directory)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.syslog.tcp-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.syslog.tls-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.syslog.udp-address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.syslog.tenant)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.syslog.time-zone)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.syslog.labels)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.syslog.idle-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.syslog.max-message-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --intake.syslog.max-connections)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-line-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-line-size-truncate)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-line-size-truncate-identifier)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.increment-duplicate-timestamp)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.discover-service-name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.discover-log-levels)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.log-level-fields)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.log-level-from-json-max-depth)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.block-ingestion-until)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.block-ingestion-status-code)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.otlp-config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.enforced-labels)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ingestion-rate-mb)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ingestion-rate-strategy)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ingestion-burst-size-mb)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-streams-per-user)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-global-streams-per-user)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.per-stream-rate-limit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.per-stream-rate-limit-burst)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.reject-old-samples)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.reject-old-samples-max-age)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.creation-grace-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-label-names-per-series)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-label-name-length)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-label-value-length)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.allow-structured-metadata)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-structured-metadata-size)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-structured-metadata-entries-count)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-entries-limit-per-query)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.allow-partial-answers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-query-series)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-query-length)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-query-lookback)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.query-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-query-range)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-query-bytes-read)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-querier-bytes-read)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-streams-matchers-per-query)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.required-labels)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.minimum-labels-number)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.blocked-queries)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-query-parallelism)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.tsdb-max-query-parallelism)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.max-concurrent-tail-requests)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.retention-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.retention-stream)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.allow-deletes)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.deletion-mode)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.volume-enabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.volume-max-series)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-max-rules-per-rule-group)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-max-rule-groups-per-tenant)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-alertmanager-config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-evaluation-delay-duration)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-disabled)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-url)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-timeout)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-headers)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-relabel-configs)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-queue-max-samples-per-send)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-queue-batch-send-deadline)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-queue-min-backoff)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-queue-max-backoff)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-queue-retry-on-ratelimit)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-sigv4-config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.ruler-remote-write-config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.per-user-override-config)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --limits.per-user-override-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --runtime-config.file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --runtime-config.reload-period)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__backup)
            opts="-h --server --name --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --server)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --name)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__check)
            opts="-h --data-dir --bucket --config.file --config.expand-env --storage.bucket --storage.bucket-endpoint --storage.bucket-region --storage.bucket-access-key-id --storage.bucket-secret-access-key --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --data-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config.file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config.expand-env)
                    COMPREPLY=($(compgen -W "true false" -- "${cur}"))
                    return 0
                    ;;
                --storage.bucket)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-endpoint)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-region)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-access-key-id)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-secret-access-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__export)
            opts="-h --address --tenant --user --password-file --token-file --query --start --end --format --output --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tenant)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --user)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --password-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --token-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --query)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --start)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --end)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --format)
                    COMPREPLY=($(compgen -W "ndjson parquet" -- "${cur}"))
                    return 0
                    ;;
                --output)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__health)
            opts="-h --address --path --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --path)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__help)
            opts="check inspect health backup restore export import help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__help__subcmd__backup)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__help__subcmd__check)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__help__subcmd__export)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__help__subcmd__health)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__help__subcmd__help)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__help__subcmd__import)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__help__subcmd__inspect)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__help__subcmd__restore)
            opts=""
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 3 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__import)
            opts="-h --address --tenant --user --password-file --token-file --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --address)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --tenant)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --user)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --password-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --token-file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__inspect)
            opts="-h --find --bucket --config.file --config.expand-env --storage.bucket --storage.bucket-endpoint --storage.bucket-region --storage.bucket-access-key-id --storage.bucket-secret-access-key --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --find)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config.file)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --config.expand-env)
                    COMPREPLY=($(compgen -W "true false" -- "${cur}"))
                    return 0
                    ;;
                --storage.bucket)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-endpoint)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-region)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-access-key-id)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --storage.bucket-secret-access-key)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
        logsvc__subcmd__restore)
            opts="-h --from --data-dir --help"
            if [[ ${cur} == -* || ${COMP_CWORD} -eq 2 ]] ; then
                COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
                return 0
            fi
            case "${prev}" in
                --from)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                --data-dir)
                    COMPREPLY=($(compgen -f "${cur}"))
                    return 0
                    ;;
                *)
                    COMPREPLY=()
                    ;;
            esac
            COMPREPLY=( $(compgen -W "${opts}" -- "${cur}") )
            return 0
            ;;
    esac
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _logsvc -o nosort -o bashdefault -o default logsvc
else
    complete -F _logsvc -o bashdefault -o default logsvc
fi
