import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { go, state } from '../route';
import { prefer } from '../preferences';
import { isRelative, parseRange, parseTime } from '../time/range';
import { isZone, seconds, zoneName } from '../time/zone';
import { Popover } from './popover';

const QUICK: [string, string][] = [
  ['now-5m', 'Last 5 minutes'], ['now-15m', 'Last 15 minutes'], ['now-1h', 'Last hour'], ['now-3h', 'Last 3 hours'],
  ['now-12h', 'Last 12 hours'], ['now-1d', 'Last day'], ['now-2d', 'Last 2 days'], ['now-1w', 'Last week'],
];

export function rangeName(from: string, to: string, zone: string): string {
  if (to === 'now') {
    const quick = QUICK.find(([f]) => f === from);
    if (quick) return quick[1];
  }
  const name = (t: string) => {
    const ns = isRelative(t) ? null : parseTime(t, 0, zone);
    return ns ? seconds(ns, zone) : t;
  };
  const [a, b] = [name(from), name(to)];
  return `${a} – ${a.slice(0, 10) === b.slice(0, 10) && b.length === 19 ? b.slice(11) : b}`;
}

function Form({ close }: { close: () => void }): JSX.Element {
  const s = state.value;
  const [from, setFrom] = useState(s.from);
  const [to, setTo] = useState(s.to);
  const [tz, setTz] = useState(s.tz);
  const [error, setError] = useState<{ field: string; text: string } | null>(null);
  const apply = (e: Event) => {
    e.preventDefault();
    if (!isZone(tz)) return setError({ field: 'tz', text: `“${tz}” is no time zone. Write local, UTC, or a name such as Europe/Berlin.` });
    const r = parseRange(from, to, Date.now(), tz);
    if (!r.ok) return setError(r);
    prefer({ tz });
    go({ from: from.trim(), to: to.trim(), tz });
    close();
  };
  const bad = (field: string) => (error?.field === field ? { 'aria-invalid': true, 'aria-describedby': 'range-error' } : {});
  return (
    <div class="time-panel">
      <ul class="quick" aria-label="Recent time">
        {QUICK.map(([f, name], i) => (
          <li key={f}><button type="button" class="menu-item" aria-pressed={s.from === f && s.to === 'now'} {...(i === 0 ? { 'data-first': true } : {})}
            onClick={() => { go({ from: f, to: 'now' }); close(); }}>{name}</button></li>
        ))}
      </ul>
      <form class="stack" onSubmit={apply}>
        <label>From <input type="text" value={from} spellcheck={false} autocomplete="off" onInput={(e) => setFrom(e.currentTarget.value)} {...bad('from')} /></label>
        <label>To <input type="text" value={to} spellcheck={false} autocomplete="off" onInput={(e) => setTo(e.currentTarget.value)} {...bad('to')} /></label>
        <label>Time zone <input type="text" list="zones" value={tz} spellcheck={false} autocomplete="off" onInput={(e) => setTz(e.currentTarget.value)} {...bad('tz')} /></label>
        <datalist id="zones"><option value="local" /><option value="UTC" />{(Intl.supportedValuesOf?.('timeZone') ?? []).map((z) => <option key={z} value={z} />)}</datalist>
        {error ? <p id="range-error" class="field-error" role="alert">{error.text}</p> : <p class="muted">now-90m, 2026-11-25 03:00, RFC 3339, or Unix time in s, ms or ns</p>}
        <button type="submit" class="button primary">Apply</button>
      </form>
    </div>
  );
}

export function TimePicker(): JSX.Element {
  const s = state.value;
  const name = rangeName(s.from, s.to, s.tz);
  return (
    <Popover label="Range of time" icon="clock" text={s.tz === 'local' ? name : `${name} · ${zoneName(s.tz)}`} class="time-picker">
      {(close) => <Form close={close} />}
    </Popover>
  );
}
