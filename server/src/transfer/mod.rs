//! `logsvc export` and `logsvc import`: entries from a running server into a file, and back.
//!
//! Guarantees: both use the memory of one page or batch, however long the file is. Both keep their
//! place beside the file once everything up to there is on stable storage, so the same command goes
//! on where it ended; other arguments are refused. What cannot be done is told with its reason, and
//! the exit code is not 0.
//!
//! A command has no core: blocking calls hold nobody up.

mod export;
mod import;
#[cfg(feature = "parquet")]
mod parts;
#[cfg(feature = "parquet")]
mod rows;
mod state;
mod wire;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) use export::{ExportFormat, ExportOptions};
pub(crate) use import::ImportOptions;
use wire::Server;

/// Standard input or output instead of a file.
const STANDARD_STREAM: &str = "-";

/// Most bytes of a file with a password or a token.
const SECRET_MAX_BYTES: u64 = 64 << 10;

/// So often something is tried again without any progress, and the pauses before.
const TRIES: u32 = 8;
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// Where a server is, and as whom it is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Destination {
    /// Its address.
    pub(crate) address: String,
    /// The tenant.
    pub(crate) tenant: Option<String>,
    /// The account.
    pub(crate) login: Option<Login>,
}

/// How the account is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Login {
    /// A name, and a file with its password.
    Password { user: String, file: PathBuf },
    /// A file with a token.
    Token(PathBuf),
}

impl Destination {
    fn server(&self) -> io::Result<Server> {
        let login = match &self.login {
            None => None,
            Some(Login::Password { user, file }) => {
                let text = format!("{user}:{}", secret(file)?);
                Some(format!("Basic {}", STANDARD.encode(text)))
            }
            Some(Login::Token(file)) => Some(format!("Bearer {}", secret(file)?)),
        };
        Server::new(&self.address, self.tenant.as_deref(), login.as_deref())
    }

    /// What a place belongs to.
    fn words(&self) -> Vec<String> {
        vec![self.address.clone(), self.tenant.clone().unwrap_or_default()]
    }
}

/// The content of a file without the line break at its end.
fn secret(file: &PathBuf) -> io::Result<String> {
    let mut text = String::new();
    opened(file)?
        .take(SECRET_MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| named(file, &error))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[expect(clippy::disallowed_methods, reason = "a command has no core that it could block")]
fn opened(file: &PathBuf) -> io::Result<File> {
    File::open(file).map_err(|error| named(file, &error))
}

/// An error with the file that it is about.
fn named(file: &std::path::Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

/// Prints a line about the progress. Nobody has to read it.
fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "logsvc: {text}");
}

/// Runs `export`.
pub(crate) fn export(options: &ExportOptions) -> io::Result<ExitCode> {
    export::run(options)
}

/// Runs `import`.
pub(crate) fn import(options: &ImportOptions) -> io::Result<ExitCode> {
    import::run(options)
}

/// Tries without progress.
#[derive(Default)]
struct Tries(u32);

impl Tries {
    fn progress(&mut self) {
        self.0 = 0;
    }

    /// Waits before the next try, at least as long as the server asks for.
    ///
    /// # Errors
    /// There were enough.
    #[expect(clippy::disallowed_methods, reason = "a command has no core that it could block")]
    fn pause(&mut self, least: Option<Duration>, why: io::Error) -> io::Result<()> {
        self.0 += 1;
        if self.0 > TRIES {
            return Err(why);
        }
        let pause = PAUSES.0.saturating_mul(1 << (self.0 - 1)).min(PAUSES.1);
        tell(&format!("{why}; trying again"));
        std::thread::sleep(pause.max(least.unwrap_or_default().min(PAUSES.1)));
        Ok(())
    }
}
