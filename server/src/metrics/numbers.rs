//! Metrics that are one number for each core and have no labels: one row for each.
//!
//! A row names the metric in the code, says whether it is a counter or a gauge, and has its name
//! and its help for scrapes. Scrapes list the rows in this order. Code that counts calls
//! [`Numbers::add`] or [`Numbers::set`] with the metric of the row.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Exposition, add};

macro_rules! numbers {
    ($($metric:ident $kind:literal $name:literal $help:literal;)+) => {
        /// A metric that is one number for each core.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Metric {
            $(#[doc = $help] $metric,)+
        }

        /// Kind, name and help, by [`Metric`].
        static ROWS: &[(&str, &str, &str)] = &[$(($kind, $name, $help)),+];
        const COUNT: usize = [$(Metric::$metric),+].len();
    };
}

numbers! {
    Connections "gauge" "loki_tcp_connections"
        "Open connections.";
    Tails "gauge" "loki_querier_tail_active"
        "Open tails.";
    ConnectionsRefused "counter" "logsvc_connections_refused_total"
        "Connections closed because there were too many.";
    QueriedBytes "counter" "logsvc_query_line_bytes_total"
        "Bytes of lines that queries looked at.";
    UnreadableParts "counter" "logsvc_query_unreadable_parts_total"
        "Damaged blocks and missing segments that queries had to leave out.";
    StreamCacheMisses "counter" "logsvc_stream_cache_misses_total"
        "Pushed streams whose labels had to be parsed.";
    QueriesShared "counter" "logsvc_queries_shared_total"
        "Queries answered by the run of an equal one.";
    ResultCacheHits "counter" "logsvc_result_cache_hits_total"
        "Metric range queries that took steps from the cache of answers.";
    ResultCacheMisses "counter" "logsvc_result_cache_misses_total"
        "Metric range queries that could have, but of which no step was there.";
    ResultCacheSteps "counter" "logsvc_result_cache_steps_total"
        "Steps that were taken from the cache of answers.";
    WindowPartsKept "counter" "logsvc_rule_window_parts_kept_total"
        "Parts of the windows of rules that were known from an evaluation before.";
    WindowPartsRead "counter" "logsvc_rule_window_parts_read_total"
        "Parts of the windows of rules that were read.";
    QueriesRefused "counter" "logsvc_queries_refused_total"
        "Queries and lookups refused because too many wait for their turn.";
    LaneFull "counter" "logsvc_lane_full_total"
        "Calls between cores refused because a lane was full.";
    TailedBytes "counter" "loki_querier_tail_bytes_total"
        "Bytes of frames that tails were sent.";
    SyslogConnections "gauge" "logsvc_syslog_connections"
        "Open syslog connections.";
    SyslogTcpMessages "counter" "logsvc_syslog_tcp_messages_total"
        "Syslog messages received over plain TCP.";
    SyslogTlsMessages "counter" "logsvc_syslog_tls_messages_total"
        "Syslog messages received over TLS.";
    SyslogUdpMessages "counter" "logsvc_syslog_udp_messages_total"
        "Syslog messages received over UDP.";
    SyslogUdpDropped "counter" "logsvc_syslog_udp_dropped_total"
        "Datagrams for syslog that the kernel dropped, because more came than the node could take.";
    SyslogNotParsed "counter" "logsvc_syslog_parse_failures_total"
        "Syslog messages that could not be parsed to their end, and were taken as lines.";
    SyslogNotUtf8 "counter" "logsvc_syslog_invalid_utf8_total"
        "Syslog messages with bytes that are not UTF-8, which were replaced.";
    SyslogCut "counter" "logsvc_syslog_messages_cut_total"
        "Syslog messages over the limit that were cut.";
    SyslogRetries "counter" "logsvc_syslog_retries_total"
        "Batches of syslog messages that had to be tried again.";
    SyslogGivenUp "counter" "logsvc_syslog_given_up_messages_total"
        "Syslog messages that were received and could not be stored in time.";
    TailMissed "counter" "logsvc_tail_missed_entries_total"
        "Entries that clients of tails were told to have missed, counted for each.";
    JournalFieldsLeftOut "counter" "logsvc_journal_fields_left_out_total"
        "Fields of journal entries that were too long or one too many, and left out.";
}

/// The numbers of one core, which only this core writes.
#[derive(Debug)]
pub(crate) struct Numbers([AtomicU64; COUNT]);

impl Numbers {
    /// All zero.
    pub(super) fn new() -> Numbers {
        Numbers([const { AtomicU64::new(0) }; COUNT])
    }

    /// Adds to a counter.
    pub(crate) fn add(&self, metric: Metric, more: u64) {
        add(&self.0[metric as usize], more);
    }

    /// Sets a gauge.
    pub(crate) fn set(&self, metric: Metric, value: u64) {
        self.0[metric as usize].store(value, Ordering::Relaxed);
    }
}

/// Writes the sums over all cores.
pub(super) fn expose<'n>(cores: impl Iterator<Item = &'n Numbers> + Clone, out: &mut Exposition) {
    for (row, (kind, name, help)) in ROWS.iter().enumerate() {
        let sum = cores.clone().map(|core| core.0[row].load(Ordering::Relaxed)).sum();
        out.single(name, kind, help, sum);
    }
}
