//! Arbitrary bytes as files of settings.

use crate::config::print::{Mode, yaml};
use crate::config::{Limits, Machine, RuntimeFiles, expand, load_text};

/// Reads the bytes as a file of settings, with variables and without, and as files with the limits
/// of tenants. Settings and limits that are accepted can be printed and read again.
fn files(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let machine = Machine { cores: 2, memory_bytes: Ok(8 << 30), limited_by: None };
    let lookup = |name: &str| (!name.len().is_multiple_of(3)).then(|| name.repeat(name.len() % 5));
    let expanded = expand::expand(text, &lookup);
    for text in [Some(text), expanded.as_deref().ok()].into_iter().flatten() {
        if let Ok((config, _)) = load_text(text, &[], &machine) {
            let printed = yaml(&config, Mode::Full);
            let again = load_text(&printed, &[], &machine);
            let (again, _) = again.unwrap_or_else(|errors| panic!("{printed}\n{errors}"));
            assert_eq!(again, config, "{printed}");
        }
    }
    let texts: Vec<String> = text.split("\n---\n").take(3).map(str::to_owned).collect();
    if let Ok(files) = RuntimeFiles::parse(&texts, &Limits::default()) {
        assert!(files.limits.files_sha256.is_some());
    }
}

const SEEDS: [&str; 9] = [
    "auth_enabled: true\nserver: {http_listen_port: 1, log_level: warn}\ncores: 3\n",
    "limits_config:\n  max_line_size: &a 1KB\n  retention_stream: [{selector: '{a=\"b\"}', period: 24h}]\n",
    "overrides:\n  a: {max_line_size: 5, otlp_config: {severity_text_as_label: true}}\n---\noverrides: {b: }\n",
    "data_dir: ${HOME:-/x}/${A:-${B}}$${c}\nruntime_config: {file: a, period: 1s}\n",
    "a: [1, {b: [c]}]\n? x\n: y\nschema_config: {configs: []}\nservr: 1\n",
    "ruler: {alertmanager_url: 'http://a', external_labels: {a: b}, remote_write: {clients: {c: \
     {url: 'http://h', queue_config: {min_backoff: 1s}}}}}\nlimits_config: \
     {ruler_remote_write_relabel_configs: [{action: drop, regex: x}]}\n",
    "storage: {bucket: 's3://b/p', bucket_region: r}\nwal: {durability: store}\n",
    "common: {storage: {s3: {s3: 's3://r/b', sse: {type: SSE-S3}}}}\nstorage_config: {azure: \
     {account_name: a}, named_stores: {gcs: {mine: {bucket_name: b}}}}\nschema_config: {configs: \
     [{from: 2020-01-01, store: tsdb, object_store: mine, schema: v13}]}\n",
    "common: {path_prefix: \"\\u00e9 \\n\"}\nlimits_config: {otlp_config: {log_attributes: [{action: drop, regex: 'a.*'}]}}\n",
];

#[test]
fn examples_and_what_is_near_them() {
    let mut state = 7_u64;
    let mut random = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for seed in SEEDS {
        files(seed.as_bytes());
        for _ in 0..60 {
            let mut bytes = seed.as_bytes().to_vec();
            for _ in 0..=random(3) {
                let place = random(bytes.len());
                match random(3) {
                    0 => bytes[place] = b"{}[]:&*${}\n'\"- \\#x"[random(18)],
                    1 => drop(bytes.remove(place)),
                    _ => bytes.insert(place, b"{}[]:&*${}\n'\"- \\#x"[random(18)]),
                }
            }
            files(&bytes);
        }
    }
}
