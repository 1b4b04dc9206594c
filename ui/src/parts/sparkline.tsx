import type { JSX } from 'preact';

/** A small chart without axes. Its meaning is in the text beside it. */
export function Sparkline({ values }: { values: readonly number[] }): JSX.Element {
  const max = Math.max(1, ...values);
  const n = Math.max(1, values.length);
  return (
    <svg class="sparkline" viewBox={`0 0 ${n} 20`} preserveAspectRatio="none" aria-hidden="true" focusable="false">
      {values.map((v, i) => v > 0 && <rect key={i} x={i + 0.1} width={0.8} y={20 - Math.max(1, (v / max) * 20)} height={Math.max(1, (v / max) * 20)} />)}
    </svg>
  );
}
