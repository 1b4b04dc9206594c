//! Log lines on standard error.
//!
//! Guarantees: lines of this project from the configured level on, and lines of
//! libraries from `warn` on, in the configured format, with UTC times.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry, fmt, reload};

use crate::config::{LogFormat, LogLevel};

/// The handle that changes the level of a process that logs.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// The level that is in force: a place in [`LEVELS`].
static LEVEL: AtomicU8 = AtomicU8::new(1);

const LEVELS: [LogLevel; 4] = [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error];

/// Lines that were logged, by the place of their level in [`LEVELS`].
static LINES: [AtomicU64; LEVELS.len()] = [const { AtomicU64::new(0) }; LEVELS.len()];

/// Counts the lines that pass the filter.
struct CountLines;

impl<S: tracing::Subscriber> Layer<S> for CountLines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let place = match *event.metadata().level() {
            tracing::Level::ERROR => 3,
            tracing::Level::WARN => 2,
            tracing::Level::INFO => 1,
            tracing::Level::DEBUG | tracing::Level::TRACE => 0,
        };
        LINES[place].fetch_add(1, Ordering::Relaxed);
    }
}

/// How many lines of each level were logged.
pub(crate) fn lines() -> impl Iterator<Item = (LogLevel, u64)> {
    LEVELS.into_iter().zip(&LINES).map(|(level, count)| (level, count.load(Ordering::Relaxed)))
}

/// Panics that the process has outlived.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// Has panics counted, besides their usual handling.
pub(crate) fn count_panics() {
    let earlier = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        earlier(info);
    }));
}

/// How many panics the process has outlived. One on a core's thread ends it.
pub(crate) fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

/// Starts logging for the whole process.
///
/// # Errors
///
/// If it has been started before.
pub(crate) fn start(level: LogLevel, format: LogFormat) -> Result<(), SetGlobalDefaultError> {
    let lines = lines_to(std::io::stderr, format);
    let (filter, handle) = reload::Layer::new(targets(level));
    let subscriber = Registry::default().with(lines.and_then(CountLines).with_filter(filter));
    tracing::subscriber::set_global_default(subscriber)?;
    // There is one global subscriber, so there is one handle.
    let _ = FILTER.set(handle);
    remember(level);
    Ok(())
}

/// Writes lines in a format.
fn lines_to<W>(writer: W, format: LogFormat) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'w> fmt::MakeWriter<'w> + Send + Sync + 'static,
{
    let lines = fmt::layer().with_writer(writer);
    match format {
        LogFormat::Text => Box::new(lines.with_target(false).with_ansi(false)),
        LogFormat::Json => Box::new(lines.json().flatten_event(true)),
    }
}

/// The lines that this thread logs meanwhile, of all levels from `info` on.
#[cfg(test)]
pub(crate) fn captured(format: LogFormat, action: impl FnOnce()) -> String {
    struct Sink(std::sync::mpsc::Sender<Vec<u8>>);
    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let lines = lines_to(move || Sink(sender.clone()), format);
    let subscriber = Registry::default().with(lines.with_filter(targets(LogLevel::Info)));
    tracing::subscriber::with_default(subscriber, action);
    let bytes: Vec<u8> = receiver.try_iter().flatten().collect();
    String::from_utf8(bytes).expect("lines are text")
}

/// The level that is in force.
pub(crate) fn level() -> LogLevel {
    LEVELS[usize::from(LEVEL.load(Ordering::Relaxed)).min(LEVELS.len() - 1)]
}

/// Changes the level of the whole process.
///
/// # Errors
///
/// The process does not log.
pub(crate) fn set_level(level: LogLevel) -> Result<(), String> {
    let filter = FILTER.get().ok_or("logging has not been started")?;
    filter.reload(targets(level)).map_err(|error| error.to_string())?;
    remember(level);
    Ok(())
}

fn remember(level: LogLevel) {
    let place = LEVELS.iter().position(|&known| known == level).unwrap_or(0);
    LEVEL.store(place as u8, Ordering::Relaxed);
}

/// Which lines are written. All crates of this project begin with `logsvc`.
fn targets(level: LogLevel) -> Targets {
    let own = level_filter(level);
    // Lines of libraries at `info` help only their authors.
    Targets::new().with_default(own.min(LevelFilter::WARN)).with_target("logsvc", own)
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn libraries_are_quieter_than_the_server() {
        let cases = [
            (LogLevel::Debug, "logsvc_shards::wal", Level::DEBUG, true),
            (LogLevel::Debug, "logsvc_shards::wal", Level::TRACE, false),
            (LogLevel::Debug, "glommio", Level::INFO, false),
            (LogLevel::Info, "logsvc", Level::INFO, true),
            (LogLevel::Info, "logsvc::front", Level::DEBUG, false),
            (LogLevel::Info, "monoio", Level::WARN, true),
            (LogLevel::Error, "monoio", Level::WARN, false),
            (LogLevel::Error, "logsvc", Level::ERROR, true),
        ];
        for (level, target, line, expected) in cases {
            let written = targets(level).would_enable(target, &line);
            assert_eq!(written, expected, "{level:?} {target} {line}");
        }
    }
}
