//! The `logsvc` server: settings, logging and the cores.
//!
//! Exits with 0 after an orderly stop, 1 if the settings are bad or the node failed,
//! 2 if the command line is bad.

mod app;
mod banner;
mod cli;
mod config;
mod front;
mod logging;
mod metrics;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use logsvc_runtime::{Latch, LaunchOptions, glommio_backend, monoio_backend, stop_on_signals};

use crate::app::Boot;
use crate::cli::Cli;
use crate::config::{Config, Loaded, Machine, RuntimeChoice};

/// Buffers are often freed by another core than the one that allocated them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        // Prints the help, the version or the mistake, and exits.
        Err(error) => error.exit(),
    };
    let loaded = match config::load(cli.config_file.as_deref(), &cli.flags, &Machine::detect()) {
        Ok(loaded) => loaded,
        Err(errors) => return fail(&errors.to_string()),
    };
    match start(&cli, loaded) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&format!("logsvc: {error:#}")),
    }
}

fn fail(text: &str) -> ExitCode {
    // The exit code says it, too, if standard error is closed.
    let _ = writeln!(std::io::stderr(), "{text}");
    ExitCode::FAILURE
}

fn start(cli: &Cli, loaded: Loaded) -> anyhow::Result<()> {
    let Loaded { config, ignored_keys } = loaded;
    if cli.verify_config {
        return Ok(writeln!(std::io::stdout(), "config is valid")?);
    }
    logging::start(config.log_level, config.log_format)?;
    for key in &ignored_keys {
        tracing::warn!(key, "config key ignored: it has no meaning here yet");
    }
    let stop = Latch::new();
    stop_on_signals(stop.clone()).context("cannot handle signals")?;
    run(Boot::new(Arc::new(config), stop))
}

/// Runs the node until it stops.
fn run(boot: Boot) -> anyhow::Result<()> {
    let config: Arc<Config> = Arc::clone(&boot.config);
    let options = LaunchOptions::with_cores(config.cores);
    let shared = boot.clone();
    match config.runtime {
        RuntimeChoice::Monoio => {
            monoio_backend::launch(&options, config.io_driver, move |runtime| {
                app::run_core(runtime, shared.clone())
            })
        }
        RuntimeChoice::Glommio => {
            glommio_backend::launch(&options, move |runtime| app::run_core(runtime, shared.clone()))
        }
    }
    .context("cannot start the cores")?;
    boot.failure().map_or(Ok(()), |failure| Err(anyhow::Error::msg(failure)))
}
