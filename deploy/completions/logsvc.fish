# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_logsvc_global_optspecs
    string join \n config.file= config.expand-env= verify-config print-config-stderr list-targets target= server.http-listen-address= server.http-listen-port= server.http-read-timeout= server.http-write-timeout= server.http-idle-timeout= server.http-conn-limit= server.http-tls-cert-path= server.http-tls-key-path= server.http-tls-client-auth= server.http-tls-ca-path= server.users-file= server.cors-allowed-origins= server.tls-cipher-suites= server.tls-min-version= server.graceful-shutdown-timeout= log.level= log.format= server.log-request-at-info-level-enabled= auth.enabled= common.path-prefix= data-dir= cores= runtime= runtime.driver= memory.max-bytes= wal.sync= wal.file-max-bytes= wal.max-bytes= ingester.flush-on-shutdown= storage.head-max-bytes= storage.head-max-age= storage.ignore-unknown-versions= compaction.enabled= compactor.retention-enabled= compactor.delete-request-cancel-period= compactor.delete-max-interval= compactor.delete-batch-size= compactor.allow-deletes= compactor.deletion-mode= retention.max-disk-bytes= retention.max-disk-percent= distributor.max-recv-msg-size= distributor.max-decompressed-size= distributor.otlp.default_resource_attributes_as_index_labels= frontend.max-body-size= frontend.log-queries-longer-than= frontend.query-stats-enabled= querier.max-outstanding-requests-per-tenant= ingester.max-chunk-age= querier.tail-max-duration= querier.max-concurrent= querier.multi-tenant-queries-enabled= querier.per-request-limits-enabled= pattern-ingester.enabled= query-scheduler.max-outstanding-requests-per-tenant= query-range.align-queries-with-step= query-range.cache-results= intake.elasticsearch.version= intake.elasticsearch.index-label= intake.elasticsearch.label-fields= intake.elasticsearch.message-fields= intake.elasticsearch.time-fields= intake.elasticsearch.ignored-fields= intake.journald.labels= intake.journald.dropped-fields= intake.journald.source-time= intake.journald.field-max-bytes= intake.lines.label-fields= intake.lines.message-fields= intake.lines.time-fields= intake.lines.ignored-fields= ruler.external.url= ruler.datasource-uid= ruler.external-labels= ruler.evaluation-interval= ruler.poll-interval= ruler.evaluation.mode= ruler.evaluation.max-jitter= ruler.evaluation.max-concurrent= ruler.storage.type= ruler.storage.local.directory= ruler.rule-path= ruler.alertmanager-url= ruler.alertmanager-discovery= ruler.alertmanager-refresh-interval= ruler.alertmanager-use-v2= ruler.alert-relabel-configs= ruler.notification-queue-capacity= ruler.notification-timeout= ruler.alertmanager-client.tls-cert-path= ruler.alertmanager-client.tls-key-path= ruler.alertmanager-client.tls-ca-path= ruler.alertmanager-client.tls-server-name= ruler.alertmanager-client.tls-insecure-skip-verify= ruler.alertmanager-client.basic-auth-username= ruler.alertmanager-client.basic-auth-password= ruler.alertmanager-client.type= ruler.alertmanager-client.credentials= ruler.alertmanager-client.credentials-file= ruler.for-outage-tolerance= ruler.for-grace-period= ruler.resend-delay= ruler.enable-api= ruler.enabled-tenants= ruler.disabled-tenants= ruler.disable-rule-group-label= ruler.wal.max-age= ruler.wal.max-bytes= ruler.remote-write.enabled= ruler.remote-write.client= ruler.remote-write.clients= ruler.remote-write.add-org-id-header= ruler-storage.backend= ruler-storage.local.directory= intake.syslog.tcp-address= intake.syslog.tls-address= intake.syslog.udp-address= intake.syslog.tenant= intake.syslog.time-zone= intake.syslog.labels= intake.syslog.idle-timeout= intake.syslog.max-message-size= intake.syslog.max-connections= limits.max-line-size= limits.max-line-size-truncate= limits.max-line-size-truncate-identifier= limits.increment-duplicate-timestamp= limits.discover-service-name= limits.discover-log-levels= limits.log-level-fields= limits.log-level-from-json-max-depth= limits.block-ingestion-until= limits.block-ingestion-status-code= limits.otlp-config= limits.enforced-labels= limits.ingestion-rate-mb= limits.ingestion-burst-size-mb= limits.max-streams-per-user= limits.max-global-streams-per-user= limits.per-stream-rate-limit= limits.per-stream-rate-limit-burst= limits.reject-old-samples= limits.reject-old-samples-max-age= limits.creation-grace-period= limits.max-label-names-per-series= limits.max-label-name-length= limits.max-label-value-length= limits.allow-structured-metadata= limits.max-structured-metadata-size= limits.max-structured-metadata-entries-count= limits.max-entries-limit-per-query= limits.max-query-series= limits.max-query-length= limits.max-query-lookback= limits.query-timeout= limits.max-query-range= limits.max-query-bytes-read= limits.max-querier-bytes-read= limits.max-streams-matchers-per-query= limits.required-labels= limits.minimum-labels-number= limits.blocked-queries= limits.max-query-parallelism= limits.tsdb-max-query-parallelism= limits.max-concurrent-tail-requests= limits.retention-period= limits.retention-stream= limits.allow-deletes= limits.deletion-mode= limits.volume-enabled= limits.volume-max-series= limits.ruler-max-rules-per-rule-group= limits.ruler-max-rule-groups-per-tenant= limits.ruler-alertmanager-config= limits.ruler-evaluation-delay-duration= limits.ruler-remote-write-disabled= limits.ruler-remote-write-url= limits.ruler-remote-write-timeout= limits.ruler-remote-write-headers= limits.ruler-remote-write-relabel-configs= limits.ruler-remote-write-queue-max-samples-per-send= limits.ruler-remote-write-queue-batch-send-deadline= limits.ruler-remote-write-queue-min-backoff= limits.ruler-remote-write-queue-max-backoff= limits.ruler-remote-write-queue-retry-on-ratelimit= limits.ruler-remote-write-sigv4-config= limits.ruler-remote-write-config= limits.per-user-override-config= limits.per-user-override-period= runtime-config.file= runtime-config.reload-period= h/help V/version
end

function __fish_logsvc_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_logsvc_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_logsvc_using_subcommand
    set -l cmd (__fish_logsvc_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c logsvc -n "__fish_logsvc_needs_command" -l config.file -d 'YAML file with settings; of several with commas between them the first that exists' -r -F
complete -c logsvc -n "__fish_logsvc_needs_command" -l config.expand-env -d 'Replace ${VAR} and ${VAR:-default} in the file by variables of the environment' -r -f -a "true\t''
false\t''"
complete -c logsvc -n "__fish_logsvc_needs_command" -l target -d 'Parts of Loki, with commas between them. One process has all parts, so each of them means all. [default: all]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.http-listen-address -d 'IP address to listen on. Empty or 0.0.0.0 means all addresses of the machine. [default: 0.0.0.0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.http-listen-port -d 'Port to listen on. 0 lets the system choose; the log then names the port. [default: 3100]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.http-read-timeout -d 'Longest time to receive a whole request. Each 16KB received extend it by a second. At least 10KB of a body must arrive within each 10 seconds. [default: 30s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.http-write-timeout -d 'Longest time in which a client takes no bytes of an answer, summed over all its parts. Each 16KB that the client takes extend it by a second. [default: 30s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.http-idle-timeout -d 'Longest time that a connection stays open without a request. [default: 2m]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.http-conn-limit -d 'Most connections that may be open. The server answers further ones with 503. 0 means the smaller of two numbers: one connection for each 64KB of memory.max_bytes, and the limit of open files less a reserve for the server\'s own files. The server raises the limit as far as it may. The reserve is a quarter of it, but at least 64 and at most 4096. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.http-tls-cert-path -d 'File with the server\'s certificate, followed by the certificates up to its issuer, as PEM. With it and the key the port speaks HTTPS only. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.http-tls-key-path -d 'File with the private key of the certificate, as PEM. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.http-tls-client-auth -d 'The certificate that clients must show: NoClientCert, RequestClientCert, RequireAnyClientCert, VerifyClientCertIfGiven or RequireAndVerifyClientCert. Empty means NoClientCert. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.http-tls-ca-path -d 'File with the certificates of the issuers of clients, as PEM; needed if client certificates are verified. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.users-file -d 'File with the accounts that may use the HTTP interface, one name:hash or name:hash:tenant a line, as htpasswd -B writes it. Empty means that nobody is asked. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.cors-allowed-origins -d 'Origins of web pages that may use the HTTP interface from a browser, such as https://grafana.example.com. * lets pages of every origin read. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.tls-cipher-suites -d 'Cipher suites of TLS 1.2, such as TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, preferred first. Empty means all suites with forward secrecy and authenticated encryption; the server never speaks weaker ones. It always speaks all suites of TLS 1.3. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.tls-min-version -d 'Oldest version of TLS that clients may speak: VersionTLS12 or VersionTLS13; VersionTLS10, VersionTLS11 and an empty text mean VersionTLS12. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.graceful-shutdown-timeout -d 'How long a stop waits for running requests. [default: 30s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l log.level -d 'Lowest severity of log lines that the server writes. [default: info]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l log.format -d 'Format of log lines: text for people, or one JSON object per line. [default: text]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l server.log-request-at-info-level-enabled -d 'Whether the server logs each request at the level info: an access log. Otherwise requests are logged at the level debug. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l auth.enabled -d 'Whether requests must name their tenant in X-Scope-OrgID. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l common.path-prefix -d 'Folder of all data; another name of data_dir. [default: ./data]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l data-dir -d 'Folder of all data; made if missing. [default: ./data]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l cores -d 'Number of cores, each with a thread and a shard of its own. 0 means all CPUs that the process may use. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l runtime -d 'The asynchronous runtime of the cores. monoio works everywhere; glommio needs io_uring. [default: monoio]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l runtime.driver -d 'How monoio does input and output. auto takes io_uring, or epoll where the system refuses io_uring. [default: auto]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l memory.max-bytes -d 'Memory that bodies, recent entries, streams, directories of segments, queries and the cache share. 0 means a quarter of the memory of the machine or the control group. [default: 0B]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l wal.sync -d 'When entries are forced to the disk. always: before the answer to a push; a crash of the machine loses no entries. An interval such as 1s: a crash of the machine loses at most the entries of that time. never: whenever the system writes them; a crash of the machine loses about 30 seconds. A crash of the process alone loses no entries in any mode. [default: always]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l wal.file-max-bytes -d 'A file of the write-ahead log is closed at this size. [default: 256MB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l wal.max-bytes -d 'Largest size of the node\'s write-ahead log: the server writes entries to segments early enough to stay below it. It bounds the time of a start after a crash. [default: 512MB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ingester.flush-on-shutdown -d 'Whether a stop writes recent entries to segments. Otherwise the next start reads them back from the write-ahead log. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l storage.head-max-bytes -d 'A core writes its recent entries to a segment when they take this much memory. 0 means 24MB, or less on machines with little memory. [default: 0B]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l storage.head-max-age -d 'A core writes recent entries to a segment when they have been in memory for this long. [default: 30m]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l storage.ignore-unknown-versions -d 'Whether to start although the data folder has files of another version that this version cannot read. The server leaves these files as they are, and queries lack their entries. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l compaction.enabled -d 'Whether the server merges small segments of a day into large ones when a core has time. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l compactor.retention-enabled -d 'Whether entries are removed when their retention period is over, and whether entries can be deleted. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l compactor.delete-request-cancel-period -d 'How long a delete request can be cancelled. Its entries are hidden from the first moment and leave the disk after this time. [default: 1d]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l compactor.delete-max-interval -d 'Longest part of a delete request with stages; longer ones are worked on in parts. 0 means that they are not split. [default: 1d]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l compactor.delete-batch-size -d 'Most delete requests that are worked on at a time. [default: 70]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l compactor.allow-deletes -d 'Old name of limits_config.deletion_mode: true means filter-and-delete, false means disabled. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l compactor.deletion-mode -d 'Old place of limits_config.deletion_mode, which wins. [default: disabled]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l retention.max-disk-bytes -d 'When segments take more than this, the server removes whole segments, oldest day first. 0 means no limit. [default: 0B]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l retention.max-disk-percent -d 'Like max_disk_bytes, in percent of the size of the file system; the smaller of the two limits counts. 0 means no limit. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l distributor.max-recv-msg-size -d 'Longest body of a push, as it is sent. The memory for bodies limits it as well. [default: 100MB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l distributor.max-decompressed-size -d 'Longest body of a push, decompressed. The memory for bodies limits it as well. [default: 5000MB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l distributor.otlp.default_resource_attributes_as_index_labels -d 'Attributes of OpenTelemetry resources that become labels, unless a tenant\'s otlp_config ignores the defaults. [default: service.name,service.namespace,service.instance.id,deployment.environment,deployment.environment.name,cloud.region,cloud.availability_zone,k8s.cluster.name,k8s.namespace.name,k8s.pod.name,k8s.container.name,container.name,k8s.replicaset.name,k8s.deployment.name,k8s.statefulset.name,k8s.daemonset.name,k8s.cronjob.name,k8s.job.name]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l frontend.max-body-size -d 'Longest body of any other request. [default: 10MB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l frontend.log-queries-longer-than -d 'The server logs queries that take longer than this, at most 30 a minute for each tenant. 0 means none, less than 0 all. Queries that fail are logged in any case. [default: 0s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l frontend.query-stats-enabled -d 'Whether the server logs each query with its time and the bytes read for it. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l querier.max-outstanding-requests-per-tenant -d 'Another name of query_scheduler.max_outstanding_requests_per_tenant. [default: 32000]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ingester.max-chunk-age -d 'The server refuses entries that are older than the newest entry of their stream by more than half of this. [default: 2h]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l querier.tail-max-duration -d 'Longest time that a tail stays open. [default: 1h]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l querier.max-concurrent -d 'Queries that run at a time on the node. Further queries wait, and tenants take turns. Requests for labels, series and index statistics have a separate queue with the same number of places. 0 means 4 for each core; Loki has 4. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l querier.multi-tenant-queries-enabled -d 'Whether a query may read the data of several tenants. X-Scope-OrgID then names their ids, joined by vertical bars. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l querier.per-request-limits-enabled -d 'Whether the header X-Loki-Query-Limits makes the limits of a query stricter. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l pattern-ingester.enabled -d 'Whether the patterns endpoint answers. The server mines patterns only for a request, so they cost nothing until then. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l query-scheduler.max-outstanding-requests-per-tenant -d 'Most waiting queries of a tenant, and most waiting requests for labels, series and index statistics. The server refuses further ones with 429. 0 means no limit. [default: 32000]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l query-range.align-queries-with-step -d 'Whether range queries are evaluated at multiples of their step, instead of at start, start+step and so on. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l query-range.cache-results -d 'Whether a metric range query reuses the steps of the last answer to the same query whose entries have not changed. Loki\'s default is false. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.elasticsearch.version -d 'Version of Elasticsearch that clients are told. Some send only to versions that they know. [default: 8.17.0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.elasticsearch.index-label -d 'Label that gets the name of the index, without a date at its end. Empty means none. [default: index]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.elasticsearch.label-fields -d 'Fields of documents that become labels. The field c in the object b is b.c. A name alone is a field whose label has the same name. [default: host=host.name,service.name]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.elasticsearch.message-fields -d 'Fields for the line, in order of preference. A document without any of them is the line itself. [default: message,log,event.original,msg]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.elasticsearch.time-fields -d 'Fields for the time, in order of preference. A document without any of them gets the time of its arrival. [default: @timestamp]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.elasticsearch.ignored-fields -d 'Fields that are not kept. A star at the end of a name stands for any text. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.journald.labels -d 'Fields of journal entries that become labels. Of a unit that is made anew for each run, such as session-12.scope, the label has the kind, session.scope. The field PRIORITY_KEYWORD stands for the word of PRIORITY. [default: host=_HOSTNAME,unit=_SYSTEMD_UNIT,identifier=SYSLOG_IDENTIFIER]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.journald.dropped-fields -d 'Fields of journal entries that do not become structured metadata. Fields whose names begin with two underscores never do. [default: _BOOT_ID,_MACHINE_ID,_SYSTEMD_INVOCATION_ID,_SYSTEMD_CGROUP,_CAP_EFFECTIVE,_RUNTIME_SCOPE,_STREAM_ID,_SELINUX_CONTEXT,_SOURCE_REALTIME_TIMESTAMP,_SOURCE_MONOTONIC_TIMESTAMP,_SOURCE_BOOTTIME_TIMESTAMP,SYSLOG_TIMESTAMP,SYSLOG_RAW,COREDUMP]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.journald.source-time -d 'Whether _SOURCE_REALTIME_TIMESTAMP of a journal entry, which its sender names, counts rather than the time at which journald received the entry. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.journald.field-max-bytes -d 'Longest value of a field of a journal entry. A longer one is left out of the entry; a message has the limit of lines. [default: 4KB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.lines.label-fields -d 'Fields of objects that become labels. The field c in the object b is b.c. A name alone is a field whose label has the same name. [default: app,service.name]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.lines.message-fields -d 'Fields for the line, in order of preference. An object without any of them is the line itself. [default: _msg,message,msg,log]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.lines.time-fields -d 'Fields for the time, in order of preference. An object without any of them gets the time of its arrival. [default: _time,@timestamp,timestamp]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.lines.ignored-fields -d 'Fields that are not kept. A star at the end of a name stands for any text. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.external.url -d 'Address of Grafana, with which links in notifications begin. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.datasource-uid -d 'UID of this server\'s data source in Grafana, for links in notifications. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.external-labels -d 'Labels that notifications get if they have none of the name. The flag takes JSON. [default: {}]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.evaluation-interval -d 'Time between two evaluations of a group that names no interval. [default: 1m]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.poll-interval -d 'Time between two readings of rule files. Changes by the API apply at once. [default: 1m]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.evaluation.mode -d 'local or remote. Both mean that the cores of this node evaluate rules. [default: local]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.evaluation.max-jitter -d 'The evaluation of a rule begins up to so much later, by a delay of its own. [default: 0s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.evaluation.max-concurrent -d 'Most rules that are evaluated at a time on the node. 0 means 2 for each core. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.storage.type -d 'Old name of ruler_storage.backend. It wins if it is set. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.storage.local.directory -d 'Old name of ruler_storage.local.directory, for ruler.storage.type. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.rule-path -d 'Folder with which the label rule_group of metrics begins, as in Loki. The server writes no files there. [default: /rules]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-url -d 'Addresses of Alertmanagers, with commas between them. Each gets all alerts, at the path /api/v2/alerts below its address. Without an address no alerts are sent. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-discovery -d 'Whether the hosts of Alertmanagers are SRV records, such as _http._tcp.alertmanager.example. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-refresh-interval -d 'Time after which the names of Alertmanagers are looked up again. [default: 1m]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-use-v2 -d 'Alerts are sent by version 2 of Alertmanager\'s API, whatever the value. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alert-relabel-configs -d 'Relabelling rules of Prometheus for alerts that are sent. The flag takes JSON. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.notification-queue-capacity -d 'Most alerts of a tenant that wait to be sent. Of more, the oldest are dropped. [default: 10000]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.notification-timeout -d 'Longest request to an Alertmanager. [default: 10s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-client.tls-cert-path -d 'File with the certificate that is shown to Alertmanagers, as PEM. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-client.tls-key-path -d 'File with the private key of this certificate, as PEM. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-client.tls-ca-path -d 'File with the certificates of the issuers of Alertmanagers, as PEM. Empty means those that the system trusts. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-client.tls-server-name -d 'Name that the certificates of Alertmanagers must have. Empty means the host of the address. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-client.tls-insecure-skip-verify -d 'Whether any certificate of an Alertmanager will do. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-client.basic-auth-username -d 'User name for basic authentication. It wins over the one in the address. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-client.basic-auth-password -d 'Password for basic authentication. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-client.type -d 'Type of the credentials in the header Authorization. [default: Bearer]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-client.credentials -d 'Credentials in the header Authorization. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.alertmanager-client.credentials-file -d 'File with these credentials, which is read again while the server runs. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.for-outage-tolerance -d 'After a longer stop, pending alerts begin anew. [default: 1h]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.for-grace-period -d 'Shortest time that an alert stays pending after a start, if its rule has a longer for. [default: 10m]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.resend-delay -d 'Time after which an alert that still fires is sent again. [default: 1m]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.enable-api -d 'Whether rule groups can be listed, set and deleted by HTTP. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.enabled-tenants -d 'Tenants whose rules are evaluated. Empty means all. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.disabled-tenants -d 'Tenants whose rules are not evaluated. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.disable-rule-group-label -d 'Whether metrics of rule groups are summed up for each tenant, without the label rule_group. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.wal.max-age -d 'Recorded samples that have waited longer for a receiver are dropped. [default: 4h]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.wal.max-bytes -d 'Most bytes on the disk of a tenant\'s samples that wait for receivers. Of more, the oldest are dropped. [default: 1GB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.remote-write.enabled -d 'Whether the samples of recording rules, and those about alerts, are sent by Prometheus remote write. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.remote-write.client -d 'Old form of clients, for a single receiver. The flag takes JSON. [default: null]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.remote-write.clients -d 'Receivers by their ids, in the form of remote_write of Prometheus, see *Remote write*. Each gets all samples. The flag takes JSON. [default: {}]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler.remote-write.add-org-id-header -d 'Whether requests of remote write name the tenant in X-Scope-OrgID. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler-storage.backend -d 'Where rule groups are. filesystem: in the data folder; they are changed by HTTP. local: in the files <tenant>/<namespace> of a folder, which the server only reads. [default: filesystem]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l ruler-storage.local.directory -d 'Folder of rule files if backend is local. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.syslog.tcp-address -d 'Address and port where syslog messages are taken over TCP, like 0.0.0.0:601. Empty: they are not. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.syslog.tls-address -d 'Address and port where syslog messages are taken over TLS, like 0.0.0.0:6514, with the certificate and the rules of server.http_tls_config. Empty: they are not. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.syslog.udp-address -d 'Address and port where syslog messages are taken over UDP, like 0.0.0.0:514. Empty: they are not. Datagrams get lost without a word. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.syslog.tenant -d 'Tenant of all syslog messages. Empty: fake. It must be set if auth_enabled is. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.syslog.time-zone -d 'Zone of times in syslog messages that name none: a name like Asia/Almaty, or an offset like +05:00. Empty: UTC, whatever the zone of the machine is. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.syslog.labels -d 'Fields of syslog messages that become labels: host, app, facility, severity, level, pid, msgid, sender (the address of the sender), and names of parameters in structured data. [default: host,app,facility]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.syslog.idle-timeout -d 'A syslog connection without a message for so long is closed. 0: it stays open. [default: 1h]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.syslog.max-message-size -d 'Longest syslog message. A longer one is cut if limits_config.max_line_size_truncate is set, else refused. The connection stays. [default: 256KB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l intake.syslog.max-connections -d 'Most open syslog connections of the node. [default: 1024]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-line-size -d 'Longest line. 0 means the limit of the memory only: 56 MB, or half of the memory for recent entries. [default: 256KB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-line-size-truncate -d 'Whether longer lines are cut instead of refused. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-line-size-truncate-identifier -d 'The text at the end of a line that was cut. It counts as a part of the line. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.increment-duplicate-timestamp -d 'Whether to move an entry by 1ns if the previous entry in the same push has the same time and another line. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.discover-service-name -d 'Labels that name the service of a stream, in order of preference. The first of them that a stream has becomes its label service_name, unless the stream has that label already. A stream without any of them gets unknown_service. An empty list adds no label. [default: service,app,application,app_name,name,app_kubernetes_io_name,container,container_name,k8s_container_name,component,workload,job,k8s_job_name]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.discover-log-levels -d 'Whether every entry gets the structured metadata detected_level. Needs allow_structured_metadata. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.log-level-fields -d 'Names of labels, structured metadata and fields of JSON and logfmt lines that hold a level, in order of preference. [default: level,LEVEL,Level,log.level,severity,SEVERITY,Severity,SeverityText,lvl,LVL,Lvl,severity_text,Severity_Text,SEVERITY_TEXT]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.log-level-from-json-max-depth -d 'Depth of nested objects to which the server searches a JSON line for a level. 0 means no limit. [default: 2]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.block-ingestion-until -d 'Time until which the server refuses pushes, for example 2030-01-01T00:00:00Z. Empty or 0 refuses none. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.block-ingestion-status-code -d 'Status of the answer to a push that is refused until block_ingestion_until. 200 answers 204, as if the entries were stored. [default: 260]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.otlp-config -d 'The mapping of the attributes of OpenTelemetry logs, see *OpenTelemetry attributes*. The flag takes JSON. [default: {}]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.enforced-labels -d 'Labels that every stream must have. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ingestion-rate-mb -d 'MB of lines and structured metadata that a tenant may push in a second, over all cores. 0 means no limit; Loki has 4. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ingestion-burst-size-mb -d 'MB that a tenant may push at once if ingestion_rate_mb is set. A larger push never gets in. [default: 6]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-streams-per-user -d 'Most streams of a tenant that got entries in the last 30 minutes. 0 means no limit. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-global-streams-per-user -d 'Like max_streams_per_user, since there is one node; the smaller of the two limits counts. 0 means no limit; Loki has 5000. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.per-stream-rate-limit -d 'Lines and structured metadata that may be pushed to one stream in a second, over all cores. 0 means no limit; Loki has 3MB. [default: 0B]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.per-stream-rate-limit-burst -d 'Lines and structured metadata that may be pushed to one stream at once if per_stream_rate_limit is set. [default: 15MB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.reject-old-samples -d 'Whether entries older than reject_old_samples_max_age are refused. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.reject-old-samples-max-age -d 'Largest age of an entry if reject_old_samples is on. [default: 1w]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.creation-grace-period -d 'How far in the future the time of an entry may lie. 0 means no limit. [default: 10m]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-label-names-per-series -d 'Most labels of a stream. 0 means no limit. [default: 15]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-label-name-length -d 'Longest name of a label, in bytes. 0 means no limit. [default: 1024]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-label-value-length -d 'Longest value of a label, in bytes. 0 means no limit. [default: 2048]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.allow-structured-metadata -d 'Whether entries may carry structured metadata. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-structured-metadata-size -d 'Most bytes of names and values of the structured metadata of one entry. 0 means no limit. [default: 64KB]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-structured-metadata-entries-count -d 'Most pairs of structured metadata of one entry. 0 means no limit. [default: 128]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-entries-limit-per-query -d 'Most lines that a query may ask for. 0 means no limit. [default: 5000]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-query-series -d 'Most series that a metric query may produce. 0 means no limit. [default: 500]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-query-length -d 'Longest time range of a query. 0 means no limit. [default: 30d1h]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-query-lookback -d 'Largest age of entries that queries read. 0 means no limit. [default: 0s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.query-timeout -d 'Longest time that a query may run. 0 means no limit. [default: 1m]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-query-range -d 'Longest range of a range aggregation, in its brackets. 0 means no limit. [default: 0s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-query-bytes-read -d 'Most bytes of lines in the streams and time range of a query, counted before its filters. 0 means no limit. [default: 0B]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-querier-bytes-read -d 'Like max_query_bytes_read, for each node that takes part in a query. 0 means no limit; Loki has 150GB, for a part of one hour of the query. [default: 0B]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-streams-matchers-per-query -d 'Most matchers of a stream selector. 0 means no limit. [default: 1000]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.required-labels -d 'Labels that every stream selector of a range query must match. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.minimum-labels-number -d 'Fewest matchers that a stream selector of a range query must have. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.blocked-queries -d 'Queries that are refused. A rule names queries by hash (FNV-1 of the text, 32 bits), or else by pattern: the text of the query or, with regex: true, a regular expression for a part of it. A rule without both names all queries. Its types (metric, filter, limited) restrict it to queries of these types. The flag takes JSON. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-query-parallelism -d '0 forbids queries. Other values have no effect: tsdb_max_query_parallelism replaces them. [default: 32]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.tsdb-max-query-parallelism -d 'Most queries of the tenant that run at a time. 0 forbids queries. [default: 128]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.max-concurrent-tail-requests -d 'Most tails that a tenant may have open, over all cores. 0 means no limit. [default: 10]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.retention-period -d 'How long entries stay if compactor.retention_enabled is on, at least 24h. 0 means for ever. [default: 0s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.retention-stream -d 'Other periods for some streams. Each rule has a selector, a priority and a period of at least 24h. If several rules match a stream, the largest priority wins; among equal priorities, the shortest period. The flag takes JSON. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.allow-deletes -d 'Old name of deletion_mode, which wins: true means filter-and-delete, false means disabled. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.deletion-mode -d 'What delete requests do if compactor.retention_enabled is on. disabled: none can be made; those that are there go on hiding entries. filter-only: they hide entries. filter-and-delete: they hide entries, and remove them from the disk when compactor.delete_request_cancel_period is over. [default: disabled]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.volume-enabled -d 'Whether the volume endpoints answer. [default: true]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.volume-max-series -d 'Most series that an answer of the volume endpoints may have. 0 means no limit. [default: 1000]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-max-rules-per-rule-group -d 'Most rules of a group. 0 means no limit. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-max-rule-groups-per-tenant -d 'Most rule groups of a tenant. 0 means no limit. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-alertmanager-config -d 'Where the tenant\'s alerts go: the keys of ruler about Alertmanagers, from alertmanager_url to alertmanager_client. They replace those of ruler as a whole. The flag takes JSON. [default: null]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-evaluation-delay-duration -d 'How far before the time of an evaluation the queries of rules look, so that late entries count. A group\'s query_offset wins. [default: 0s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-disabled -d 'Whether the tenant\'s samples are not sent. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-url -d 'Address of all receivers. This key and the next ones replace the settings of each receiver; ruler_remote_write_config wins over them. [default: ]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-timeout -d 'Longest request. 0 means that of the receiver. [default: 0s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-headers -d 'Headers in place of those of the receivers. The flag takes JSON. [default: null]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-relabel-configs -d 'Relabelling rules in place of those of the receivers, also if the list is empty. The flag takes JSON. [default: null]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-queue-max-samples-per-send -d 'Most samples of a request. 0 means as the receiver has it. [default: 0]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-queue-batch-send-deadline -d 'How long a request waits for more samples. 0 means as the receiver has it. [default: 0s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-queue-min-backoff -d 'Pause after a failure, which each further failure doubles. 0 means as the receiver has it. [default: 0s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-queue-max-backoff -d 'Longest pause. 0 means as the receiver has it. [default: 0s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-queue-retry-on-ratelimit -d 'true: samples are sent again after an answer 429. false: as the receiver has it. [default: false]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-sigv4-config -d 'AWS signature of requests: region, access_key and secret_key. The flag takes JSON. [default: null]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.ruler-remote-write-config -d 'Settings of receivers by their ids, which replace single settings of the receiver. An id that ruler.remote_write lacks adds a receiver if it has a url. The flag takes JSON. [default: null]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.per-user-override-config -d 'Another name of runtime_config.file. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l limits.per-user-override-period -d 'Another name of runtime_config.period. [default: 10s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l runtime-config.file -d 'Files with the limits of single tenants. If several files set a key, the last file wins. The server reads them again while it runs. [default: []]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l runtime-config.reload-period -d 'Time between two readings of the files with the limits of single tenants. [default: 10s]' -r
complete -c logsvc -n "__fish_logsvc_needs_command" -l verify-config -d 'Check the settings, say whether they are valid, and exit'
complete -c logsvc -n "__fish_logsvc_needs_command" -l print-config-stderr -d 'Print the settings as YAML to the standard error before the start'
complete -c logsvc -n "__fish_logsvc_needs_command" -l list-targets -d 'List what --target can start, and exit: all parts are one process'
complete -c logsvc -n "__fish_logsvc_needs_command" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c logsvc -n "__fish_logsvc_needs_command" -s V -l version -d 'Print version'
complete -c logsvc -n "__fish_logsvc_needs_command" -f -a "check" -d 'Verify every checksum of a stopped store and explain what is found'
complete -c logsvc -n "__fish_logsvc_needs_command" -f -a "inspect" -d 'Print what a segment or the record of delete requests holds, or find a text'
complete -c logsvc -n "__fish_logsvc_needs_command" -f -a "health" -d 'Ask a running server whether it is alive, for health checks'
complete -c logsvc -n "__fish_logsvc_needs_command" -f -a "backup" -d 'Have a running server make a backup, in the folder backups of its data folder'
complete -c logsvc -n "__fish_logsvc_needs_command" -f -a "restore" -d 'Make a data folder out of a backup, and verify it'
complete -c logsvc -n "__fish_logsvc_needs_command" -f -a "export" -d 'Write all entries of a log query into a file of JSON lines, or into Parquet files'
complete -c logsvc -n "__fish_logsvc_needs_command" -f -a "import" -d 'Send the entries of files to a running server, whatever their age'
complete -c logsvc -n "__fish_logsvc_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c logsvc -n "__fish_logsvc_using_subcommand check" -l data-dir -d 'The data folder of a server that is stopped [default: ./data]' -r -F
complete -c logsvc -n "__fish_logsvc_using_subcommand check" -s h -l help -d 'Print help'
complete -c logsvc -n "__fish_logsvc_using_subcommand inspect" -l find -d 'Print which files hold the text, in lines, metadata, labels or bytes, and how often' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand inspect" -s h -l help -d 'Print help'
complete -c logsvc -n "__fish_logsvc_using_subcommand health" -l address -d 'Where the server listens' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand health" -l path -d 'What to ask for; /ready tells whether the server takes requests' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand health" -s h -l help -d 'Print help'
complete -c logsvc -n "__fish_logsvc_using_subcommand backup" -l server -d 'The running server; http:// alone, so on its own machine or through a proxy' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand backup" -l name -d 'The name of the backup [default: the time, such as 20261126T133825Z]' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand backup" -s h -l help -d 'Print help'
complete -c logsvc -n "__fish_logsvc_using_subcommand restore" -l from -d 'The folder of the backup' -r -F
complete -c logsvc -n "__fish_logsvc_using_subcommand restore" -l data-dir -d 'The data folder to be: empty, or not there yet' -r -F
complete -c logsvc -n "__fish_logsvc_using_subcommand restore" -s h -l help -d 'Print help'
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -l address -d 'The running server; http:// alone, so on its own machine or through a proxy' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -l tenant -d 'The tenant, where the server has several' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -l user -d 'The account, where the server asks for one' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -l password-file -d 'A file with the password of the account' -r -F
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -l token-file -d 'A file with a bearer token, instead of an account' -r -F
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -l query -d 'The log query, for example {app="shop"}' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -l start -d 'From this time on: RFC 3339, or seconds or ns since 1970' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -l end -d 'Up to this time, which is not in it' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -l format -d 'The form of the file; Parquet comes in parts: x.0001.parquet and so on' -r -f -a "ndjson\t''
parquet\t''"
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -l output -d 'The file, which must not be there yet; - stands for standard output' -r -F
complete -c logsvc -n "__fish_logsvc_using_subcommand export" -s h -l help -d 'Print help'
complete -c logsvc -n "__fish_logsvc_using_subcommand import" -l address -d 'The running server; http:// alone, so on its own machine or through a proxy' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand import" -l tenant -d 'The tenant, where the server has several' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand import" -l user -d 'The account, where the server asks for one' -r
complete -c logsvc -n "__fish_logsvc_using_subcommand import" -l password-file -d 'A file with the password of the account' -r -F
complete -c logsvc -n "__fish_logsvc_using_subcommand import" -l token-file -d 'A file with a bearer token, instead of an account' -r -F
complete -c logsvc -n "__fish_logsvc_using_subcommand import" -s h -l help -d 'Print help'
complete -c logsvc -n "__fish_logsvc_using_subcommand help; and not __fish_seen_subcommand_from check inspect health backup restore export import help" -f -a "check" -d 'Verify every checksum of a stopped store and explain what is found'
complete -c logsvc -n "__fish_logsvc_using_subcommand help; and not __fish_seen_subcommand_from check inspect health backup restore export import help" -f -a "inspect" -d 'Print what a segment or the record of delete requests holds, or find a text'
complete -c logsvc -n "__fish_logsvc_using_subcommand help; and not __fish_seen_subcommand_from check inspect health backup restore export import help" -f -a "health" -d 'Ask a running server whether it is alive, for health checks'
complete -c logsvc -n "__fish_logsvc_using_subcommand help; and not __fish_seen_subcommand_from check inspect health backup restore export import help" -f -a "backup" -d 'Have a running server make a backup, in the folder backups of its data folder'
complete -c logsvc -n "__fish_logsvc_using_subcommand help; and not __fish_seen_subcommand_from check inspect health backup restore export import help" -f -a "restore" -d 'Make a data folder out of a backup, and verify it'
complete -c logsvc -n "__fish_logsvc_using_subcommand help; and not __fish_seen_subcommand_from check inspect health backup restore export import help" -f -a "export" -d 'Write all entries of a log query into a file of JSON lines, or into Parquet files'
complete -c logsvc -n "__fish_logsvc_using_subcommand help; and not __fish_seen_subcommand_from check inspect health backup restore export import help" -f -a "import" -d 'Send the entries of files to a running server, whatever their age'
complete -c logsvc -n "__fish_logsvc_using_subcommand help; and not __fish_seen_subcommand_from check inspect health backup restore export import help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
