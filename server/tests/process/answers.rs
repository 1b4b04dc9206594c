//! The answers of the interface to well-behaved clients, over real sockets.

mod context;
mod cross_tenant;
mod detected;
mod doors;
mod edges;
mod error_table;
mod isolation;
mod lifecycle;
mod limits;
mod operating;
mod otlp;
mod pages;
#[cfg(feature = "parquet")]
mod parquet;
mod protocol;
mod pushes;
mod queries;
mod refusals;
mod refused_pushes;
mod results;
mod shutdown;
mod tenants;
mod volumes;
