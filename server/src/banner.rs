//! The first text for a new user: the server runs, and the next steps.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::config::targets::Part;
use crate::config::{Config, LogFormat, LogLevel, sync_text};

/// Says that the node listens on `address` and can be used. Written to standard
/// error, for people or as log lines, unless lines of level `info` are not wanted.
pub(crate) fn ready(config: &Config, driver: &str, address: SocketAddr) {
    let url = base_url(address, config.tls.is_on());
    tracing::info!(
        %address,
        data_dir = %config.data_dir.display(),
        driver,
        shards = config.cores,
        wal_sync = %sync_text(config.wal.sync),
        auth_enabled = config.auth_enabled,
        "logsvc {} is ready",
        crate::version::NUMBER,
    );
    let steps = first_steps(config, &url);
    match config.log_format {
        LogFormat::Json => {
            for (purpose, command) in &steps {
                tracing::info!(command, "next: {purpose}");
            }
        }
        LogFormat::Text if matches!(config.log_level, LogLevel::Debug | LogLevel::Info) => {
            // Nobody reads a closed standard error; the server runs all the same.
            let _ = std::io::stderr().write_all(page(config, driver, &url, &steps).as_bytes());
        }
        LogFormat::Text => {}
    }
}

/// Commands to paste that the node can answer, with the purpose of each.
fn first_steps(config: &Config, url: &str) -> Vec<(&'static str, String)> {
    let tenant = if config.auth_enabled { " -H 'X-Scope-OrgID: demo'" } else { "" };
    let push = format!(
        "curl{tenant} -H 'Content-Type: application/json' {url}/loki/api/v1/push -d \
         '{{\"streams\":[{{\"stream\":{{\"app\":\"demo\"}},\"values\":[[\"'$(date +%s)000000000'\",\
         \"hello\"]]}}]}}'"
    );
    let query = format!(
        "curl{tenant} -G {url}/loki/api/v1/query_range --data-urlencode 'query={{app=\"demo\"}}'"
    );
    let grafana = format!("add a data source of type Loki with the URL {url}");
    let parts = config.parts();
    let mut steps = Vec::new();
    if parts.has(Part::Distributor) {
        steps.push(("push a line", push));
    }
    if parts.has(Part::Querier) || parts.has(Part::QueryFrontend) {
        steps.extend([("query it", query), ("use Grafana", grafana)]);
    }
    steps
}

fn page(config: &Config, driver: &str, url: &str, steps: &[(&'static str, String)]) -> String {
    let facts = [
        ("listening on", url.to_owned()),
        ("data folder", config.data_dir.display().to_string()),
        ("runtime", driver.to_owned()),
        ("shards", config.cores.to_string()),
        ("wal.sync", sync_text(config.wal.sync)),
    ];
    let mut page = format!("\n  logsvc {}\n\n", crate::version::NUMBER);
    for (name, value) in facts {
        page += &format!("  {name:<14} {value}\n");
    }
    for (purpose, command) in steps {
        page += &format!("\n  To {purpose}:\n    {command}\n");
    }
    page.push('\n');
    page
}

/// The address as a URL that works on this machine.
fn base_url(address: SocketAddr, has_tls: bool) -> String {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let scheme = if has_tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn urls_can_be_pasted() {
        for (listening, url) in [
            ("0.0.0.0:3100", "http://127.0.0.1:3100"),
            ("[::]:80", "http://127.0.0.1:80"),
            ("[::1]:80", "http://[::1]:80"),
            ("10.1.2.3:4000", "http://10.1.2.3:4000"),
        ] {
            assert_eq!(base_url(address(listening), false), url);
        }
        assert_eq!(base_url(address("0.0.0.0:443"), true), "https://127.0.0.1:443");
    }

    #[test]
    fn the_page_is_plain_and_names_what_matters() {
        let config = Config { cores: 2, ..Config::default() };
        let url = base_url(address("0.0.0.0:3123"), false);
        let page = page(&config, "monoio/epoll", &url, &first_steps(&config, &url));
        assert!(page.is_ascii());
        let push = r#"curl -H 'Content-Type: application/json' http://127.0.0.1:3123/loki/api/v1/push -d '{"streams":[{"stream":{"app":"demo"},"values":[["'$(date +%s)000000000'","hello"]]}]}'"#;
        let query = r#"curl -G http://127.0.0.1:3123/loki/api/v1/query_range --data-urlencode 'query={app="demo"}'"#;
        for part in [push, query, "monoio/epoll", "./data", "wal.sync       always"] {
            assert!(page.contains(part), "{part}\n{page}");
        }
    }

    #[test]
    fn commands_name_a_tenant_if_they_must() {
        let config = Config { auth_enabled: true, ..Config::default() };
        let steps = first_steps(&config, "http://127.0.0.1:3100");
        assert!(steps[0].1.contains("X-Scope-OrgID") && steps[1].1.contains("X-Scope-OrgID"));
    }
}
