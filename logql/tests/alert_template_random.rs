//! Templates of alerts out of damaged seeds and random pieces: no panic, bounded output and needs.

use logsvc_fuzz_bodies::logql::alert_template;
use logsvc_logql::testing::Rng;

/// Templates that have an output.
const SEEDS: [&str; 8] = [
    "{{ $labels.app }} has {{ $value | humanize }} of {{ .Value | humanize1024 }}",
    "{{ range query \"up\" | sortByLabel \"app\" }}{{ .Labels.app }}={{ .Value }}{{ end }}",
    "{{ with query \"ab\" }}{{ . | first | value | humanizeDuration }}{{ end }}",
    "{{ range $i, $l := logLines 3 }}{{ $i }}{{ $l | toUpper | title }}{{ end }}\0a line",
    "{{ define \"t\" }}{{ .arg0 }}{{ end }}{{ template \"t\" (args $labels 1 2.5) }}",
    "{{ reReplaceAll \"(a+)b\" \"<$1>\" $labels.x }}{{ match \"a.c\" \"abc\" }}\0aab ab",
    "{{ stripDomain $labels.x }}{{ stripPort .Labels.x }}{{ graphLink .ExternalURL }}\0a.b:80",
    "{{ humanizeTimestamp $value }}{{ toTime 1.5 }}{{ pathPrefix }}{{ printf \"%v\" . }}\0http://x/y",
];

const PIECES: [&str; 44] = [
    "{{",
    "}}",
    " ",
    "|",
    "(",
    ")",
    ".",
    "$",
    "$labels",
    "$value",
    "$x",
    " := ",
    "\"",
    "`",
    "1",
    "-3.5e9",
    "\"up\"",
    "query ",
    "first ",
    "value ",
    "label ",
    "sortByLabel ",
    "args ",
    "logLines ",
    "humanize ",
    "humanize1024 ",
    "humanizeDuration ",
    "humanizeTimestamp ",
    "toTime ",
    "stripDomain ",
    "reReplaceAll ",
    "match ",
    "printf ",
    "index ",
    "slice ",
    "len ",
    ".Labels",
    "{{end}}",
    "{{else}}",
    "{{range query \"abc\"}}",
    "{{with $labels.x}}",
    "{{if .}}",
    "\0",
    "é",
];

#[test]
fn seeds_have_outputs() {
    for seed in SEEDS {
        assert!(alert_template(seed.as_bytes()), "{seed}");
    }
}

#[test]
fn damaged_templates_of_alerts_end() {
    for seed in 0..10_000 {
        let mut rng = Rng::new(seed);
        let mut text = rng.pick(&SEEDS).as_bytes().to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(text.len() + 1);
            match rng.below(4) {
                0 => drop(text.splice(at..at, rng.pick(&PIECES).bytes())),
                1 if at < text.len() => drop(text.remove(at)),
                2 if at < text.len() => text[at] = rng.next_u64() as u8,
                _ => {
                    let other = rng.pick(&SEEDS).as_bytes();
                    let from = rng.below(other.len());
                    drop(text.splice(at..at, other[from..].iter().copied()));
                }
            }
        }
        let _ = alert_template(&text);
    }
}

#[test]
fn random_pieces_end() {
    for seed in 0..10_000 {
        let mut rng = Rng::new(seed);
        let pieces: String = (0..rng.below(40)).map(|_| *rng.pick(&PIECES)).collect();
        let _ = alert_template(pieces.as_bytes());
        let bytes: Vec<u8> = (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect();
        let _ = alert_template(&[b"{{", bytes.as_slice()].concat());
    }
}
