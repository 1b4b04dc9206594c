//! What the interface answers to well-behaved clients, over real sockets.

mod detected;
mod lifecycle;
mod limits;
mod operating;
mod protocol;
mod pushes;
mod queries;
mod tenants;
mod volumes;
