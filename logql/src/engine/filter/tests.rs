use super::*;
use crate::syntax::ast::{LineOperand, Text};

fn filter(op: LineFilterOp, operands: &[&str]) -> LineFilterAst {
    let operands = operands.iter().map(|text| LineOperand::Text(Text::from(*text))).collect();
    LineFilterAst { op, operands }
}

fn columns(lines: &[&[u8]]) -> (Vec<u32>, Vec<u8>) {
    let mut ends = Vec::new();
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend_from_slice(line);
        ends.push(u32::try_from(bytes.len()).expect("small"));
    }
    (ends, bytes)
}

fn kept(filters: &[LineFilterAst], lines: &[&[u8]]) -> Vec<usize> {
    let mut compiled = LineFilters::default();
    compiled.add(filters, &Meter::default()).expect("valid filters");
    let (ends, bytes) = columns(lines);
    let view = Lines { ends: &ends, bytes: &bytes };
    let mut selection = Selection::default();
    let meter = Meter::default();
    assert!(selection.select(0, lines.len(), &meter));
    compiled.narrow(&view, &mut selection, &meter);
    let whole: Vec<usize> = selection.iter().collect();
    let single: Vec<usize> = (0..lines.len()).filter(|&i| compiled.keeps(view.get(i))).collect();
    assert_eq!(whole, single, "block search and line test disagree: {filters:?}");
    whole
}

use LineFilterOp::{Contains, NotContains, NotPattern, NotRegex, Pattern, Regex};

#[test]
fn hits_that_cross_a_line_end_are_not_matches() {
    let lines: &[&[u8]] = &[b"xxab", b"cxab", b"", b"abcab", b"c", b"ab", b"cabc"];
    assert_eq!(kept(&[filter(Contains, &["abc"])], lines), [3, 6]);
    assert_eq!(kept(&[filter(NotContains, &["abc"])], lines), [0, 1, 2, 4, 5]);
    assert_eq!(kept(&[filter(Contains, &["abca", "bc"])], lines), [3, 6]);
    assert_eq!(kept(&[filter(Regex, &["b[c-d]"])], lines), [3, 6]);
    assert_eq!(kept(&[filter(Regex, &["b[c-d]?$"])], lines), [0, 1, 3, 5, 6]);
    // The leftmost alternative crosses the end, a shorter one fits.
    assert_eq!(kept(&[filter(Regex, &["abc|ab"])], lines), [0, 1, 3, 5, 6]);
    assert_eq!(kept(&[filter(Regex, &["^c"])], lines), [1, 4, 6]);
}

#[test]
fn operands_that_match_everything_decide_the_chain() {
    let lines: &[&[u8]] = &[b"foo", b"bar", b""];
    assert_eq!(kept(&[filter(Contains, &["", "foo"])], lines), [0, 1, 2]);
    assert_eq!(kept(&[filter(NotContains, &[""])], lines), [] as [usize; 0]);
    assert_eq!(kept(&[filter(Regex, &["foo|"])], lines), [0, 1, 2]);
    assert_eq!(kept(&[filter(NotRegex, &[".*"])], lines), [] as [usize; 0]);
    assert_eq!(kept(&[filter(Pattern, &[""])], lines), [2]);
    assert_eq!(kept(&[filter(NotPattern, &["<_>"])], lines), [2]);
}

/// Every filter over every cut of a text must agree with the line by line test
/// (`kept` asserts that), and literals with the plain definition.
#[test]
fn block_search_agrees_with_line_tests_on_generated_blocks() {
    let mut seed = 0x5eed_0001_u64;
    let mut random = move |bound: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % bound
    };
    let alphabet = b"aabbcE\n\xff1.";
    for round in 0..300 {
        let lines: Vec<Vec<u8>> = (0..random(90))
            .map(|_| {
                (0..random(9)).map(|_| alphabet[random(alphabet.len() as u64) as usize]).collect()
            })
            .collect();
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        let chains: [&[LineFilterAst]; 10] = [
            &[filter(Contains, &["ab"])],
            &[filter(NotContains, &["a"]), filter(Contains, &["b"])],
            &[filter(Contains, &["aab", "bb", "c"])],
            &[filter(Regex, &["a.c"]), filter(NotContains, &["cc"])],
            &[filter(Regex, &["(?i)[bc]e"])],
            &[filter(Regex, &["^ab|c$"])],
            &[filter(NotRegex, &["a[^b]+b"])],
            &[filter(Regex, &["(?s)a.b"]), filter(Regex, &["\\bb"])],
            &[filter(Pattern, &["<_>ab<_>"]), filter(NotPattern, &["<_>c"])],
            &[filter(Contains, &["1"]), filter(NotContains, &["1.", "E"])],
        ];
        for chain in chains {
            let found = kept(chain, &lines);
            if let [LineFilterAst { op: Contains, operands }] = chain {
                let plain: Vec<usize> = (0..lines.len())
                    .filter(|&i| {
                        operands.iter().any(|operand| match operand {
                            LineOperand::Text(text) => {
                                memchr::memmem::find(lines[i], text.as_bytes()).is_some()
                            }
                            LineOperand::Ip(_) => false,
                        })
                    })
                    .collect();
                assert_eq!(found, plain, "round {round}, seed 0x5eed0001: {chain:?}");
            }
        }
    }
}
