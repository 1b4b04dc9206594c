//! The seed of a run.

/// The seed of this run, printed so that it can be repeated.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("LOGSVC_SEED") {
        Ok(text) => text.parse().expect("LOGSVC_SEED is a number"),
        Err(_) => super::now_ns().unsigned_abs(),
    };
    eprintln!("LOGSVC_SEED={seed}");
    seed
}
