//! The rows of the settings of syslog.

use super::{Field, Setting};

/// Settings of the node.
pub(super) const NODE: &[Setting] = settings! {
    "intake.syslog.tcp_address", "intake.syslog.tcp-address",
        |c| Text(&mut c.syslog.tcp_address),
        "Address and port where syslog messages are taken over TCP, like 0.0.0.0:601. Empty: they \
         are not.";
    "intake.syslog.tls_address", "intake.syslog.tls-address",
        |c| Text(&mut c.syslog.tls_address),
        "Address and port where syslog messages are taken over TLS, like 0.0.0.0:6514, with the \
         certificate and the rules of server.http_tls_config. Empty: they are not.";
    "intake.syslog.udp_address", "intake.syslog.udp-address",
        |c| Text(&mut c.syslog.udp_address),
        "Address and port where syslog messages are taken over UDP, like 0.0.0.0:514. Empty: they \
         are not. Datagrams get lost without a word.";
    "intake.syslog.tenant", "intake.syslog.tenant",
        |c| Text(&mut c.syslog.tenant),
        "Tenant of all syslog messages. Empty: fake. It must be set if auth_enabled is.";
    "intake.syslog.time_zone", "intake.syslog.time-zone",
        |c| Text(&mut c.syslog.time_zone),
        "Zone of times in syslog messages that name none: a name like Asia/Almaty, or an offset \
         like +05:00. Empty: UTC, whatever the zone of the machine is.";
    "intake.syslog.labels", "intake.syslog.labels",
        |c| Labels(&mut c.syslog.labels),
        "Fields of syslog messages that become labels: host, app, facility, severity, level, pid, \
         msgid, sender (the address of the sender), and names of parameters in structured data.";
    "intake.syslog.idle_timeout", "intake.syslog.idle-timeout",
        |c| Duration(&mut c.syslog.idle_timeout),
        "A syslog connection without a message for so long is closed. 0: it stays open.";
    "intake.syslog.max_message_size", "intake.syslog.max-message-size",
        |c| MemoryBytes(&mut c.syslog.message_max_bytes),
        "Longest syslog message. A longer one is cut if limits_config.max_line_size_truncate is \
         set, else refused. The connection stays.";
    "intake.syslog.max_connections", "intake.syslog.max-connections",
        |c| Count(&mut c.syslog.max_connections),
        "Most open syslog connections of the node.";
};
