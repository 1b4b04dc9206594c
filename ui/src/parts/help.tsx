import type { JSX } from 'preact';
import { Dialog } from './dialog';

const KEYS: [string, string][] = [
  ['/', 'Write the query'], ['Enter', 'Run it (Shift+Enter: new line)'], ['Ctrl+Space', 'Complete'],
  ['j  k  ↓  ↑', 'Next, previous line'], ['PgDn  PgUp', 'A page further'], ['Home  End', 'First, last line'], ['e  Enter', 'Open the line'],
  ['c', 'Surrounding lines of the open line'], ['Escape', 'Close what is open'], ['w', 'Wrap lines'], ['r', 'Run again'],
  ['1 … 6', 'Search, explore, tail, alerts, deletions, node'], ['?', 'This help'],
];

export const Help = ({ onClose }: { onClose: () => void }): JSX.Element => (
  <Dialog title="Keys" onClose={onClose}>
    <dl class="keys">{KEYS.map(([k, text]) => [<dt key={k}>{k.split('  ').map((x) => <kbd key={x}>{x}</kbd>)}</dt>, <dd key={text}>{text}</dd>])}</dl>
    <p class="muted">In the histogram the arrows move, Shift and arrows select, and Enter goes to the selection.</p>
    <div class="bar end"><button type="button" class="button plain" onClick={onClose}>Close</button></div>
  </Dialog>
);
