//! The speed of the machine on the same lines: rates per CPU-second, as a reference for the
//! figures of the server. They are measured in the same run, because the speed of a shared
//! machine varies.

use crate::tree::ThreadTime;
use anyhow::{Context, Result, bail};
use memchr::memmem::Finder;
use serde_json::{Value, json};
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// Bytes that are compressed at once.
const BLOCK_BYTES: usize = 256 * 1024;
/// Bytes that are written and forced to the disk at once, and how often.
const SYNC_BYTES: usize = 512 * 1024;
const SYNCS: usize = 15;

/// The figures.
pub(crate) struct Machine {
    cpus: usize,
    /// Bytes per CPU-second.
    memcpy: f64,
    pub(crate) memmem: f64,
    zstd: Codec,
    lz4: Codec,
    /// Median time to write [`SYNC_BYTES`] and force them to the disk.
    sync_seconds: Option<f64>,
}

#[derive(Clone, Copy)]
struct Codec {
    /// Raw bytes per CPU-second.
    compress: f64,
    decompress: f64,
    /// Compressed bytes per raw byte.
    ratio: f64,
}

/// Measures with some lines of the data set, one behind the other. `absent` must not
/// be in them. Files are written to `folder`, if there is one. Each rate is measured for
/// `cpu_seconds` at least.
pub(crate) fn measure(
    lines: &[u8],
    absent: &str,
    folder: Option<&Path>,
    cpu_seconds: f64,
) -> Result<Machine> {
    if lines.len() < BLOCK_BYTES {
        bail!("too few lines to measure the machine with");
    }
    let mut copy = vec![0_u8; lines.len()];
    let memcpy = rate(cpu_seconds, lines.len(), || {
        copy.copy_from_slice(black_box(lines));
        black_box(&copy);
        Ok(())
    })?;
    let finder = Finder::new(absent);
    let memmem = rate(cpu_seconds, lines.len(), || match finder.find(black_box(lines)) {
        None => Ok(()),
        Some(at) => bail!("the absent id is at {at}"),
    })?;
    drop(copy);
    Ok(Machine {
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        memcpy,
        memmem,
        zstd: zstd(lines, cpu_seconds)?,
        lz4: lz4(lines, cpu_seconds)?,
        sync_seconds: folder.map(sync_seconds).transpose()?,
    })
}

/// Bytes per CPU-second of a piece of work on `bytes` bytes, which is done until this
/// thread has used `cpu_seconds`.
pub(crate) fn rate(
    cpu_seconds: f64,
    bytes: usize,
    mut work: impl FnMut() -> Result<()>,
) -> Result<f64> {
    // The first pass pays for pages that were never touched.
    work()?;
    let no_counter = "the kernel does not show the CPU time of a thread";
    let begin = ThreadTime::own_thread().context(no_counter)?;
    for pass in 1_u32.. {
        work()?;
        let now = ThreadTime::own_thread().context(no_counter)?;
        let seconds = now.seconds_since(begin).unwrap_or(0.0);
        if seconds >= cpu_seconds {
            return Ok(bytes as f64 * f64::from(pass) / seconds);
        }
    }
    bail!("the CPU time of this thread does not move")
}

fn zstd(lines: &[u8], cpu_seconds: f64) -> Result<Codec> {
    let mut compressor = zstd::bulk::Compressor::new(1)?;
    let mut decompressor = zstd::bulk::Decompressor::new()?;
    codec(
        lines,
        cpu_seconds,
        |block, out| Ok(compressor.compress_to_buffer(block, out)?),
        |block, out| Ok(decompressor.decompress_to_buffer(block, out)?),
    )
}

fn lz4(lines: &[u8], cpu_seconds: f64) -> Result<Codec> {
    codec(
        lines,
        cpu_seconds,
        |block, out| Ok(lz4_flex::block::compress_into(block, out)?),
        |block, out| Ok(lz4_flex::block::decompress_into(block, out)?),
    )
}

fn codec(
    lines: &[u8],
    cpu_seconds: f64,
    mut compress: impl FnMut(&[u8], &mut [u8]) -> Result<usize>,
    mut decompress: impl FnMut(&[u8], &mut [u8]) -> Result<usize>,
) -> Result<Codec> {
    let mut out = vec![0; BLOCK_BYTES * 2];
    let mut compressed: Vec<Vec<u8>> = Vec::new();
    let compress = rate(cpu_seconds, lines.len(), || {
        compressed.clear();
        for block in lines.chunks(BLOCK_BYTES) {
            let len = compress(block, &mut out)?;
            compressed.push(out[..len].to_vec());
        }
        Ok(())
    })?;
    let decompress = rate(cpu_seconds, lines.len(), || {
        for block in &compressed {
            black_box(decompress(block, &mut out)?);
        }
        Ok(())
    })?;
    let compressed_bytes: usize = compressed.iter().map(Vec::len).sum();
    Ok(Codec { compress, decompress, ratio: compressed_bytes as f64 / lines.len() as f64 })
}

fn sync_seconds(folder: &Path) -> Result<f64> {
    let path = folder.join("bench-sync");
    let mut file = File::create(&path).with_context(|| format!("creating {path:?}"))?;
    let block = vec![b'x'; SYNC_BYTES];
    let mut seconds = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let clock = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        seconds.push(clock.elapsed().as_secs_f64());
    }
    std::fs::remove_file(&path)?;
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[SYNCS / 2])
}

impl Machine {
    pub(crate) fn figures(&self) -> Value {
        let codec = |codec: &Codec| {
            json!({
                "compress_gb_per_cpu_second": codec.compress / 1e9,
                "decompress_gb_per_cpu_second": codec.decompress / 1e9,
                "ratio": codec.ratio,
            })
        };
        json!({
            "cpus": self.cpus,
            "memcpy_gb_per_cpu_second": self.memcpy / 1e9,
            "memmem_gb_per_cpu_second": self.memmem / 1e9,
            "zstd_1": codec(&self.zstd),
            "lz4": codec(&self.lz4),
            "sync_512_kib_seconds": self.sync_seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn figures_are_those_of_the_lines() {
        let folder = TempDir::new();
        let lines = b"GET /index.html 200 ".repeat(20_000);
        let machine = measure(&lines, "absent", Some(folder.path()), 0.001).unwrap();
        assert!(machine.memcpy > 0.0 && machine.memmem > 0.0);
        assert!(machine.zstd.ratio < 0.1 && machine.lz4.ratio < 0.1);
        assert!(machine.sync_seconds > Some(0.0));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(measure(&lines, "index", None, 0.001).is_err());
        assert!(measure(b"short", "absent", None, 0.001).is_err());
    }
}
