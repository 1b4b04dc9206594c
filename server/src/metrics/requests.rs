//! Requests by method, route and status: counts, durations, and requests under way.
//!
//! Every core counts in a table of its own, whose rows are made when they are first
//! needed: most routes are never asked for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Method;

use super::histogram::{Histogram, LATENCY_BOUNDS_US};
use super::{Exposition, add};

/// Methods that are counted apart; others are counted as the last.
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "DELETE", "other"];

/// Status codes that are counted apart; others are counted as the last.
const STATUSES: [u16; 24] = [
    101, 200, 202, 204, 260, 301, 302, 400, 401, 403, 404, 405, 408, 411, 413, 414, 417, 422, 429,
    431, 499, 500, 503, 504,
];
const STATUS_SLOTS: usize = STATUSES.len() + 1;

/// Requests that lead to no route are counted under this name.
const OTHER: &str = "other";

/// Requests of one core. `routes` is the list that all cores have in common.
#[derive(Debug)]
pub(crate) struct Requests {
    routes: &'static [&'static str],
    /// By route, method and status.
    finished: Box<[OnceLock<Box<Histogram>>]>,
    /// By route and method.
    under_way: Box<[AtomicU64]>,
}

/// Counts a request as under way for as long as it lives.
#[derive(Debug)]
pub(crate) struct UnderWay<'r>(&'r AtomicU64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Requests {
    /// Nothing counted yet. Requests of other routes than `routes` are counted together.
    pub(super) fn new(routes: &'static [&'static str]) -> Requests {
        let rows = (routes.len() + 1) * METHODS.len();
        Requests {
            routes,
            finished: (0..rows * STATUS_SLOTS).map(|_| OnceLock::new()).collect(),
            under_way: (0..rows).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn row(&self, method: Option<&Method>, route: &str) -> usize {
        let route = self.routes.iter().position(|&name| name == route);
        let route = route.unwrap_or(self.routes.len());
        let method = method.map_or(OTHER, Method::as_str);
        let method = METHODS.iter().position(|&name| name == method);
        route * METHODS.len() + method.unwrap_or(METHODS.len() - 1)
    }

    /// Counts an answered request.
    pub(crate) fn finished(
        &self,
        method: Option<&Method>,
        route: &str,
        status: u16,
        duration: Duration,
    ) {
        let status = STATUSES.iter().position(|&code| code == status).unwrap_or(STATUSES.len());
        let histogram = &self.finished[self.row(method, route) * STATUS_SLOTS + status];
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        histogram.get_or_init(|| Box::new(Histogram::new(&LATENCY_BOUNDS_US))).observe(us);
    }

    /// Counts a request as under way until the guard is dropped.
    pub(crate) fn begin(&self, method: &Method, route: &str) -> UnderWay<'_> {
        debug_assert!(self.routes.contains(&route), "{route} is not in the list of routes");
        let count = &self.under_way[self.row(Some(method), route)];
        add(count, 1);
        UnderWay(count)
    }
}

/// Writes the requests of all cores.
pub(super) fn expose<'r>(cores: impl Iterator<Item = &'r Requests> + Clone, out: &mut Exposition) {
    let Some(routes) = cores.clone().next().map(|requests| requests.routes) else { return };
    const DURATION: &str = "loki_request_duration_seconds";
    out.family(DURATION, "histogram", "Time from the request's head to its answer.");
    for (route_id, route) in routes.iter().chain(&[OTHER]).enumerate() {
        for (method_id, method) in METHODS.iter().enumerate() {
            for status_id in 0..STATUS_SLOTS {
                let at = (route_id * METHODS.len() + method_id) * STATUS_SLOTS + status_id;
                let counted = cores.clone().filter_map(|core| core.finished[at].get());
                let Some(sum) = Histogram::sum(counted.map(Box::as_ref)) else { continue };
                let code = STATUSES.get(status_id);
                let status = code.map_or(OTHER.into(), u16::to_string);
                let ws = if code == Some(&101) { "true" } else { "false" };
                let labels =
                    [("method", *method), ("route", route), ("status_code", &status), ("ws", ws)];
                out.histogram(DURATION, &labels, &sum);
            }
        }
    }
    const UNDER_WAY: &str = "loki_inflight_requests";
    out.family(UNDER_WAY, "gauge", "Requests that are being answered.");
    for (route_id, route) in routes.iter().chain(&[OTHER]).enumerate() {
        for (method_id, method) in METHODS.iter().enumerate() {
            let at = route_id * METHODS.len() + method_id;
            let count: u64 =
                cores.clone().map(|core| core.under_way[at].load(Ordering::Relaxed)).sum();
            if count > 0 {
                out.sample(UNDER_WAY, &[("method", method), ("route", route)], count as f64);
            }
        }
    }
}
