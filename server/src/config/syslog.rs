//! Listeners for syslog (`intake.syslog`). None listens unless its address is set.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};
use logsvc_proto::TenantId;

use super::LabelMap;

/// Shortest limit of messages.
const MESSAGE_MIN_BYTES: usize = 8 << 10;

/// Longest limit of messages: what a count of 7 digits can say.
const MESSAGE_MAX_BYTES: usize = 9_999_999;

/// See the module. An empty text is a setting that is not set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SyslogSettings {
    /// Where plain connections are taken.
    pub(crate) tcp_address: String,
    /// Where connections with TLS are taken.
    pub(crate) tls_address: String,
    /// Where datagrams are taken.
    pub(crate) udp_address: String,
    /// The tenant of all messages.
    pub(crate) tenant: String,
    /// The zone of stamps that name none.
    pub(crate) time_zone: String,
    /// Fields that become labels.
    pub(crate) labels: LabelMap,
    /// Longest time that a connection stays open without a message; 0: for ever.
    pub(crate) idle_timeout: Duration,
    /// Longest message.
    pub(crate) message_max_bytes: usize,
    /// Most open connections of the node.
    pub(crate) max_connections: usize,
}

impl Default for SyslogSettings {
    fn default() -> SyslogSettings {
        SyslogSettings {
            tcp_address: String::new(),
            tls_address: String::new(),
            udp_address: String::new(),
            tenant: String::new(),
            time_zone: String::new(),
            labels: LabelMap::default_of(&["host", "app", "facility"]),
            idle_timeout: Duration::from_secs(3600),
            message_max_bytes: 256 << 10,
            max_connections: 1024,
        }
    }
}

impl SyslogSettings {
    /// Where plain connections are taken, if they are.
    pub(crate) fn tcp(&self) -> Option<SocketAddr> {
        self.tcp_address.parse().ok()
    }

    /// Where connections with TLS are taken, if they are.
    pub(crate) fn tls(&self) -> Option<SocketAddr> {
        self.tls_address.parse().ok()
    }

    /// Where datagrams are taken, if they are.
    pub(crate) fn udp(&self) -> Option<SocketAddr> {
        self.udp_address.parse().ok()
    }

    /// The tenant of all messages.
    pub(crate) fn tenant(&self) -> Option<TenantId> {
        if self.tenant.is_empty() {
            return Some(TenantId::no_auth());
        }
        TenantId::new(&self.tenant).ok()
    }

    /// The zone of stamps that name none.
    ///
    /// # Errors
    /// There is no such zone.
    pub(crate) fn zone(&self) -> Result<TimeZone, String> {
        let name = self.time_zone.as_str();
        if name.is_empty() {
            return Ok(TimeZone::UTC);
        }
        if let Some(offset) = offset(name) {
            return Ok(TimeZone::fixed(offset));
        }
        let zone = TimeZoneDatabase::bundled().get(name);
        zone.map_err(|_| format!("{name:?} is neither a zone of the IANA data base nor an offset"))
    }

    /// Appends a text for each fault. `has_tls` says that the server has a certificate,
    /// `names_tenants` that every sender has to name its tenant.
    pub(super) fn check(&self, has_tls: bool, names_tenants: bool, errors: &mut Vec<String>) {
        let addresses = [
            ("tcp_address", &self.tcp_address),
            ("tls_address", &self.tls_address),
            ("udp_address", &self.udp_address),
        ];
        for (name, address) in addresses {
            let is_good = address.parse::<SocketAddr>().is_ok_and(|address| address.port() != 0);
            if !address.is_empty() && !is_good {
                errors.push(format!(
                    "intake.syslog.{name}: {address:?} is not an address with a port, like 0.0.0.0:601"
                ));
            }
        }
        if !self.tls_address.is_empty() && !has_tls {
            let text = "intake.syslog.tls_address: needs the certificate of \
                        server.http_tls_config";
            errors.push(text.to_owned());
        }
        let listens = addresses.iter().any(|(_, address)| !address.is_empty());
        if listens && names_tenants && self.tenant.is_empty() {
            errors.push("intake.syslog.tenant: must be set, as auth_enabled is".to_owned());
        }
        if let Some(error) = TenantId::new(&self.tenant).err().filter(|_| !self.tenant.is_empty()) {
            errors.push(format!("intake.syslog.tenant: {error}"));
        }
        if let Err(error) = self.zone() {
            errors.push(format!("intake.syslog.time_zone: {error}"));
        }
        if !(MESSAGE_MIN_BYTES..=MESSAGE_MAX_BYTES).contains(&self.message_max_bytes) {
            let text = "intake.syslog.max_message_size: must be 8KB to 9999999 bytes";
            errors.push(text.to_owned());
        }
    }
}

/// `+05:00`, `-0330`.
fn offset(text: &str) -> Option<Offset> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let digits: String = text[1..].chars().filter(|&c| c != ':').collect();
    let number = digits.parse::<i32>().ok().filter(|_| digits.len() == 4)?;
    Offset::from_seconds(sign * (number / 100 * 3600 + number % 100 * 60)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(settings: &SyslogSettings, has_tls: bool, names_tenants: bool) -> Vec<String> {
        let mut errors = Vec::new();
        settings.check(has_tls, names_tenants, &mut errors);
        errors
    }

    #[test]
    fn a_listener_needs_an_address_a_zone_and_where_they_are_checked_a_tenant() {
        let off = SyslogSettings::default();
        assert_eq!(faults(&off, false, true), [""; 0]);
        let on = SyslogSettings { tcp_address: "127.0.0.1:601".to_owned(), ..off.clone() };
        assert_eq!(faults(&on, false, false), [""; 0]);
        let found = faults(&on, false, true);
        assert_eq!(found, ["intake.syslog.tenant: must be set, as auth_enabled is"]);
        let udp = SyslogSettings { udp_address: "[::]:514".to_owned(), ..off.clone() };
        assert_eq!(faults(&udp, false, false), [""; 0]);
        assert_eq!(faults(&udp, false, true), found);
        let named = SyslogSettings { tenant: "net".to_owned(), ..on };
        assert_eq!(faults(&named, false, true), [""; 0]);
        let bad = SyslogSettings {
            tcp_address: ":601".to_owned(),
            tls_address: "127.0.0.1:0".to_owned(),
            udp_address: "localhost:514".to_owned(),
            tenant: "a/b".to_owned(),
            time_zone: "Mars/Olympus".to_owned(),
            message_max_bytes: 100,
            ..off
        };
        assert_eq!(faults(&bad, false, true).len(), 7, "{:?}", faults(&bad, false, true));
    }

    #[test]
    fn zones_are_names_or_offsets() {
        let offset_at = |name: &str| {
            let settings =
                SyslogSettings { time_zone: name.to_owned(), ..SyslogSettings::default() };
            let zone = settings.zone().expect("a zone");
            zone.to_offset(jiff::Timestamp::from_second(1_795_575_600).expect("a time")).seconds()
        };
        assert_eq!(offset_at(""), 0);
        assert_eq!(offset_at("Asia/Almaty"), 5 * 3600);
        assert_eq!(offset_at("-03:30"), -(3 * 3600 + 1800));
        assert_eq!(offset_at("+0100"), 3600);
    }
}
