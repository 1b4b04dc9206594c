// The text of a line as elements. It is only ever text: colours are classes and properties, and
// nothing of a line is read as markup.

import type { JSX } from 'preact';
import { pieces, type Match, type Piece } from '../text/pieces';
import type { Style } from '../text/ansi';

function colours(s: Style): { class: string; style: Record<string, string> } {
  const names: string[] = [];
  const style: Record<string, string> = {};
  const [fg, bg] = s.inverse ? [s.bg, s.fg] : [s.fg, s.bg];
  if (s.inverse) names.push('ansi-inverse');
  if (fg?.startsWith('rgb')) { style.color = fg; names.push('ansi-rgb'); } else if (fg) names.push(`ansi-${fg}`);
  if (bg?.startsWith('rgb')) { style.backgroundColor = bg; names.push('ansi-rgb-bg'); } else if (bg) names.push(`ansi-bg ansi-bg-${bg}`);
  if (s.bold) names.push('ansi-bold');
  if (s.dim) names.push('ansi-dim');
  if (s.italic) names.push('ansi-italic');
  if (s.underline) names.push('ansi-underline');
  return { class: names.join(' '), style };
}

function one(p: Piece, i: number): JSX.Element | string {
  const inner = p.mark ? <span class="control" key={i} title="A character that is not shown">{p.text}</span> : p.text;
  const text = p.hit ? <mark key={i}>{inner}</mark> : inner;
  if (!p.style) return text;
  const c = colours(p.style);
  return <span key={i} class={c.class} style={c.style}>{text}</span>;
}

export function LineText({ line, matches, length }: { line: string; matches: readonly Match[]; length?: number }): JSX.Element {
  return <>{pieces(line, matches, length).map(one)}</>;
}
