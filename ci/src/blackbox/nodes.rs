//! The server that a corpus is run against: one node, or several that share a bucket.
//!
//! Of several nodes each has a loopback address of its own for the others, and the bucket is a folder.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::server::{DataFolder, Server, free_ports};

/// Lines of the configuration that switch off features that only the second corpus needs.
const DISCOVERY_OFF: [&str; 2] = ["discover_service_name: []", "discover_log_levels: false"];

/// How long nodes may take until each has its share.
const SHARE_LIMIT: Duration = Duration::from_secs(60);

/// The nodes of one run, in the order of their numbers. They are killed before their folders go.
pub(super) struct Nodes {
    servers: Vec<Server>,
    ports: Vec<u16>,
    folder: DataFolder,
}

impl Nodes {
    /// Starts so many nodes by the corpus's configuration; with `discovery`, labels and levels are
    /// discovered.
    ///
    /// # Errors
    /// They do not start, or do not share what there is. What they have logged was shown then.
    pub(super) fn start(
        binary: &Path,
        template: &str,
        discovery: bool,
        (name, count): (&str, u8),
    ) -> Result<Nodes> {
        let folder = DataFolder::create(&format!("blackbox-{name}"))?;
        let mut nodes = Nodes { servers: Vec::new(), ports: Vec::new(), folder };
        let begun = (1..=count)
            .try_for_each(|number| nodes.start_one(binary, template, discovery, (number, count)));
        if let Err(error) = begun.and_then(|()| nodes.await_shares()) {
            nodes.show_logs();
            return Err(error);
        }
        Ok(nodes)
    }

    fn start_one(
        &mut self,
        binary: &Path,
        template: &str,
        discovery: bool,
        (number, count): (u8, u8),
    ) -> Result<()> {
        let data = self.folder.0.join(format!("node-{number}"));
        std::fs::create_dir_all(&data).context("making the folder of a node")?;
        let ports = free_ports()?;
        let mut config = fill_config(template, &data, ports, discovery);
        let mut arguments: Vec<OsString> = Vec::new();
        if count > 1 {
            config = among_others(&config, &ip(number));
            arguments.push(format!("--memberlist.bind-addr={}", ip(number)).into());
            arguments.push(format!("--common.storage.ring.instance-id=node-{number}").into());
            let bucket = self.folder.0.join("bucket");
            arguments.push(format!("--storage.bucket=file://{}", bucket.display()).into());
            arguments.extend((1..=count).map(|n| format!("--memberlist.join={}", ip(n)).into()));
        }
        let file = data.join("config.yaml");
        std::fs::write(&file, config).context("writing the configuration")?;
        arguments.extend(["--config.file".into(), file.into_os_string()]);
        let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        self.servers.push(Server::start(binary, &arguments, &data)?);
        self.ports.push(ports.0);
        self.servers.last_mut().context("a node was started")?.wait_until_listening(ports.0)
    }

    /// Waits until each of several nodes has about as many partitions as every other.
    fn await_shares(&self) -> Result<()> {
        let end = Instant::now() + SHARE_LIMIT;
        while self.ports.len() > 1 {
            let shares: Vec<u64> = self.ports.iter().map(|port| share(*port)).collect();
            let (least, most) = (shares.iter().min(), shares.iter().max());
            if least.zip(most).is_some_and(|(least, most)| *least > 0 && most - least <= 1) {
                break;
            }
            if Instant::now() > end {
                bail!("the nodes have {shares:?} partitions");
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// The address of the first node, and of the last one.
    pub(super) fn bases(&self) -> (String, String) {
        let base = |port: Option<&u16>| format!("http://127.0.0.1:{}", port.copied().unwrap_or(0));
        (base(self.ports.first()), base(self.ports.last()))
    }

    /// Stops all in order.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.servers.iter_mut().try_for_each(Server::stop)
    }

    pub(super) fn show_logs(&self) {
        self.servers.iter().for_each(Server::show_log);
    }
}

/// Where other nodes reach one.
fn ip(number: u8) -> String {
    let process = std::process::id();
    format!("127.{}.{}.{number}", (process >> 8) as u8 | 128, process as u8)
}

/// How many partitions a node owns; 0 while it does not say.
fn share(port: u16) -> u64 {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--noproxy", "*", "--max-time", "5"]);
    curl.arg(format!("http://127.0.0.1:{port}/metrics")).stderr(Stdio::null());
    let Ok(answer) = curl.output() else { return 0 };
    let text = String::from_utf8_lossy(&answer.stdout);
    let line = text.lines().find(|line| line.starts_with("logsvc_cluster_partitions"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

/// The configuration of a node among others at this address.
fn among_others(config: &str, ip: &str) -> String {
    let mut changed = String::with_capacity(config.len());
    for line in config.lines() {
        let key = line.trim_start().split(':').next().unwrap_or("");
        let indent = &line[..line.len() - line.trim_start().len()];
        match key {
            "instance_addr" | "grpc_listen_address" => {
                changed.push_str(&format!("{indent}{key}: {ip}\n"));
            }
            "store" => changed.push_str(&format!("{}\n", line.replace("inmemory", "memberlist"))),
            _ => changed.push_str(&format!("{line}\n")),
        }
    }
    changed
}

/// The corpus's configuration for one server. With `discovery`, the lines that
/// switch the discovery of labels and levels off are left out.
fn fill_config(template: &str, data: &Path, ports: (u16, u16), discovery: bool) -> String {
    let kept = template
        .lines()
        .filter(|line| !discovery || !DISCOVERY_OFF.iter().any(|off| line.trim().starts_with(off)));
    let mut config: String = kept.flat_map(|line| [line, "\n"]).collect();
    for (name, value) in [
        ("{{DATA}}", data.display().to_string()),
        ("{{HTTP_PORT}}", ports.0.to_string()),
        ("{{GRPC_PORT}}", ports.1.to_string()),
    ] {
        config = config.replace(name, &value);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "server:\n  port: {{HTTP_PORT}}\n  grpc: {{GRPC_PORT}}\n\
                            path: {{DATA}}/chunks\n  discover_service_name: []   # off\n\
                            \x20 discover_log_levels: false\n";

    #[test]
    fn places_are_filled() {
        let config = fill_config(TEMPLATE, Path::new("/d"), (1, 2), false);
        assert_eq!(
            config,
            "server:\n  port: 1\n  grpc: 2\npath: /d/chunks\n  discover_service_name: []   # off\n\
             \x20 discover_log_levels: false\n"
        );
        let config = fill_config(TEMPLATE, Path::new("/d"), (1, 2), true);
        assert_eq!(config, "server:\n  port: 1\n  grpc: 2\npath: /d/chunks\n");
    }

    #[test]
    fn a_node_among_others_has_an_address_of_its_own() {
        let config = "instance_addr: 127.0.0.1\nring:\n  store: inmemory # one\nstore: tsdb\n";
        assert_eq!(
            among_others(config, "127.9.9.2"),
            "instance_addr: 127.9.9.2\nring:\n  store: memberlist # one\nstore: tsdb\n"
        );
    }
}
