import test from 'node:test';
import assert from 'node:assert/strict';
import { quote, unquote } from '../../src/logql/quote';
import { isLogQuery, split } from '../../src/logql/split';
import { addFieldFilter, addMatcher, addStage, countBy, levelCounts, selectorOf } from '../../src/logql/edit';
import { findMatches, finderOf } from '../../src/logql/matches';
import { placeAt } from '../../src/logql/cursor';

test('strings survive being quoted', () => {
  for (const s of ['plain', 'a"b\\c', 'line\nbreak\t', '\u0000\u001b[31m', '\u202eabc', '`x`', 'ä€😀']) {
    assert.equal(unquote(quote(s)), s);
  }
  assert.equal(quote('\u202e'), '"\\u202e"');
  assert.equal(unquote('`a\\n`'), 'a\\n');
  assert.equal(unquote('"open'), null);
});

test('queries are taken apart', () => {
  const q = split('{app="a|b", env!~"x"} |= "p" or "q" != "r" | json | level != "info" and n > 3 |~ `z` # end')!;
  assert.deepEqual(q.selector.matchers.map((m) => [m.name, m.op, m.value]), [['app', '=', 'a|b'], ['env', '!~', 'x']]);
  assert.deepEqual(q.stages.map((s) => s.kind), ['line', 'line', 'parser', 'filter', 'line']);
  assert.deepEqual(split('{a="b"} | json != "x"')!.stages.map((s) => s.kind), ['parser', 'line']);
  assert.equal(split('{a="b'), null);
  assert.equal(split('rate({a="b"}[1m])'), null);
  assert.ok(isLogQuery(' # c\n {a="b"}') && !isLogQuery('sum(rate({a="b"}[1m]))'));
});

test('matchers are added once, and = replaces =', () => {
  assert.equal(addMatcher('{app="x"} |= "a"', 'env', '=', 'p"q'), '{app="x", env="p\\"q"} |= "a"');
  assert.equal(addMatcher('{app="x"}', 'app', '=', 'y'), '{app="y"}');
  assert.equal(addMatcher('{app="x"}', 'app', '=', 'x'), '{app="x"}');
  assert.equal(addMatcher('{app=~".+"}', 'app', '!=', 'x'), '{app=~".+", app!="x"}');
  assert.equal(addMatcher('{}', 'app', '=', 'x'), '{app="x"}');
  assert.equal(addMatcher('rate(x)', 'app', '=', 'x'), null);
});

test('field filters bring their parser', () => {
  assert.equal(addFieldFilter('{a="b"}', 'json', 'id', '=', '9800125870205439'), '{a="b"} | json | id="9800125870205439"');
  assert.equal(addFieldFilter('{a="b"} | json', 'json', 'id', '!=', '1'), '{a="b"} | json | id!="1"');
  assert.equal(addFieldFilter('{a="b"} # why', null, 't', '=', '1'), '{a="b"} | t="1"');
  assert.equal(addStage('{a="b"} |= "x"', '|= "x"'), '{a="b"} |= "x"');
});

test('queries that are made', () => {
  assert.equal(levelCounts('{a="b"} |= "x" # c', 60), 'sum by (detected_level) (count_over_time({a="b"} |= "x" [60s]))');
  assert.ok(levelCounts('{a="b"} | json', 5)!.includes('| drop __error__, __error_details__ [5s]'));
  assert.equal(selectorOf('sum(rate({a="}"} |= "x" [1m]))'), '{a="}"}');
  assert.ok(countBy('{a="b"}', 'json', 'n')!.startsWith('topk(10, sum by (n) (count_over_time({a="b"} | json | drop'));
});

test('matches of line filters', () => {
  const f = finderOf('{a="b"} |= "err" != "skip" |~ "(?i)TIME(?P<n>out)" | json |= "two" or "three"');
  assert.deepEqual(f.texts, ['err', 'two', 'three']);
  assert.deepEqual(findMatches('an err, timeout, Timeout', f), [{ start: 3, end: 6 }, { start: 8, end: 15 }, { start: 17, end: 24 }]);
  assert.deepEqual(finderOf('{a="b"} |~ "("').regexes, []);
});

test('what may stand at the cursor', () => {
  const at = (q: string) => placeAt(q.replace('^', ''), q.indexOf('^'));
  assert.deepEqual(at('{^'), { kind: 'label', from: 1, selector: '' });
  assert.deepEqual(at('{app="x", en^}'), { kind: 'label', from: 10, selector: '{app="x"}' });
  assert.deepEqual(at('{app="x", env="p^"}'), { kind: 'value', from: 14, to: 17, label: 'env', selector: '{app="x"}', open: true });
  assert.equal(at('{app=^').kind, 'value');
  assert.equal(at('{app="x"} | js^').kind, 'stage');
  assert.equal(at('{app="x"} |= "js^').kind, 'none');
  assert.equal(at('sum by (^) (rate({app="x"}[1m]))').kind, 'field');
  assert.equal(at('ra^').kind, 'start');
});
