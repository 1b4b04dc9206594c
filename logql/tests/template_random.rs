//! Random templates: whatever the text is, execution ends, and gives one output.

use logsvc_logql::engine::testing::check_template;
use logsvc_logql::testing::Rng;

/// Templates to start from; the text behind a NUL is the value of the label `x`.
const SEEDS: [&str; 16] = [
    "{{.x}} {{.app | upper | printf \"%5s|%-7q|%v\" 1.5}}\x00value",
    "{{if eq .n 12}}a{{else if and .x (not .y)}}b{{else}}c{{end}}\x00v",
    "{{range $i, $v := fromJson .x}}{{$i}}={{$v}}{{break}}{{else}}-{{end}}\x00[1,{\"a\":null}]",
    "{{define \"t\"}}{{.}}{{template \"t\" .}}{{end}}{{with .x}}{{template \"t\" .}}{{end}}\x00v",
    "{{$a := 1}}{{range 5}}{{$a = mul $a 7}}{{end}}{{$a}} {{len (index . \"x\")}}\x00v",
    "{{regexReplaceAll \"(a)|b*\" .x \"<$1>\"}} {{count \".\" .x}}\x00abba\u{e9}",
    "{{__timestamp__ | date .x}} {{toDateInZone .x \"Europe/Berlin\" \"1 Jan 2\"}}\x002006 Jan _2 MST -07:00 .000",
    "{{unixToTime .x}} {{(toDate \"2006\" .x).AddDate 1 -2 3}}\x001773100800",
    "{{trunc -3 .x}}{{substr 1 2 .x}}{{slice .x 1}}{{alignRight 9 .x}}{{indent 2 .x}}\x00a\nb\u{65e5}",
    "{{addf .x 0.1 | mulf 3 | divf 7}} {{round .x 2}} {{int .x}} {{mod .n 5}}\x001e300",
    "{{bytes .x}} {{duration \"1h\"}}\x001.5KiB",
    "{{b64dec .x}} {{urldecode .x}} {{html .x}} {{js .x}} {{title .x}}\x00a%20b<\u{1c6}>",
    "{{- /* c */ -}} {{\"}}\"}} {{`a`}} {{'x'}} {{0x1p4}} {{.}}\x00v",
    "{{printf .x 1 \"a\" 2.5 .y true}}\x00%[2]*d %#x %+q %U %08.3f %T %!",
    "{{block \"b\" (print .x .n)}}{{.}}{{end}}{{println 1 .x}}{{default 5 .y}}\x00v",
    "{{repeat 20 .x | replace \"a\" \"aa\" | trimAll \"a\" | b64enc}}\x00aba",
];

/// Pieces of templates.
const PIECES: [&str; 28] = [
    "{{",
    "}}",
    "{{- ",
    " -}}",
    "(",
    ")",
    "|",
    ".",
    ".x",
    "$",
    "$v",
    ":=",
    "=",
    " ",
    "\"a\"",
    "1",
    "-1",
    "1e9",
    "{{end}}",
    "{{else}}",
    "{{if .x}}",
    "{{range 3}}",
    "{{with .x}}",
    "/*",
    "*/",
    "\0",
    "len ",
    "\u{e9}",
];

#[test]
fn seeds_have_outputs_or_fail_as_they_should() {
    let outputs = SEEDS.iter().filter(|seed| check_template(seed.as_bytes())).count();
    // Two fail: comparing a string with a number, and endless recursion.
    assert_eq!(outputs, SEEDS.len() - 2);
}

#[test]
fn damaged_templates_end() {
    for seed in 0..20_000 {
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
        let _ = check_template(&text);
    }
}

#[test]
fn random_pieces_end() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let pieces: String = (0..rng.below(40)).map(|_| *rng.pick(&PIECES)).collect();
        let _ = check_template(pieces.as_bytes());
        let bytes: Vec<u8> = (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect();
        let _ = check_template(&[b"{{", bytes.as_slice()].concat());
    }
}
