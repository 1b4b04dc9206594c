//! Requests to the ruler on core 0, and its answers.

use std::sync::Arc;
use std::time::Duration;

use logsvc_proto::{Labels, TenantId};

use crate::model::RuleGroup;
use crate::remote_numbers::RemoteNumbers;

/// A request of another core.
#[derive(Debug)]
pub enum RulesRequest {
    /// The stored groups of a tenant.
    Groups {
        /// Whose.
        tenant: TenantId,
        /// Of one namespace alone.
        namespace: Option<String>,
    },
    /// One stored group.
    Group {
        /// Whose.
        tenant: TenantId,
        /// Its namespace.
        namespace: String,
        /// Its name.
        group: String,
    },
    /// Creates or replaces a group that has been checked.
    SetGroup {
        /// Whose.
        tenant: TenantId,
        /// Its namespace.
        namespace: String,
        /// The group.
        group: Box<RuleGroup>,
        /// Most groups that the tenant may have; 0: no limit.
        max_groups: usize,
    },
    /// Removes a group.
    DeleteGroup {
        /// Whose.
        tenant: TenantId,
        /// Its namespace.
        namespace: String,
        /// Its name.
        group: String,
    },
    /// Removes all groups of a namespace.
    DeleteNamespace {
        /// Whose.
        tenant: TenantId,
        /// The namespace.
        namespace: String,
    },
    /// The groups of a tenant that are evaluated, with their state.
    Status {
        /// Whose.
        tenant: TenantId,
    },
    /// Numbers of the node's metrics.
    Metrics,
    /// Looks for changed rule files at once; done says that it begins.
    Look,
}

/// An answer of the ruler.
#[derive(Debug)]
pub enum RulesReply {
    /// Namespaces in order, each with its groups in the order of their names.
    Groups(Vec<(Arc<str>, Vec<Arc<RuleGroup>>)>),
    /// The group, if it is there.
    Group(Option<Arc<RuleGroup>>),
    /// The change is on stable storage and in force, and in the bucket if it is to be there.
    Done,
    /// There is no such group or namespace.
    NotFound,
    /// The change was refused.
    Refused(StoreRefusal),
    /// See [`RulesRequest::Status`]; by namespace, then by name.
    Status(Vec<Arc<GroupStatus>>),
    /// Numbers of the node's metrics, by the owners of the numbers.
    Metrics(Box<crate::messages::RulerNumbers>),
}

/// Why a change of the stored groups was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreRefusal {
    /// Rule files are read only. The name is the one of the operation in error texts.
    #[error("{operation} unsupported in rule local store")]
    ReadOnly {
        /// `SetRuleGroup` for example.
        operation: &'static str,
    },
    /// The tenant has too many groups; counts one more than there are.
    #[error("per-user rule groups limit (limit: {limit} actual: {actual}) exceeded")]
    TooManyGroups {
        /// The limit.
        limit: usize,
        /// What there would be.
        actual: usize,
    },
    /// The groups of all tenants would take too much memory.
    #[error("the rule groups of this server would take more than {max_bytes} bytes of memory")]
    TooManyBytes {
        /// Most memory of all groups, in bytes.
        max_bytes: u64,
    },
    /// The stored groups cannot be read yet.
    #[error("the rule groups of this server are not loaded yet")]
    NotLoaded,
    /// The change cannot be written.
    #[error("cannot store rule groups: {0}")]
    Io(String),
    /// The node is the keeper of the groups of several nodes no more, or the bucket has not taken the
    /// change. Nobody knows whether it is in force.
    #[error("it is not known whether the change of the rule groups is in force: {0}")]
    Unsure(String),
    /// Another node keeps the groups of all nodes.
    #[error("another node keeps the rules of all nodes")]
    Elsewhere,
    /// The bucket does not take the change. It is on stable storage and in force.
    #[error(
        "the bucket does not take the change of the rule groups; it is in force, and is sent to the \
         bucket later"
    )]
    Bucket,
}

/// A group that is evaluated, at the end of its last evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupStatus {
    /// Its namespace, which stands for the name of a rule file.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Time from one evaluation to the next.
    pub interval: Duration,
    /// Most results of a rule; 0: no limit.
    pub limit: u64,
    /// Its rules, in their order.
    pub rules: Vec<RuleStatus>,
    /// Start of the last evaluation, in ns since the Unix epoch; `None` before the first one.
    pub last_evaluation_ns: Option<i64>,
    /// How long it took.
    pub evaluation_time: Duration,
}

/// A rule of a group that is evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleStatus {
    /// The name of the alert or of the metric.
    pub name: Arc<str>,
    /// The query in its printed form.
    pub query: Arc<str>,
    /// Labels of the rule, as they were written.
    pub labels: Labels,
    /// How its last evaluation ended.
    pub health: Health,
    /// Start of the last evaluation, in ns since the Unix epoch; `None` before the first one.
    pub last_evaluation_ns: Option<i64>,
    /// How long it took.
    pub evaluation_time: Duration,
    /// What only alerting rules have.
    pub alerting: Option<AlertingStatus>,
}

/// How the last evaluation of a rule ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// There was none.
    Unknown,
    /// It gave a result.
    Ok,
    /// It failed.
    Err(String),
}

/// The state of an alerting rule.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertingStatus {
    /// How long an alert is pending before it fires.
    pub hold: Duration,
    /// How long an alert fires on after its condition has ended.
    pub keep_firing: Duration,
    /// Annotations of the rule, as they were written.
    pub annotations: Labels,
    /// Pending and firing alerts.
    pub alerts: Arc<[AlertStatus]>,
}

/// The state of an alert, in the order of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertState {
    /// The condition does not hold.
    Inactive,
    /// It holds, not long enough yet.
    Pending,
    /// The alert fires.
    Firing,
}

impl AlertState {
    /// The word in answers.
    pub fn word(self) -> &'static str {
        match self {
            AlertState::Inactive => "inactive",
            AlertState::Pending => "pending",
            AlertState::Firing => "firing",
        }
    }
}

/// An alert.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertStatus {
    /// All labels, with `alertname`.
    pub labels: Labels,
    /// Annotations with their templates executed.
    pub annotations: Labels,
    /// Pending or firing.
    pub state: AlertState,
    /// When the condition began to hold, in ns since the Unix epoch.
    pub active_at_ns: i64,
    /// Since when it only fires on, in ns since the Unix epoch.
    pub keep_firing_since_ns: Option<i64>,
    /// The value of the last evaluation.
    pub value: f64,
}

/// Numbers of the ruler for the node's metrics. Each part has an owner, which adds its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RulerNumbers {
    /// Of evaluations, by tenant and group.
    pub groups: Vec<GroupNumbers>,
    /// Of notifications, by tenant.
    pub notifications: Vec<NotificationNumbers>,
    /// Of remote write.
    pub remote: RemoteNumbers,
    /// Tenants of which a rule file cannot be read or is wrong.
    pub unreadable: Vec<TenantId>,
}

/// Numbers of a tenant's notifications since its first alert in this process.
#[derive(Clone, Debug, PartialEq)]
pub struct NotificationNumbers {
    /// Whose.
    pub tenant: TenantId,
    /// Alerts that wait for at least one Alertmanager.
    pub queue_length: u64,
    /// Most alerts that may wait.
    pub queue_capacity: u64,
    /// Alerts that at least one Alertmanager has not got because there was no room, no valid
    /// setting, or no time left at the end.
    pub dropped: u64,
    /// The Alertmanagers that are known, by address.
    pub alertmanagers: Vec<AlertmanagerNumbers>,
}

/// Numbers of the notifications to one Alertmanager. `given` is the sum of `sent`, `errors`,
/// `dropped`, `queue_length` and `in_flight`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlertmanagerNumbers {
    /// The URL, without a name and password.
    pub address: Arc<str>,
    /// Alerts that it was to get.
    pub given: u64,
    /// Alerts of requests that it has answered with success.
    pub sent: u64,
    /// Alerts of requests that were given up.
    pub errors: u64,
    /// Alerts that left the queue before they were sent.
    pub dropped: u64,
    /// Alerts that wait for it.
    pub queue_length: u64,
    /// Alerts of the request that is under way.
    pub in_flight: u64,
    /// Requests that have ended, each attempt by itself.
    pub requests: u64,
    /// How long these took together.
    pub latency: Duration,
}

/// Numbers of a group's evaluations since the start of the process.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupNumbers {
    /// Whose.
    pub tenant: TenantId,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Rules.
    pub rules: u64,
    /// Evaluations of rules.
    pub evaluations: u64,
    /// Those that failed.
    pub evaluation_failures: u64,
    /// Evaluations of the group.
    pub iterations: u64,
    /// Evaluations of the group that were left out because one before took too long.
    pub iterations_missed: u64,
    /// Time from one evaluation to the next.
    pub interval: Duration,
    /// Start of the last evaluation, in ns since the Unix epoch.
    pub last_evaluation_ns: Option<i64>,
    /// How long it took.
    pub last_duration: Duration,
    /// Samples of the last evaluation.
    pub last_samples: u64,
    /// Time of all evaluations of rules together.
    pub rules_time: Duration,
    /// Time of all evaluations of the group together.
    pub iterations_time: Duration,
}
