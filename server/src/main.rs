//! The `logsvc` server: settings, logging and the cores.
//!
//! Exits with 0 after an orderly stop, 1 if the settings are bad or the node failed,
//! 2 if the command line is bad. The tools have exit codes of their own, see [`tools`].

mod allocator;
mod app;
mod ask;
mod banner;
mod bucket;
mod cli;
mod cluster;
mod config;
mod dialer;
mod folder;
mod front;
mod intake;
mod listen;
mod logging;
mod metrics;
mod node;
mod probe;
mod refusals;
mod reload;
mod ruler;
mod services;
mod tools;
mod transfer;
mod users;
mod version;
mod watch;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use logsvc_runtime::{
    Latch, LaunchOptions, ServiceManager, await_free_address, glommio_backend, handle_signals,
    monoio_backend, raise_open_files_limit, refuse_huge_pages, take_listener,
};

use crate::app::Boot;
use crate::cli::Cli;
use crate::config::print::{self, Mode};
use crate::config::{Config, Loaded, Machine, Origin, RuntimeChoice};
use crate::node::{Certificates, Doors, ReloadRequests, Surroundings};

/// The usual limit of open files, if it is not known.
const OPEN_FILES_USUAL: u64 = 1024;

fn main() -> ExitCode {
    allocator::release_early();
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        // Prints the help, the version or the mistake, and exits.
        Err(error) => error.exit(),
    };
    if let Some(tool) = &cli.tool {
        return tools::run(tool);
    }
    if cli.list_targets {
        let names: Vec<&str> = config::targets::names().collect();
        return match writeln!(std::io::stdout(), "{}", names.join("\n")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(&format!("logsvc: {error}")),
        };
    }
    let machine = Machine::detect();
    let file = cli.config_file.as_deref();
    let loaded = match config::load(file, cli.expands_env, &cli.flags, &machine) {
        Ok(loaded) => loaded,
        Err(errors) => return fail(&errors.to_string()),
    };
    match start(&cli, loaded, machine) {
        Ok(code) => code,
        Err(error) => fail(&format!("logsvc: {error:#}")),
    }
}

fn fail(text: &str) -> ExitCode {
    // The exit code says it, too, if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::FAILURE
}

fn start(cli: &Cli, loaded: Loaded, machine: Machine) -> anyhow::Result<ExitCode> {
    let Loaded { config, limits, ignored_keys, given } = loaded;
    logging::start(config.log_level, config.log_format)?;
    logging::count_panics();
    reload::warn_of_ignored_keys("config key", &ignored_keys);
    reload::warn_of_ignored_keys("flag", &cli.ignored_flags);
    if cli.print_config {
        write!(std::io::stderr(), "{}", print::yaml(&config, Mode::Full))?;
    }
    if cli.verify_config {
        writeln!(std::io::stdout(), "config is valid")?;
        return Ok(ExitCode::SUCCESS);
    }
    let stop = Latch::new();
    let reload = ReloadRequests::default();
    let bell = reload.bell.clone();
    handle_signals(stop.clone(), move || bell.ring()).context("cannot handle signals")?;
    tracing::info!(
        cores = machine.cores,
        memory_bytes = machine.memory_bytes.as_ref().ok(),
        limited_by = machine.limited_by,
        "what the machine and its control group leave to this process"
    );
    for advice in config::advice(&config, &machine) {
        tracing::warn!("{advice}");
    }
    let manager = ServiceManager::of_environment();
    let inherited = take_listener().context("cannot use the socket of the service manager")?;
    if let Err(error) = refuse_huge_pages() {
        // It costs time and memory only.
        tracing::debug!(%error, "the system backs memory with huge pages");
    }
    // The cores share their port with SO_REUSEPORT, which another process may do too: it would
    // silently take a part of the connections. So the port must be free for one who does not
    // share it.
    if inherited.is_none()
        && let Err(error) = await_free_address(config.http_address, &stop)
    {
        tracing::error!("cannot listen on {}: {error}", config.http_address);
        return Ok(ExitCode::FAILURE);
    }
    let tls = match Certificates::load(&config) {
        Ok(tls) => tls,
        Err(error) => {
            tracing::error!("{error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let users = match config.access.load(config.auth_enabled) {
        Ok(users) => users,
        Err(error) => {
            tracing::error!("{error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    let open_files = match raise_open_files_limit() {
        Ok(limit) => limit,
        Err(error) => {
            tracing::warn!("the limit of open files cannot be raised: {error}");
            OPEN_FILES_USUAL
        }
    };
    let connections = listen::connection_limit(&config, open_files);
    tracing::debug!(open_files, connections = connections.max(), "limits");
    let surroundings = Surroundings {
        origin: Origin {
            file: cli.config_file.clone(),
            expands_env: cli.expands_env,
            flags: cli.flags.clone(),
            given,
            machine: Some(machine),
        },
        reload,
        manager,
        inherited,
        user: config::user(),
    };
    let doors = Doors { tls, users, connections };
    let boot = Boot::new(Arc::new(config), limits, doors, stop, surroundings);
    if let Err(error) = launch(&boot) {
        tracing::error!("cannot start the cores: {error}");
        return Ok(ExitCode::FAILURE);
    }
    tracing::info!("stopped");
    // The node has logged its failure.
    Ok(if boot.node.failure().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs the cores until the node stops.
fn launch(boot: &Boot) -> std::io::Result<()> {
    let config: &Config = &boot.node.config;
    let options = LaunchOptions::with_cores(config.cores);
    let boot = boot.clone();
    match config.runtime {
        RuntimeChoice::Monoio => {
            monoio_backend::launch(&options, config.io_driver, move |runtime| {
                app::run_core(runtime, boot.clone())
            })
        }
        RuntimeChoice::Glommio => {
            glommio_backend::launch(&options, move |runtime| app::run_core(runtime, boot.clone()))
        }
    }
}
