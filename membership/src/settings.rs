//! What an operator may say about membership: the keys of `memberlist`, with the defaults of the
//! reference, and some times that the reference does not let anybody set.

use std::net::IpAddr;
use std::time::Duration;

use crate::join_address::{JoinAddress, JoinAddressError};

/// How many members a node knows at most, dead ones included. More are refused, so nobody can fill
/// the memory with invented members.
pub const MEMBERS_MAX: usize = 1_024;

/// Longest cluster label in bytes.
pub const LABEL_MAX_BYTES: usize = 255;

/// Most nodes to which news go at a time.
const GOSSIP_NODES_MAX: usize = 64;

/// Settings of membership. Fields have the names of the keys of `memberlist`, unless they say
/// otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The addresses on which to listen, for UDP and for TCP; all of IPv4 if there are none.
    pub bind_addr: Vec<IpAddr>,
    /// The port for both.
    pub bind_port: u16,
    /// The address that others use. `None`: the first of `bind_addr`, if that is not the one
    /// that stands for all.
    pub advertise_addr: Option<IpAddr>,
    /// The port that others use; 0: that on which this node listens.
    pub advertise_port: u16,
    /// Messages with another label are refused.
    pub cluster_label: String,
    /// Takes messages with any label, for the time in which a label is introduced.
    pub cluster_label_verification_disabled: bool,
    /// Whom to join, and how.
    pub join: JoinSettings,
    /// How members are found dead.
    pub probes: ProbeSettings,
    /// How long it is remembered that a member has left.
    pub left_ingesters_timeout: Duration,
    /// How long leaving may take.
    pub leave_timeout: Duration,
    /// How often news are sent on while there are some.
    pub gossip_interval: Duration,
    /// To how many members at a time.
    pub gossip_nodes: usize,
    /// How often whole states are exchanged with a random member; zero: never.
    pub pull_push_interval: Duration,
    /// The longest attempt to connect to a member.
    pub packet_dial_timeout: Duration,
    /// The longest exchange of states over a connection.
    pub stream_timeout: Duration,
    /// How often a member repeats its vitals (`heartbeat_period` of rings).
    pub heartbeat_period: Duration,
    /// A dead member is forgotten three times as long after its last sign of life
    /// (`heartbeat_timeout` of rings).
    pub heartbeat_timeout: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            bind_addr: Vec::new(),
            bind_port: 7946,
            advertise_addr: None,
            advertise_port: 0,
            cluster_label: String::new(),
            cluster_label_verification_disabled: false,
            join: JoinSettings::default(),
            probes: ProbeSettings::default(),
            left_ingesters_timeout: Duration::from_secs(5 * 60),
            leave_timeout: Duration::from_secs(20),
            gossip_interval: Duration::from_millis(200),
            gossip_nodes: 3,
            pull_push_interval: Duration::from_secs(30),
            packet_dial_timeout: Duration::from_secs(2),
            stream_timeout: Duration::from_secs(10),
            heartbeat_period: Duration::from_secs(15),
            heartbeat_timeout: Duration::from_secs(60),
        }
    }
}

/// Whom to join, and how: more keys of `memberlist`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinSettings {
    /// Members to ask to be let in; none: others come by themselves.
    pub join_members: Vec<String>,
    /// The first pause after a failed attempt to join; it doubles.
    pub min_join_backoff: Duration,
    /// The longest pause, and how often an address at which no member is known is tried later on.
    pub max_join_backoff: Duration,
    /// After how many failed attempts the start counts as failed; 0: never. Attempts go on.
    pub max_join_retries: u32,
    /// Whether the process is to end then. The caller of [`crate::membership::Membership::joined`]
    /// does that.
    pub abort_if_cluster_join_fails: bool,
    /// How often addresses at which no member is known are tried; zero: every `max_join_backoff`.
    pub rejoin_interval: Duration,
}

impl Default for JoinSettings {
    fn default() -> JoinSettings {
        JoinSettings {
            join_members: Vec::new(),
            min_join_backoff: Duration::from_secs(1),
            max_join_backoff: Duration::from_secs(60),
            max_join_retries: 10,
            abort_if_cluster_join_fails: false,
            rejoin_interval: Duration::ZERO,
        }
    }
}

/// How members are found dead. The reference has no keys for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeSettings {
    /// How often a member is asked whether it is there.
    pub probe_interval: Duration,
    /// How long it may take to answer until others are asked to try.
    pub probe_timeout: Duration,
    /// How long it has to contradict the suspicion that it is dead.
    pub suspicion_timeout: Duration,
}

impl Default for ProbeSettings {
    fn default() -> ProbeSettings {
        ProbeSettings {
            probe_interval: Duration::from_secs(1),
            probe_timeout: Duration::from_millis(300),
            suspicion_timeout: Duration::from_secs(3),
        }
    }
}

/// Why no node can run with settings.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// A time is zero that may not be.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// A time is not as long as another one asks for.
    #[error("{longer} must be at least {factor} times {shorter}")]
    TooShort {
        /// The key whose time is too short.
        longer: &'static str,
        /// How many times as long it has to be.
        factor: u32,
        /// The key of the other time.
        shorter: &'static str,
    },
    /// News go to no member, or to too many at a time.
    #[error("gossip_nodes must be from 1 to {GOSSIP_NODES_MAX}, and not {0}")]
    GossipNodes(usize),
    /// The label is too long.
    #[error("cluster_label has at most {LABEL_MAX_BYTES} bytes, and not {0}")]
    Label(usize),
    /// An address stands for all.
    #[error("others cannot use the address {0}: set advertise_addr")]
    Advertised(IpAddr),
    /// A text names no members.
    #[error("join_members: {0}")]
    Join(#[from] JoinAddressError),
}

impl Settings {
    /// Checks that a node can run with them, and gives the parsed `join_members`.
    ///
    /// # Errors
    /// A value is outside of its bounds, or contradicts another one.
    pub fn check(&self) -> Result<Vec<JoinAddress>, SettingsError> {
        let times = [
            ("min_join_backoff", self.join.min_join_backoff),
            ("left_ingesters_timeout", self.left_ingesters_timeout),
            ("gossip_interval", self.gossip_interval),
            ("packet_dial_timeout", self.packet_dial_timeout),
            ("stream_timeout", self.stream_timeout),
            ("heartbeat_period", self.heartbeat_period),
            ("probe_timeout", self.probes.probe_timeout),
            ("suspicion_timeout", self.probes.suspicion_timeout),
        ];
        if let Some((name, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Err(SettingsError::Zero(name));
        }
        let pairs = [
            (
                "max_join_backoff",
                self.join.max_join_backoff,
                1,
                "min_join_backoff",
                self.join.min_join_backoff,
            ),
            (
                "heartbeat_timeout",
                self.heartbeat_timeout,
                2,
                "heartbeat_period",
                self.heartbeat_period,
            ),
            // The other half is for those that are asked to try.
            (
                "probe_interval",
                self.probes.probe_interval,
                2,
                "probe_timeout",
                self.probes.probe_timeout,
            ),
            (
                "suspicion_timeout",
                self.probes.suspicion_timeout,
                1,
                "probe_interval",
                self.probes.probe_interval,
            ),
        ];
        for (longer, long, factor, shorter, short) in pairs {
            if long < short.saturating_mul(factor) {
                return Err(SettingsError::TooShort { longer, factor, shorter });
            }
        }
        if !(1..=GOSSIP_NODES_MAX).contains(&self.gossip_nodes) {
            return Err(SettingsError::GossipNodes(self.gossip_nodes));
        }
        if self.cluster_label.len() > LABEL_MAX_BYTES {
            return Err(SettingsError::Label(self.cluster_label.len()));
        }
        let advertised = self.advertised();
        if advertised.is_unspecified() {
            return Err(SettingsError::Advertised(advertised));
        }
        self.join.join_members.iter().map(|text| Ok(text.parse()?)).collect()
    }

    /// The IP address that others use.
    #[must_use]
    pub(crate) fn advertised(&self) -> IpAddr {
        self.advertise_addr.unwrap_or_else(|| self.bound()[0])
    }

    /// The addresses on which to listen, at least one.
    #[must_use]
    pub(crate) fn bound(&self) -> Vec<IpAddr> {
        let any = IpAddr::from([0, 0, 0, 0]);
        if self.bind_addr.is_empty() { vec![any] } else { self.bind_addr.clone() }
    }

    /// How long after its last sign of life a dead member is forgotten.
    #[must_use]
    pub fn forget_after(&self) -> Duration {
        self.heartbeat_timeout.saturating_mul(3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(change: impl FnOnce(&mut Settings)) -> String {
        let mut settings =
            Settings { advertise_addr: Some([10, 0, 0, 1].into()), ..Settings::default() };
        change(&mut settings);
        settings.check().expect_err("it is refused").to_string()
    }

    #[test]
    fn defaults_need_an_address_alone() {
        let anywhere = Settings::default();
        assert_eq!(anywhere.check(), Err(SettingsError::Advertised([0, 0, 0, 0].into())));
        let bound = Settings { bind_addr: vec![[10, 0, 0, 1].into()], ..Settings::default() };
        assert_eq!(bound.check(), Ok(Vec::new()));
        assert_eq!(bound.advertised(), IpAddr::from([10, 0, 0, 1]));
        assert_eq!(bound.forget_after(), Duration::from_secs(180));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        assert_eq!(
            fault(|s| s.gossip_interval = Duration::ZERO),
            "gossip_interval must not be zero"
        );
        assert_eq!(
            fault(|s| s.probes.probe_timeout = Duration::from_millis(501)),
            "probe_interval must be at least 2 times probe_timeout"
        );
        assert_eq!(
            fault(|s| s.join.max_join_backoff = Duration::from_millis(999)),
            "max_join_backoff must be at least 1 times min_join_backoff"
        );
        assert_eq!(
            fault(|s| s.heartbeat_timeout = Duration::from_secs(29)),
            "heartbeat_timeout must be at least 2 times heartbeat_period"
        );
        assert_eq!(fault(|s| s.gossip_nodes = 0), "gossip_nodes must be from 1 to 64, and not 0");
        assert_eq!(
            fault(|s| s.cluster_label = "l".repeat(256)),
            "cluster_label has at most 255 bytes, and not 256"
        );
        assert!(
            fault(|s| s.join.join_members = vec!["a:b".to_owned()]).starts_with("join_members: ")
        );
    }
}
