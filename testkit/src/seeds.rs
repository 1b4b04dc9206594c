//! The seeds of randomised tests, and how to replay one.

/// The seeds of a randomised test: `count` of them. The environment may give another number, or a
/// range as in `500..1000` (`LOGSVC_SEEDS`), or the one seed to replay (`LOGSVC_SEED`).
///
/// # Panics
/// If a variable does not hold a number or a range.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let number = |text: &str| -> u64 {
        text.parse().unwrap_or_else(|_| panic!("seeds are numbers, and not {text}"))
    };
    if let Ok(seed) = std::env::var("LOGSVC_SEED") {
        let seed = number(&seed);
        return seed..seed + 1;
    }
    match std::env::var("LOGSVC_SEEDS") {
        Err(_) => 0..count,
        Ok(text) => match text.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => 0..number(&text),
        },
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
