//! Settings of notifications, checked and made ready.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_proto::Labels;
use logsvc_runtime::Runtime;

use super::address::{Address, AddressError, parse_addresses};
use crate::auth::{AuthError, RequestAuth, configured_headers};
use crate::config::{AlertmanagerConfig, HttpConfig};
use crate::relabel::{RelabelError, Relabeller};
use crate::transport::{Transport, TransportError};

/// Gives the transports of settings.
#[allow(async_fn_in_trait)]
pub trait Connect: 'static {
    /// What sends requests.
    type Transport: Transport;

    /// The transport of some settings: its TLS, its proxy, its connections. The headers of the
    /// settings are the caller's part.
    ///
    /// # Errors
    /// A file of the settings cannot be read, for example. The caller asks again later.
    async fn transport(&self, config: &HttpConfig) -> Result<Rc<Self::Transport>, TransportError>;
}

/// Why settings of notifications cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotifyConfigError {
    /// An address is none.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A relabelling rule is none.
    #[error(transparent)]
    Relabel(#[from] RelabelError),
    /// A header is none.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

/// Checks settings as the notifier does before it uses them. Reads no file and asks no name
/// server.
///
/// # Errors
/// See [`NotifyConfigError`]; no message shows a secret.
pub fn check_config(config: &AlertmanagerConfig) -> Result<(), NotifyConfigError> {
    parse_addresses(&config.urls, config.discovery)?;
    Relabeller::new(&config.alert_relabel_configs)?;
    configured_headers(&config.http)?;
    Ok(())
}

/// Settings that are in use. Tenants with the same settings share them.
pub(super) struct Setup<R, T> {
    pub(super) config: Arc<AlertmanagerConfig>,
    pub(super) relabeller: Relabeller,
    pub(super) addresses: Vec<Address>,
    pub(super) auth: RequestAuth<R>,
    transport: RefCell<Option<Rc<T>>>,
}

impl<R: Runtime, T: Transport> Setup<R, T> {
    pub(super) fn new(
        runtime: &R,
        config: Arc<AlertmanagerConfig>,
    ) -> Result<Setup<R, T>, NotifyConfigError> {
        Ok(Setup {
            relabeller: Relabeller::new(&config.alert_relabel_configs)?,
            addresses: parse_addresses(&config.urls, config.discovery)?,
            auth: RequestAuth::new(runtime.clone(), &config.http)?,
            transport: RefCell::default(),
            config,
        })
    }

    /// The transport, which is asked for when it is needed first.
    pub(super) async fn transport(
        &self,
        connect: &impl Connect<Transport = T>,
    ) -> Result<Rc<T>, TransportError> {
        if let Some(transport) = &*self.transport.borrow() {
            return Ok(transport.clone());
        }
        let made = connect.transport(&self.config.http).await?;
        // Another task may have been faster; then all use its connections.
        Ok(self.transport.borrow_mut().get_or_insert(made).clone())
    }

    /// The labels of an alert on its way out; `None` if it is not to be sent.
    pub(super) fn relabelled(
        &self,
        labels: &Labels,
        external_labels: &[(String, String)],
    ) -> Option<Labels> {
        let missing = external_labels
            .iter()
            .filter(|(name, _)| labels.get(name).is_none_or(str::is_empty))
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let present = labels.iter().filter(|(_, value)| !value.is_empty());
        let all = Labels::from_result_pairs(present.chain(missing)).ok()?;
        let labels = if self.relabeller.is_empty() { all } else { self.relabeller.apply(&all)? };
        (!labels.is_empty()).then_some(labels)
    }
}
