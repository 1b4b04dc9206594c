import test from 'node:test';
import assert from 'node:assert/strict';
import { ansiRuns, stripAnsi } from '../../src/text/ansi';
import { parseJson, plain } from '../../src/text/json';
import { fieldsOf } from '../../src/text/fields';
import { pieces, visible } from '../../src/text/pieces';
import { bytes } from '../../src/text/size';
import { csvRow } from '../../src/text/csv';
import { hash } from '../../src/text/hash';

test('numbers keep their characters', () => {
  const f = fieldsOf('{"id":9800125870205439,"n":1.10,"m":-9222742375320771188,"e":1e400,"in":{"a b":true},"l":[1,2]}');
  assert.deepEqual(f.map((x) => [x.name, x.value, x.filter]), [
    ['id', '9800125870205439', true], ['n', '1.10', true], ['m', '-9222742375320771188', true],
    ['e', '1e400', true], ['in_a_b', 'true', true], ['l', '[1,2]', false]]);
});

test('what is no JSON is none', () => {
  for (const bad of ['{', '{"a":01}', '{"a":1,}', '{"a":1} x', '[1 2]', '"\\q"', '{"a":1.}', '['.repeat(100_000)]) {
    assert.equal(parseJson(bad), null, bad.slice(0, 20));
  }
  assert.equal(plain(parseJson('"a\\u0041\n"')!), 'aA\n');
});

test('logfmt, and prose that is not', () => {
  assert.deepEqual(fieldsOf('level=info msg="a \\"b\\"" took=12ms').map((f) => f.value), ['info', 'a "b"', '12ms']);
  assert.deepEqual(fieldsOf('this is a long sentence where a=1 and b=2 stand somewhere'), []);
});

test('colours are runs, other escapes vanish', () => {
  const text = 'a\x1b[31mred\x1b[1mbold\x1b[0m b\x1b[2K\x1b]8;;http://x\x07link';
  const runs = ansiRuns(text);
  assert.deepEqual(runs.map((r) => [text.slice(r.start, r.end), r.style]), [
    ['a', null], ['red', { fg: '1' }], ['bold', { fg: '1', bold: true }], [' b', null], ['link', null]]);
  assert.equal(stripAnsi(text), 'aredbold blink');
  assert.deepEqual(ansiRuns('\x1b[38;2;1;2;3;48;5;196mx')[0]!.style, { fg: 'rgb(1,2,3)', bg: 'rgb(255,0,0)' });
  assert.deepEqual(ansiRuns('\x1b[38;2;999;2;3mx')[0]!.style, null);
});

test('pieces: matches across colours, marks, and a cut', () => {
  const text = 'ab\x1b[31mcd\x1b[0m\u202eef\u0000';
  const p = pieces(text, [{ start: 1, end: 8 }]);
  assert.deepEqual(p.map((x) => [x.text, x.hit, x.mark]), [
    ['a', false, false], ['b', true, false], ['c', true, false], ['d', false, false],
    ['U+202E', false, true], ['ef', false, false], ['\u2400', false, true]]);
  assert.equal(pieces('x'.repeat(10), [], 4).map((x) => x.text).join(''), 'xxxx');
  assert.equal(pieces('abc😀d', [], 4).map((x) => x.text).join(''), 'abc');
  assert.equal(visible('a\n\u200bb'), 'a\u240aU+200Bb');
});

test('small things', () => {
  assert.equal(bytes(999), '999 B');
  assert.equal(bytes(200_000), '200 kB');
  assert.equal(bytes(1234), '1.2 kB');
  assert.equal(csvRow(['a', 'b"c', 'd\n']), 'a,"b""c","d\n"\r\n');
  assert.notEqual(hash('ab'), hash('ba'));
});
