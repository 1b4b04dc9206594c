//! What a member tells of itself: small, and no part of any decision that has to be right.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use crate::identity::is_reachable;

/// Longest instance ID in bytes.
pub const INSTANCE_MAX_BYTES: usize = 255;
/// Longest name of a zone in bytes.
pub const ZONE_MAX_BYTES: usize = 64;

/// What a member says it does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// It has started and takes no work yet.
    Joining,
    /// It takes work.
    Active,
    /// It gives its work away.
    Leaving,
    /// It has left, and this life of it does not come back.
    Left,
}

impl State {
    /// The word on pages and in answers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Joining => "JOINING",
            State::Active => "ACTIVE",
            State::Leaving => "LEAVING",
            State::Left => "LEFT",
        }
    }
}

/// A part of the server that a node may run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "each is the target of its name")]
pub enum Role {
    Distributor = 0,
    Ingester = 1,
    Querier = 2,
    QueryFrontend = 3,
    QueryScheduler = 4,
    Compactor = 5,
    IndexGateway = 6,
    BloomGateway = 7,
    BloomPlanner = 8,
    BloomBuilder = 9,
    PatternIngester = 10,
    Ruler = 11,
    OverridesExporter = 12,
}

/// A set of [`Role`]s. It keeps and passes on bits that this version knows nothing of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Roles(u32);

impl Roles {
    /// No role.
    pub const NONE: Roles = Roles(0);

    /// The set with these bits.
    #[must_use]
    pub fn from_bits(bits: u32) -> Roles {
        Roles(bits)
    }

    /// One bit for each role.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The set with one more role.
    #[must_use]
    pub const fn with(self, role: Role) -> Roles {
        Roles(self.0 | 1 << role as u8)
    }

    /// Whether the two sets have a role in common.
    #[must_use]
    pub fn meets(self, other: Roles) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the role is in the set.
    #[must_use]
    pub fn has(self, role: Role) -> bool {
        self.0 & 1 << role as u8 != 0
    }
}

impl std::fmt::Debug for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Roles({:#b})", self.0)
    }
}

/// What a member tells of itself. See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vitals {
    /// Its name among the members, for people.
    pub instance: String,
    /// What it says it does.
    pub state: State,
    /// The parts of the server that it runs.
    pub roles: Roles,
    /// Whether it lacks what it needs to store entries: it does not reach the bucket, or cannot write its log.
    pub is_cut_off: bool,
    /// The lowest version of the protocol between nodes that it speaks.
    pub protocol_min: u16,
    /// The highest one.
    pub protocol_max: u16,
    /// When its process started, in ms since the Unix epoch.
    pub started_unix_ms: u64,
    /// The number of the newest map of partitions that it knows; 0 if it knows none.
    pub map_number: u64,
    /// The epoch under which it writes to the bucket, if it does.
    pub writer_epoch: Option<u32>,
    /// Its availability zone; empty if it has none.
    pub zone: String,
    /// Where its transport listens for other nodes.
    pub transport: Option<SocketAddr>,
    /// Where its HTTP server listens.
    pub http: Option<SocketAddr>,
}

/// Why vitals cannot be told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VitalsError {
    /// The instance ID is empty or too long.
    #[error("an instance ID has 1 to {INSTANCE_MAX_BYTES} bytes, and not {0}")]
    Instance(usize),
    /// The name of the zone is too long.
    #[error("the name of a zone has at most {ZONE_MAX_BYTES} bytes, and not {0}")]
    Zone(usize),
    /// The lowest version of the protocol is above the highest one.
    #[error("versions {0} to {1} of the protocol are none")]
    Protocol(u16, u16),
    /// Nobody can reach the address.
    #[error("{0} is no address that others can reach")]
    Address(SocketAddr),
    /// This epoch stands for none.
    #[error("{} is no epoch of a writer", u32::MAX)]
    Epoch,
}

impl Vitals {
    /// A process that has started and tells nothing else yet. It speaks these versions of the protocol
    /// between nodes.
    #[must_use]
    pub fn joining(instance: impl Into<String>, protocol: RangeInclusive<u16>) -> Vitals {
        Vitals {
            instance: instance.into(),
            state: State::Joining,
            roles: Roles::NONE,
            is_cut_off: false,
            protocol_min: *protocol.start(),
            protocol_max: *protocol.end(),
            started_unix_ms: 0,
            map_number: 0,
            writer_epoch: None,
            zone: String::new(),
            transport: None,
            http: None,
        }
    }

    /// Checks that others can be told.
    ///
    /// # Errors
    /// A field is outside of its bounds.
    pub fn check(&self) -> Result<(), VitalsError> {
        if self.instance.is_empty() || self.instance.len() > INSTANCE_MAX_BYTES {
            return Err(VitalsError::Instance(self.instance.len()));
        }
        if self.zone.len() > ZONE_MAX_BYTES {
            return Err(VitalsError::Zone(self.zone.len()));
        }
        if self.protocol_min > self.protocol_max {
            return Err(VitalsError::Protocol(self.protocol_min, self.protocol_max));
        }
        if self.writer_epoch == Some(u32::MAX) {
            return Err(VitalsError::Epoch);
        }
        match [self.transport, self.http].into_iter().flatten().find(|at| !is_reachable(*at)) {
            Some(address) => Err(VitalsError::Address(address)),
            None => Ok(()),
        }
    }
}

/// Vitals as they travel: the member counts them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Reports with higher numbers replace those with lower ones.
    pub number: u64,
    /// What the member tells.
    pub vitals: Vitals,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_bits() {
        let roles = Roles::NONE.with(Role::Distributor).with(Role::Ruler);
        assert_eq!(roles.bits(), 1 | 1 << 11);
        assert!(roles.has(Role::Ruler) && !roles.has(Role::Querier));
        let ruler = Roles::NONE.with(Role::Ruler);
        assert!(roles.meets(ruler) && !ruler.meets(Roles::NONE.with(Role::Querier)));
        let later = Roles::from_bits(1 << 31);
        assert_eq!(later.with(Role::Querier).bits(), 1 << 31 | 1 << 2);
    }

    #[test]
    fn fields_have_bounds() {
        let http = Some(([10, 0, 0, 1], 3100).into());
        let vitals = Vitals { http, ..Vitals::joining("node-1", 1..=1) };
        assert_eq!(vitals.check(), Ok(()));
        let fault = |change: fn(&mut Vitals)| {
            let mut changed = vitals.clone();
            change(&mut changed);
            changed.check().expect_err("it is outside of its bounds")
        };
        assert_eq!(fault(|v| v.instance.clear()), VitalsError::Instance(0));
        assert_eq!(fault(|v| v.instance = "i".repeat(256)), VitalsError::Instance(256));
        assert_eq!(fault(|v| v.zone = "z".repeat(65)), VitalsError::Zone(65));
        assert_eq!(fault(|v| v.protocol_min = 2), VitalsError::Protocol(2, 1));
        assert_eq!(fault(|v| v.writer_epoch = Some(u32::MAX)), VitalsError::Epoch);
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 1));
        assert_eq!(
            fault(|v| v.transport = Some(([0, 0, 0, 0], 1).into())),
            VitalsError::Address(nowhere)
        );
    }
}
