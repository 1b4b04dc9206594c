//! The seeds of randomised tests, and how to replay one.

/// The seeds of a randomised test: `count` of them. The environment may give another number
/// (`LOGSVC_SEEDS`), or the one seed to replay (`LOGSVC_SEED`).
///
/// # Panics
/// If a variable does not hold a number.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
    };
    match number("LOGSVC_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LOGSVC_SEEDS").unwrap_or(count),
    }
}

/// Prints its seed if the test panics before the guard is dropped.
#[derive(Debug)]
pub struct SeedGuard(pub u64);

impl Drop for SeedGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {}; LOGSVC_SEED={} replays it", self.0, self.0);
        }
    }
}
