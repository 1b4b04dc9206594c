import type { JSX } from 'preact';

const PATHS = {
  play: 'M4.5 3v10l8-5z',
  close: 'M4 4l8 8M12 4l-8 8',
  plus: 'M8 3.5v9M3.5 8h9',
  minus: 'M3.5 8h9',
  column: 'M3 3h10v10H3zM8 3v10',
  count: 'M3 13V9M6.5 13V5M10 13V7M13.5 13V3',
  clock: 'M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 0 0 0-11M8 5v3l2 1.5',
  history: 'M3 8a5 5 0 1 0 1.5-3.5L3 6M3 2.5V6h3.5M8 5.5V8l2 1.2',
  copy: 'M6 6h7v7H6zM10 6V3H3v7h3',
  down: 'M8 3v7M5 7.5L8 10.5l3-3M3 13h10',
  chevron: 'M4 6l4 4 4-4',
  left: 'M10 4L6 8l4 4',
  right: 'M6 4l4 4-4 4',
  wrap: 'M2.5 4h11M2.5 8h8.5a2 2 0 0 1 0 4H8M9.5 10.5L8 12l1.5 1.5M2.5 12h2.5',
  sort: 'M5 3v10M2.5 10.5L5 13l2.5-2.5M11 13V3M8.5 5.5L11 3l2.5 2.5',
  sun: 'M8 5a3 3 0 1 0 0 6a3 3 0 0 0 0-6M8 1.5v1.5M8 13v1.5M1.5 8H3M13 8h1.5M3.4 3.4l1 1M11.6 11.6l1 1M12.6 3.4l-1 1M4.4 11.6l-1 1',
  moon: 'M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z',
  auto: 'M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11',
  help: 'M5.8 6a2.2 2.2 0 1 1 3.2 2c-.7.4-1 .8-1 1.5M8 12v.5',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  lines: 'M2.5 4h11M2.5 8h11M2.5 12h7',
  table: 'M2.5 3h11v10h-11zM2.5 6.5h11M6.5 6.5V13',
  chart: 'M2.5 12l3.5-4 2.5 2 5-6',
  up: 'M4 10l4-4 4 4',
  link: 'M6.5 9.5l3-3M7 4.5l1-1a2.5 2.5 0 0 1 4 4l-1.2 1M9 11.5l-1 1a2.5 2.5 0 0 1-4-4l1.2-1',
  trash: 'M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 8.5h6l.5-8.5',
  refresh: 'M13 8a5 5 0 1 1-1.5-3.5L13 6M13 2.5V6H9.5',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }): JSX.Element {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} fill={name === 'play' ? 'currentColor' : 'none'} stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
