// CodeMirror for LogQL. It lives in a shadow root: there its styles are adopted style sheets, which the
// content policy allows, while in the document they would be <style> elements, which it refuses.

import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, completionStatus } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, insertNewline } from '@codemirror/commands';
import { LRLanguage, LanguageSupport, bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { EditorState, StateEffect, StateField, Prec } from '@codemirror/state';
import { Decoration, EditorView, keymap, placeholder, type DecorationSet } from '@codemirror/view';
import { parser } from '@grafana/lezer-logql';
import { styleTags, tags as t } from '@lezer/highlight';
import { completeLogql } from './completion';
import { errorPlace } from '../parts/notice';

export interface EditorHandle {
  set(value: string): void;
  focus(at?: number): void;
  showError(message: string | null): void;
  destroy(): void;
}

export interface EditorOptions { value: string; label: string; onRun: (q: string) => void; onChange: (q: string) => void }

const language = LRLanguage.define({
  parser: parser.configure({
    props: [styleTags({
      LineComment: t.comment, Identifier: t.propertyName, String: t.string, 'Number Duration Bytes': t.number,
      'Json Logfmt Unpack Pattern Regexp Unwrap LabelFormat LineFormat LabelReplace Decolorize Drop Keep': t.keyword,
      'By Without On Ignoring GroupLeft GroupRight Bool Offset And Or Unless': t.keyword,
      'Sum Avg Count Max Min Stddev Stdvar Bottomk Topk Sort Sort_Desc Vector': t.function(t.variableName),
      'RangeOp/... CountOverTime Rate RateCounter BytesOverTime BytesRate AvgOverTime SumOverTime MinOverTime MaxOverTime StddevOverTime StdvarOverTime QuantileOverTime FirstOverTime LastOverTime AbsentOverTime': t.function(t.variableName),
      'Eq Neq Re Nre PipeExact PipeMatch PipePattern Npa Pipe': t.operator,
    })],
  }),
  languageData: { closeBrackets: { brackets: ['(', '[', '{', '"', '`'] }, commentTokens: { line: '#' } },
});

const colours = HighlightStyle.define([
  { tag: t.comment, color: 'var(--text-muted)', fontStyle: 'italic' },
  { tag: t.propertyName, color: 'var(--syntax-name)' },
  { tag: t.string, color: 'var(--syntax-string)' },
  { tag: t.number, color: 'var(--syntax-number)' },
  { tag: t.keyword, color: 'var(--syntax-keyword)' },
  { tag: t.function(t.variableName), color: 'var(--syntax-keyword)' },
  { tag: t.operator, color: 'var(--text-muted)' },
]);

const theme = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'transparent', fontSize: '14px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '22px', fontVariantLigatures: 'none', maxHeight: '154px', overflow: 'auto' },
  '.cm-content': { padding: '6px 0', caretColor: 'var(--text)' },
  '.cm-line': { padding: '0 10px' },
  '.cm-placeholder': { color: 'var(--text-muted)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused .cm-matchingBracket': { backgroundColor: 'var(--hover)', outline: '1px solid var(--border-strong)' },
  '.cm-mistake': { textDecoration: 'underline wavy var(--danger)', textUnderlineOffset: '4px', backgroundColor: 'var(--danger-soft)' },
  '.cm-tooltip': { backgroundColor: 'var(--surface-raised)', border: '1px solid var(--border-strong)', borderRadius: '6px', boxShadow: 'var(--shadow)', color: 'var(--text)', overflow: 'hidden' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', fontSize: '13px', maxHeight: '280px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { padding: '3px 10px', lineHeight: '20px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent)', color: 'var(--on-accent)' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '600' },
  '.cm-completionDetail': { fontStyle: 'normal', opacity: '0.75', marginLeft: '12px', fontFamily: 'var(--sans)', fontSize: '12px' },
});

const setMistake = StateEffect.define<string | null>();
const mistake = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, tr) {
    // A mistake that is being worked on is not shown any longer.
    if (tr.docChanged) marks = Decoration.none;
    for (const e of tr.effects) if (e.is(setMistake)) marks = markOf(tr.state, e.value);
    return marks;
  },
  provide: (f) => EditorView.decorations.from(f),
});

function markOf(state: EditorState, message: string | null): DecorationSet {
  const place = message ? errorPlace(message, state.doc.toString()) : null;
  if (!place || place.line < 1 || place.line > state.doc.lines) return Decoration.none;
  const line = state.doc.line(place.line);
  const at = Math.min(line.from + place.column - 1, line.to);
  const from = Math.min(at, Math.max(line.from, line.to - 1));
  const word = line.text.slice(from - line.from).match(/^\w+/)?.[0].length ?? 1;
  const to = Math.min(line.to, from + word);
  return from < to ? Decoration.set(Decoration.mark({ class: 'cm-mistake' }).range(from, to)) : Decoration.none;
}

export function createEditor(host: HTMLElement, o: EditorOptions): EditorHandle {
  const outer = document.createElement('div');
  outer.className = 'query-editor';
  const root = outer.attachShadow({ mode: 'open' });
  const inner = document.createElement('div');
  root.append(inner);
  host.append(outer);
  const run = (v: EditorView) => { o.onRun(v.state.doc.toString()); return true; };
  const view = new EditorView({
    parent: inner,
    root,
    state: EditorState.create({
      doc: o.value,
      extensions: [
        history(), bracketMatching(), closeBrackets(), new LanguageSupport(language), syntaxHighlighting(colours), theme, mistake,
        autocompletion({ override: [completeLogql], icons: false, maxRenderedOptions: 200, activateOnTypingDelay: 120 }),
        placeholder('{service_name=~".+"} |= "text"'),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': o.label, spellcheck: 'false', autocapitalize: 'off' }),
        Prec.highest(keymap.of([
          // Tab is not trapped, unless it takes a completion that is shown.
          { key: 'Tab', run: (v) => completionStatus(v.state) === 'active' && acceptCompletion(v) },
          { key: 'Enter', run: (v) => (completionStatus(v.state) === 'active' && acceptCompletion(v)) || run(v), shift: insertNewline },
          { key: 'Mod-Enter', run },
        ])),
        keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.updateListener.of((u) => { if (u.docChanged) o.onChange(u.state.doc.toString()); }),
      ],
    }),
  });
  return {
    set(value) {
      const old = view.state.doc.toString();
      if (old !== value) view.dispatch({ changes: { from: 0, to: old.length, insert: value }, selection: { anchor: value.length } });
    },
    focus(at) {
      view.focus();
      view.dispatch({ selection: { anchor: Math.min(at ?? view.state.doc.length, view.state.doc.length) } });
    },
    showError(message) { view.dispatch({ effects: setMistake.of(message) }); },
    destroy() { view.destroy(); outer.remove(); },
  };
}
