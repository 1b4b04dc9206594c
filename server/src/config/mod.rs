//! Settings: one value for all parts of the server, from the YAML file and the flags.
//!
//! Guarantees: every setting is one row of [`table`], which names its path in the file, its
//! flag, its help and the field that it sets. Reading the file, the flags, the documentation
//! and the printed defaults all use these rows. A flag overrides the file. A [`Config`] that
//! [`load`] returns is complete and checked.
//!
//! What can go wrong: the file is not readable or not YAML, values are bad, or keys are unknown.
//! All such faults are reported together. Keys that only the reference has are no error:
//! [`Loaded::ignored_keys`] names them.

mod access;
mod advice;
mod blocked;
mod bucket;
mod cgroup;
mod check;
mod choice;
mod cluster;
mod deletion;
mod elasticsearch;
#[cfg(test)]
mod example;
mod expand;
mod field;
mod file;
mod foreign;
mod journald;
mod label_map;
pub(crate) mod limits;
mod lines;
mod machine;
mod nearest;
mod otlp;
pub(crate) mod print;
#[cfg(test)]
mod reference;
pub(crate) mod retention;
pub(crate) mod ruler;
mod runtime_file;
#[cfg(test)]
mod schema;
mod stream_retention;
mod syslog;
pub(crate) mod table;
pub(crate) mod targets;
mod tenants;
#[cfg(test)]
mod tests;
mod tls;
mod yaml;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use logsvc_runtime::monoio_backend::MonoioDriver;
use logsvc_shards::wal::SyncPolicy;

pub(crate) use access::AccessConfig;
pub(crate) use advice::advice;
pub(crate) use blocked::BlockedQueries;
pub(crate) use bucket::{BucketConfig, BucketSettings, Durability, Environment};
pub(crate) use choice::{Choice, LogFormat, LogLevel, RateStrategy, RuntimeChoice};
#[cfg(feature = "tls")]
pub(crate) use cluster::ClientTlsConfig;
pub(crate) use cluster::{ClusterConfig, ClusterSettings, ClusterTls};
pub(crate) use deletion::DeletionMode;
pub(crate) use elasticsearch::ElasticsearchSettings;
pub(crate) use field::sync_text;
pub(crate) use file::IgnoredKey;
pub(crate) use foreign::{flag_alias, flag_reason};
pub(crate) use journald::JournaldSettings;
pub(crate) use label_map::LabelMap;
pub(crate) use limits::Limits;
pub(crate) use lines::LinesSettings;
pub(crate) use machine::{Machine, user};
pub(crate) use otlp::{OtlpConfig, OtlpRules};
pub(crate) use ruler::{NEEDED_FILE_MAX_BYTES, RulerLimits, RulerSettings};
pub(crate) use runtime_file::{RuntimeFiles, sha256};
pub(crate) use stream_retention::StreamRetention;
pub(crate) use syslog::SyslogSettings;
pub(crate) use targets::Parts;
pub(crate) use tenants::{LimitsOfTenants, LimitsView, TenantLimits};
pub(crate) use tls::{TlsAcceptor, TlsConfig};
pub(crate) use yaml::TEXT_MAX_BYTES as FILE_MAX_BYTES;

/// All settings of a node. Plain data; sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// Names of the parts that a node of a cluster has, with commas between them.
    pub(crate) target: String,
    /// Whether `read` has the parts of `backend`, too.
    pub(crate) legacy_read_mode: bool,
    /// Where the HTTP interface listens; port 0 lets the kernel choose.
    pub(crate) http_address: SocketAddr,
    /// Longest time to receive a whole request.
    pub(crate) http_read_timeout: Duration,
    /// Longest time in which the client takes none of an answer.
    pub(crate) http_write_timeout: Duration,
    /// Longest time that a connection stays open without a request.
    pub(crate) http_idle_timeout: Duration,
    /// How long a stop waits for requests under way.
    pub(crate) graceful_stop_timeout: Duration,
    /// Most open connections; 0 follows from memory and the limit of open files.
    pub(crate) http_listen_conn_limit: usize,
    /// Whether and how the HTTP interface speaks TLS.
    pub(crate) tls: TlsConfig,
    /// Who may use the HTTP interface.
    pub(crate) access: AccessConfig,
    /// Lines less severe than this are not logged.
    pub(crate) log_level: LogLevel,
    /// How log lines are written.
    pub(crate) log_format: LogFormat,
    /// Which requests and queries are logged.
    pub(crate) request_log: RequestLog,
    /// Whether requests must name their tenant.
    pub(crate) auth_enabled: bool,
    /// The folder of all data.
    pub(crate) data_dir: PathBuf,
    /// Number of cores, and so of shards.
    pub(crate) cores: u16,
    /// Which backend runs the cores.
    pub(crate) runtime: RuntimeChoice,
    /// Which driver the monoio backend uses.
    pub(crate) io_driver: MonoioDriver,
    /// Memory that all budgets share.
    pub(crate) memory_max_bytes: u64,
    /// Memory for request bodies in flight; follows from `memory_max_bytes`.
    pub(crate) body_budget_bytes: u64,
    /// Memory for entries that are not in segments; follows from `memory_max_bytes`.
    pub(crate) heads_budget_bytes: u64,
    /// Memory for streams, besides their entries; follows from `memory_max_bytes`.
    pub(crate) stream_budget_bytes: u64,
    /// Memory in which the fronts of all cores together remember to which streams pushed labels
    /// resolve; follows from `memory_max_bytes`.
    pub(crate) resolved_budget_bytes: u64,
    /// Memory for directories of segments; follows from `memory_max_bytes`.
    pub(crate) directory_budget_bytes: u64,
    /// Memory for results of queries; follows from `memory_max_bytes`.
    pub(crate) query_budget_bytes: u64,
    /// Memory for decoded blocks of segments; follows from `memory_max_bytes`.
    pub(crate) cache_budget_bytes: u64,
    /// Memory for answers that are kept to be used again; follows from `memory_max_bytes`.
    pub(crate) result_budget_bytes: u64,
    /// Memory for entries on their way to tails; follows from `memory_max_bytes`.
    pub(crate) tail_budget_bytes: u64,
    /// Entries of a core are sealed when they take this much memory; 0 follows from
    /// `memory_max_bytes`.
    pub(crate) head_max_bytes: u64,
    /// Entries are sealed when they have been in memory for this long.
    pub(crate) head_max_age: Duration,
    /// Whether small segments are merged.
    pub(crate) compaction_enabled: bool,
    /// Whether entries are removed from the disk when their period is over or when a request for
    /// deletion says so, and whether there can be such requests.
    pub(crate) retention_enabled: bool,
    /// How long a request for deletion can be cancelled.
    pub(crate) delete_cancel_period: Duration,
    /// How long objects of a cluster stay when no node needs them any more.
    pub(crate) retention_delete_delay: Duration,
    /// Longest part of a request for deletion; 0: any.
    pub(crate) delete_max_interval_ns: i64,
    /// Most requests for deletion that are worked on at a time.
    pub(crate) delete_batch_size: usize,
    /// Whether to start without the content of files that another version has written.
    pub(crate) ignore_unknown_versions: bool,
    /// Most bytes of segments on the disk; 0: no limit.
    pub(crate) retention_max_disk_bytes: u64,
    /// Most percent of the file system that segments may take; 0: no limit.
    pub(crate) retention_max_disk_percent: u16,
    /// The write-ahead log.
    pub(crate) wal: WalSettings,
    /// The bucket that is the store, as the settings have it.
    pub(crate) storage: BucketSettings,
    /// The bucket that is the store; follows from `storage` and the environment. `None`:
    /// everything is in the data folder.
    pub(crate) bucket: Option<BucketConfig>,
    /// The nodes that share the bucket, as the settings have them.
    pub(crate) cluster_keys: ClusterSettings,
    /// The node among those that share the bucket; follows from `cluster_keys` and the environment.
    /// `None`: there is one node. With one there is a bucket, and entries are there before a push is
    /// answered.
    pub(crate) cluster: Option<ClusterConfig>,
    /// Attributes of OpenTelemetry resources that are labels for all tenants.
    pub(crate) otlp_index_labels: Vec<String>,
    /// Longest push body as sent.
    pub(crate) push_body_max_bytes: u64,
    /// Longest push body once decompressed.
    pub(crate) push_decompressed_max_bytes: u64,
    /// Longest body of any other request.
    pub(crate) form_body_max_bytes: u64,
    /// An entry may be this much older than the newest one of its stream, in ns.
    pub(crate) out_of_order_window_ns: i64,
    /// Longest time that a tail stays open.
    pub(crate) tail_max_duration: Duration,
    /// Files with the limits of single tenants. If several files set a key, the last file wins.
    pub(crate) runtime_files: Vec<String>,
    /// Time between two readings of these files.
    pub(crate) runtime_reload_period: Duration,
    /// Whether the evaluation points of range queries are multiples of the step.
    pub(crate) align_queries_with_step: bool,
    /// Whether the steps of metric range queries are used again.
    pub(crate) cache_results: bool,
    /// Whether the patterns endpoint answers.
    pub(crate) patterns_enabled: bool,
    /// Queries that run at a time, and as many lookups; follows from `cores` if it is 0.
    pub(crate) max_concurrent_queries: usize,
    /// Most requests of a tenant that wait for their turn; 0: any number.
    pub(crate) max_outstanding_per_tenant: usize,
    /// Whether a query may read the data of several tenants.
    pub(crate) multi_tenant_queries_enabled: bool,
    /// Whether a request may make the limits of its tenant stricter.
    pub(crate) per_request_limits_enabled: bool,
    /// The limits of tenants without limits of their own; [`TenantLimits`] has the limits of each
    /// tenant.
    pub(crate) limits: Limits,
    /// Elasticsearch's bulk protocol.
    pub(crate) elasticsearch: ElasticsearchSettings,
    /// Plain lines and newline-delimited JSON.
    pub(crate) lines: LinesSettings,
    /// Rules, alerts and recorded samples.
    pub(crate) ruler: RulerSettings,
    /// Entries of journals.
    pub(crate) journald: JournaldSettings,
    /// Listeners for syslog.
    pub(crate) syslog: SyslogSettings,
    /// `ingester.max_chunk_age`, which `out_of_order_window_ns` is half of.
    pub(crate) max_chunk_age_ns: i64,
}

/// Which requests and queries are logged besides those that are refused or fail.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RequestLog {
    /// Whether each request is logged at the usual level.
    pub(crate) requests: bool,
    /// Queries that take longer are logged, in ns; 0: none for this reason; below 0: all.
    pub(crate) queries_longer_than_ns: i64,
    /// Whether each query is logged with what it cost.
    pub(crate) query_stats: bool,
}

/// Settings of the write-ahead log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WalSettings {
    /// When commits reach stable storage.
    pub(crate) sync: SyncPolicy,
    /// Where an entry is when its push is answered.
    pub(crate) durability: Durability,
    /// A file is closed once it is at least this long.
    pub(crate) file_max_bytes: u64,
    /// Entries are sealed so early that the log of the node stays below this.
    pub(crate) max_bytes: u64,
    /// Whether a stop writes everything to segments.
    pub(crate) flush_on_shutdown: bool,
}

/// Bytes of a head that is sealed, on a machine with enough memory. Larger segments compress no
/// better and take more memory; smaller ones leave more to compaction.
const HEAD_MAX_BYTES: u64 = 24 << 20;

/// A core gets memory for at most so many full heads: one that is sealed, the next one, and as much
/// again for the delays of the disk.
const HEADS_PER_CORE: u64 = 4;

/// Why no part can be left out.
const ONE_PROCESS: &str = "a node that is not one of a cluster has all parts";

/// Queries that run at a time for each core. All cores work on every query, so more queries only
/// share the same CPU time; this number is enough to have work while some queries wait for the
/// disk.
const QUERIES_PER_CORE: usize = 4;

const HOUR_NS: i64 = 3_600_000_000_000;

impl Default for Config {
    /// The settings of a node without file and flags. `cores`, `memory_max_bytes` and all fields
    /// that follow from it are still 0: they depend on the machine.
    fn default() -> Config {
        Config {
            target: "all".to_owned(),
            legacy_read_mode: false,
            http_address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 3100),
            http_read_timeout: Duration::from_secs(30),
            http_write_timeout: Duration::from_secs(30),
            http_idle_timeout: Duration::from_secs(120),
            graceful_stop_timeout: Duration::from_secs(30),
            http_listen_conn_limit: 0,
            access: AccessConfig::default(),
            tls: TlsConfig::default(),
            log_level: LogLevel::Info,
            log_format: LogFormat::Text,
            request_log: RequestLog::default(),
            auth_enabled: false,
            data_dir: PathBuf::from("./data"),
            cores: 0,
            runtime: RuntimeChoice::Monoio,
            io_driver: MonoioDriver::Auto,
            memory_max_bytes: 0,
            body_budget_bytes: 0,
            heads_budget_bytes: 0,
            stream_budget_bytes: 0,
            resolved_budget_bytes: 0,
            directory_budget_bytes: 0,
            query_budget_bytes: 0,
            cache_budget_bytes: 0,
            result_budget_bytes: 0,
            tail_budget_bytes: 0,
            head_max_bytes: 0,
            head_max_age: Duration::from_secs(30 * 60),
            ignore_unknown_versions: false,
            compaction_enabled: true,
            retention_enabled: false,
            delete_cancel_period: Duration::from_secs(24 * 3600),
            retention_delete_delay: Duration::from_secs(2 * 3600),
            delete_max_interval_ns: 24 * HOUR_NS,
            delete_batch_size: 70,
            retention_max_disk_bytes: 0,
            retention_max_disk_percent: 0,
            wal: WalSettings {
                sync: SyncPolicy::Always,
                durability: Durability::Local,
                file_max_bytes: 256 << 20,
                max_bytes: 512 << 20,
                flush_on_shutdown: true,
            },
            storage: BucketSettings::default(),
            bucket: None,
            cluster_keys: ClusterSettings::default(),
            cluster: None,
            otlp_index_labels: otlp::DEFAULT_INDEX_LABELS.map(str::to_owned).to_vec(),
            push_body_max_bytes: 100 << 20,
            push_decompressed_max_bytes: 5_242_880_000,
            form_body_max_bytes: 10 << 20,
            out_of_order_window_ns: HOUR_NS,
            tail_max_duration: Duration::from_secs(3600),
            runtime_files: Vec::new(),
            runtime_reload_period: Duration::from_secs(10),
            align_queries_with_step: false,
            cache_results: true,
            patterns_enabled: true,
            max_concurrent_queries: 0,
            max_outstanding_per_tenant: 32_000,
            multi_tenant_queries_enabled: false,
            per_request_limits_enabled: false,
            limits: Limits::default(),
            elasticsearch: ElasticsearchSettings::default(),
            lines: LinesSettings::default(),
            ruler: RulerSettings::default(),
            journald: JournaldSettings::default(),
            syslog: SyslogSettings::default(),
            max_chunk_age_ns: 2 * HOUR_NS,
        }
    }
}

impl Config {
    /// What the node does.
    pub(crate) fn parts(&self) -> Parts {
        self.cluster.as_ref().map_or(targets::ALL, |cluster| cluster.parts)
    }

    /// Fills in the settings that depend on the machine or follow from other settings.
    fn complete(&mut self, machine: &Machine) -> Result<(), String> {
        if self.cores == 0 {
            self.cores = machine.cores.max(1);
        }
        if self.memory_max_bytes == 0 {
            let memory_bytes = machine.memory_bytes.clone();
            self.memory_max_bytes =
                memory_bytes.map_err(|error| format!("memory.max_bytes: set it, {error}"))? / 4;
        }
        // The rest is for small things, and for the allocator's overhead.
        let quarter = self.memory_max_bytes / 4;
        // More heads than these are of no use: the cache gets the rest of their share.
        let head_bytes = self.head_max_bytes.max(HEAD_MAX_BYTES);
        let heads_max_bytes = head_bytes.saturating_mul(HEADS_PER_CORE * u64::from(self.cores));
        self.heads_budget_bytes = (quarter / 4 * 3).min(heads_max_bytes);
        self.stream_budget_bytes = quarter / 4 * 3;
        self.query_budget_bytes = quarter / 4 * 3;
        self.resolved_budget_bytes = quarter / 4;
        let cache_bytes = quarter / 4 * 5 - self.heads_budget_bytes;
        self.result_budget_bytes = cache_bytes / 16;
        self.cache_budget_bytes = cache_bytes - self.result_budget_bytes;
        self.directory_budget_bytes = quarter / 4;
        self.tail_budget_bytes = quarter / 8;
        // The longest body that is permitted should get in, also on small machines.
        self.body_budget_bytes = self.push_body_max_bytes.clamp(quarter / 2, quarter);
        if self.head_max_bytes == 0 {
            // While one generation is being sealed the next one gets as large before pushes have to
            // wait, and entries on their way at that time need room too.
            let share = self.heads_budget_bytes / (3 * u64::from(self.cores));
            self.head_max_bytes = share.min(HEAD_MAX_BYTES);
        }
        if self.max_concurrent_queries == 0 {
            self.max_concurrent_queries = QUERIES_PER_CORE * usize::from(self.cores);
        }
        self.out_of_order_window_ns = self.max_chunk_age_ns / 2;
        self.storage.complete(self.wal.durability);
        Ok(())
    }
}

/// The result of [`load`].
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The settings.
    pub(crate) config: Config,
    /// The limits of all tenants.
    pub(crate) limits: LimitsOfTenants,
    /// Keys of the files that mean nothing here, in their order.
    pub(crate) ignored_keys: Vec<IgnoredKey>,
    /// Paths of the settings that the file or flags have given.
    pub(crate) given: Vec<&'static str>,
}

/// What the settings were read from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// The YAML file.
    pub(crate) file: Option<PathBuf>,
    /// Whether variables of the environment in the file are replaced.
    pub(crate) expands_env: bool,
    /// Settings that were given as flags.
    pub(crate) flags: Vec<GivenFlag>,
    /// Paths of the settings that the file or flags have given.
    pub(crate) given: Vec<&'static str>,
    /// The machine that values follow from; `None` if there are no files to read again.
    pub(crate) machine: Option<Machine>,
}

impl Origin {
    /// Reads the same again; `None` if there is nothing to read.
    pub(crate) fn load(&self) -> Option<Result<Loaded, ConfigErrors>> {
        let machine = self.machine.as_ref()?;
        Some(load(self.file.as_deref(), self.expands_env, &self.flags, machine))
    }
}

/// Everything that is wrong with the settings, one text for each fault.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) struct ConfigErrors(pub(crate) Vec<String>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [error] = &*self.0 {
            return write!(f, "config error: {error}");
        }
        f.write_str("MULTIPLE CONFIG ERRORS FOUND, PLEASE READ CAREFULLY")?;
        self.0.iter().try_for_each(|error| write!(f, "\n{error}"))
    }
}

/// A flag that was given: its row in [`table::SETTINGS`] and its value.
pub(crate) type GivenFlag = (&'static table::Setting, String);

/// Reads the file at `path`, if any, with variables of the environment if `expands_env`, then
/// `flags`. Checks the settings, and reads the files with the limits of tenants.
pub(crate) fn load(
    path: Option<&Path>,
    expands_env: bool,
    flags: &[GivenFlag],
    machine: &Machine,
) -> Result<Loaded, ConfigErrors> {
    let mut text = match path {
        Some(path) => file::read_first(path).map_err(|error| ConfigErrors(vec![error]))?,
        None => String::new(),
    };
    let lookup =
        |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    if expands_env {
        text = expand::expand(&text, &lookup).map_err(|error| ConfigErrors(vec![error]))?;
    }
    let environment =
        Environment { variable: &lookup, file: &file::read_small, now_s: bucket::now_s() };
    let (config, mut ignored_keys) = load_in(&text, flags, machine, &environment)?;
    let texts = config.runtime_files.iter().map(|path| file::read(Path::new(path)));
    let texts: Vec<String> =
        texts.collect::<Result<_, String>>().map_err(|error| ConfigErrors(vec![error]))?;
    let files = RuntimeFiles::parse(&texts, &config.limits).map_err(ConfigErrors)?;
    let mut errors = config.ruler.tenant_faults(&files.limits.of_rules());
    config.ruler.check_files(&files.limits.of_rules(), &mut errors);
    if !errors.is_empty() {
        return Err(ConfigErrors(errors));
    }
    ignored_keys.extend(files.ignored_keys);
    let mut given: Vec<&str> = flags.iter().map(|(setting, _)| setting.path).collect();
    if let Ok(keys) = file::parse(&text) {
        given.extend(keys.known.iter().map(|(setting, _)| setting.path));
    }
    Ok(Loaded { config, limits: files.limits, ignored_keys, given })
}

/// [`load_in`] with an empty environment.
#[cfg(test)]
fn load_text(
    text: &str,
    flags: &[GivenFlag],
    machine: &Machine,
) -> Result<(Config, Vec<IgnoredKey>), ConfigErrors> {
    load_in(text, flags, machine, &Environment::empty())
}

/// The settings that the text of a file and flags give in an environment, and the keys of the file
/// that mean nothing here.
fn load_in(
    text: &str,
    flags: &[GivenFlag],
    machine: &Machine,
    environment: &Environment<'_>,
) -> Result<(Config, Vec<IgnoredKey>), ConfigErrors> {
    let keys = file::parse(text).map_err(|error| ConfigErrors(vec![error]))?;
    let mut config = Config::default();
    let mut errors = file::unknown_texts(&keys.unknown);
    errors.extend(keys.errors);
    let mut ignored = keys.ignored;
    // In the order of the table, not of the file: later rows may refine earlier ones.
    for (setting, value) in &keys.known {
        // A flag replaces the value of the file, also a bad one.
        if flags.iter().any(|(given, _)| given.path == setting.path) {
            continue;
        }
        if let Err(error) = setting.field(&mut config).set(value) {
            errors.push(format!("{}: {error}", setting.path));
        }
    }
    for (setting, value) in flags {
        if let Err(error) = setting.field(&mut config).set(value) {
            errors.push(format!("--{}: {error}", setting.flag));
        }
    }
    let of_file = keys.known.iter().map(|(setting, _)| setting.path);
    let given: Vec<&str> = of_file.chain(flags.iter().map(|(setting, _)| setting.path)).collect();
    cluster::prepare(&mut config, &given);
    match config.complete(machine) {
        Ok(()) => check::check(&config, &mut errors),
        Err(error) => errors.push(error),
    }
    errors.extend(cluster::tokens(&config, &given));
    let mut vain = Vec::new();
    let (is_readable, told) = (!bucket::is_unread(&errors), errors.len());
    config.bucket = bucket::decide(&config, environment, &mut errors, &mut vain);
    let is_bucket_known = is_readable && errors.len() == told;
    let changed = print::changed(&Config::default(), &config);
    let said = cluster::Said { given: &given, changed: &changed };
    config.cluster =
        cluster::decide(&config, &said, is_bucket_known, environment, &mut errors, &mut vain);
    ignored.extend(vain.into_iter().map(|(path, reason)| IgnoredKey { path, reason }));
    if config.cluster.is_none() && config.target != Config::default().target {
        ignored.push(IgnoredKey { path: "target".to_owned(), reason: ONE_PROCESS });
    }
    let ruler = config.ruler.without_effect().into_iter();
    ignored.extend(ruler.map(|(path, reason)| IgnoredKey { path: path.to_owned(), reason }));
    if errors.is_empty() { Ok((config, ignored)) } else { Err(ConfigErrors(errors)) }
}
