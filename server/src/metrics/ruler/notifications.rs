//! Numbers of notifications, by tenant and Alertmanager.

use logsvc_rules::messages::{AlertmanagerNumbers, NotificationNumbers};

use super::super::exposition::Exposition;
use super::{TENANTS_MAX, family};

/// A metric of tenants: name, kind, help and value.
type TenantFamily = (&'static str, &'static str, &'static str, fn(&NotificationNumbers) -> u64);

/// A metric of Alertmanagers: name, help and value.
type ServerFamily = (&'static str, &'static str, fn(&AlertmanagerNumbers) -> u64);

const TENANT_FAMILIES: [TenantFamily; 4] = [
    (
        "loki_prometheus_notifications_dropped_total",
        "counter",
        "Alerts that an Alertmanager has not got.",
        |tenant| tenant.dropped,
    ),
    (
        "loki_prometheus_notifications_queue_length",
        "gauge",
        "Alerts that wait to be sent.",
        |tenant| tenant.queue_length,
    ),
    (
        "loki_prometheus_notifications_queue_capacity",
        "gauge",
        "Most alerts that may wait.",
        |tenant| tenant.queue_capacity,
    ),
    (
        "loki_prometheus_notifications_alertmanagers_discovered",
        "gauge",
        "Alertmanagers that are known.",
        |tenant| tenant.alertmanagers.len() as u64,
    ),
];

const SERVER_FAMILIES: [ServerFamily; 2] = [
    (
        "loki_prometheus_notifications_sent_total",
        "Alerts of requests to an Alertmanager, also of those that failed.",
        |server| server.sent + server.errors,
    ),
    (
        "loki_prometheus_notifications_errors_total",
        "Alerts of requests to an Alertmanager that failed.",
        |server| server.errors,
    ),
];

pub(super) fn expose(tenants: &[NotificationNumbers], out: &mut Exposition) {
    let tenants = &tenants[..tenants.len().min(TENANTS_MAX)];
    for (name, kind, help, read) in TENANT_FAMILIES {
        family(out, (name, kind, help), tenants, |tenant, sample| {
            sample(&[("user", tenant.tenant.as_str())], read(tenant) as f64);
        });
    }
    for (name, help, read) in SERVER_FAMILIES {
        family(out, (name, "counter", help), tenants, |tenant, sample| {
            for server in &tenant.alertmanagers {
                let labels = [("user", tenant.tenant.as_str()), ("alertmanager", &*server.address)];
                sample(&labels, read(server) as f64);
            }
        });
    }
    let name = "loki_prometheus_notifications_latency_seconds";
    out.family(name, "summary", "How long requests to an Alertmanager took.");
    for tenant in tenants {
        for server in &tenant.alertmanagers {
            let labels = [("user", tenant.tenant.as_str()), ("alertmanager", &*server.address)];
            out.sample(&format!("{name}_sum"), &labels, server.latency.as_secs_f64());
            out.sample(&format!("{name}_count"), &labels, server.requests as f64);
        }
    }
}
