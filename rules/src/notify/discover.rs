//! How hosts of SRV records are found.

use std::collections::BTreeMap;

use logsvc_runtime::{Runtime, look_up_srv};

/// Looks services up.
#[allow(async_fn_in_trait)]
pub trait Discover: 'static {
    /// The instances of a service `_service._proto.name`, as `host:port`.
    ///
    /// # Errors
    /// Why the name cannot be resolved at this moment. A service without instances is no error.
    async fn instances(&self, service: &str) -> Result<Vec<String>, String>;
}

/// Services that are known beforehand.
#[derive(Clone, Debug, Default)]
pub struct FixedServices(pub BTreeMap<String, Vec<String>>);

impl Discover for FixedServices {
    async fn instances(&self, service: &str) -> Result<Vec<String>, String> {
        self.0.get(service).cloned().ok_or_else(|| format!("no such host: {service}"))
    }
}

/// Services that the name servers of the system know, as SRV records.
#[derive(Clone, Debug)]
pub struct NameServers<R> {
    runtime: R,
}

impl<R: Runtime> NameServers<R> {
    /// Asks by the connections of this runtime.
    pub fn new(runtime: R) -> NameServers<R> {
        NameServers { runtime }
    }
}

impl<R: Runtime> Discover for NameServers<R> {
    async fn instances(&self, service: &str) -> Result<Vec<String>, String> {
        // A port in the address of a service counts for nothing: the record has the port.
        let name = service.rsplit_once(':').map_or(service, |(name, _)| name);
        let records = look_up_srv(&self.runtime, name).await.map_err(|error| error.to_string())?;
        Ok(records.into_iter().map(|record| format!("{}:{}", record.host, record.port)).collect())
    }
}
