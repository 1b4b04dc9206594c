// Requests to delete lines: the list, a new one with a count of what it would hide, and cancelling.

import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { cancelDeletion, createDeletion, deletions, metricNow, type Deletion } from '../api';
import { ServerError } from '../http';
import { isLogQuery } from '../logql/split';
import { Button } from '../parts/button';
import { Dialog } from '../parts/dialog';
import { Notice, Problem } from '../parts/notice';
import { say } from '../parts/toast';
import { useLoad } from '../parts/use-load';
import { state, zone } from '../route';
import { visible } from '../text/pieces';
import { count } from '../text/size';
import { parseRange } from '../time/range';
import { seconds } from '../time/zone';

const time = (unix: number): string => seconds(String(BigInt(Math.floor(unix)) * 1_000_000_000n), zone.value);

interface Planned { query: string; start: number; end: number; lines: number }

function Create({ onDone }: { onDone: () => void }): JSX.Element {
  const s = state.value;
  const [error, setError] = useState<string | null>(null);
  const [plan, setPlan] = useState<Planned | null>(null);
  const [busy, setBusy] = useState(false);
  const check = async (e: Event) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const [query, from, to] = ['query', 'from', 'to'].map((n) => String(form.get(n) ?? '').trim()) as [string, string, string];
    if (!isLogQuery(query)) return setError('Write a log query: a selector such as {app="pay"}, maybe with stages.');
    const r = parseRange(from, to, Date.now(), s.tz);
    if (!r.ok) return setError(r.text);
    const start = Number(BigInt(r.range.from) / 1_000_000_000n);
    const end = Math.min(Number(BigInt(r.range.to) / 1_000_000_000n), Math.floor(Date.now() / 1000));
    setBusy(true);
    setError(null);
    try {
      const found = await metricNow(`sum(count_over_time(${query}\n[${Math.max(1, end - start + 1)}s]))`, String(BigInt(end + 1) * 1_000_000_000n - 1n), undefined);
      setPlan({ query, start, end, lines: Number(found[0]?.samples[0]?.v ?? 0) });
    } catch (x) {
      setError((x as Error).message);
    }
    setBusy(false);
  };
  const confirm = async () => {
    setBusy(true);
    try {
      await createDeletion(plan!.query, String(plan!.start), String(plan!.end));
      say('The lines are hidden now');
      onDone();
    } catch (x) {
      setError((x as Error).message);
    }
    setPlan(null);
    setBusy(false);
  };
  return (
    <form class="delete-form" onSubmit={(e) => void check(e)}>
      <label class="wide">Lines to delete <input type="text" name="query" class="mono" defaultValue={s.q} placeholder={'{app="pay"} |= "card"'} spellcheck={false} autocomplete="off" /></label>
      <label>From <input type="text" name="from" defaultValue={s.from} spellcheck={false} autocomplete="off" /></label>
      <label>To <input type="text" name="to" defaultValue={s.to} spellcheck={false} autocomplete="off" /></label>
      <button type="submit" class="button plain" disabled={busy}>Count, then delete…</button>
      {error && <p class="field-error" role="alert">{visible(error)}</p>}
      {plan && (
        <Dialog title={plan.lines === 0 ? 'No line matches now' : `Delete ${count(plan.lines)} lines?`} onClose={() => setPlan(null)}>
          <pre class="source wrap" tabIndex={0} aria-label="Query">{visible(plan.query)}</pre>
          <p>From {time(plan.start)} to {time(plan.end)}, both included. The lines are hidden from all queries at once, and leave the disk when the time for cancelling is over. Then nothing brings them back.</p>
          <div class="bar end"><Button label="Keep them" onClick={() => setPlan(null)} /><Button kind="danger" icon="trash" label="Delete" disabled={busy} onClick={() => void confirm()} /></div>
        </Dialog>)}
    </form>
  );
}

function Cancel({ d, onDone }: { d: Deletion; onDone: () => void }): JSX.Element {
  const [ask, setAsk] = useState(false);
  const [error, setError] = useState<ServerError | null>(null);
  const late = error !== null && /force/.test(error.message);
  const run = async () => {
    try {
      await cancelDeletion(d.request_id, late);
      say(late ? 'Cancelled. Lines that were removed by then are gone' : 'Cancelled, the lines are visible again');
      setAsk(false);
      onDone();
    } catch (e) {
      setError(e as ServerError);
    }
  };
  return (
    <>
      <Button kind="quiet" icon="close" label="Cancel" onClick={() => { setError(null); setAsk(true); }} />
      {ask && (
        <Dialog title="Cancel this deletion?" onClose={() => setAsk(false)}>
          <pre class="source wrap" tabIndex={0} aria-label="Query">{visible(d.query)}</pre>
          {error ? <p class="field-error" role="alert">{error.message}</p> : <p>Its lines become visible again.</p>}
          {late && <p>Forcing it shows what is still there. Lines that were removed by then stay gone.</p>}
          <div class="bar end"><Button label="Leave it" onClick={() => setAsk(false)} />
            {(!error || late) && <Button kind={late ? 'danger' : 'primary'} label={late ? 'Force' : 'Cancel the deletion'} onClick={() => void run()} />}</div>
        </Dialog>)}
    </>
  );
}

export function DeletionsView(): JSX.Element {
  const list = useLoad(deletions, [state.value.tenant], 30_000);
  const off = list.error instanceof ServerError && (list.error.status === 403 || /not enabled/.test(list.error.message));
  return (
    <div class="view">
      <div class="toolbar"><h1 class="view-title">Deletions</h1></div>
      <div class="scroll pad">
        {off ? (
          <Notice title="Deletion is switched off">
            <p>{list.error!.message}. Two settings switch it on:</p>
            <pre class="source" tabIndex={0} aria-label="Settings">{'compactor:\n  retention_enabled: true\nlimits_config:\n  deletion_mode: filter-and-delete'}</pre>
          </Notice>)
          : list.error ? <Problem error={list.error} retry={list.reload} />
          : <>
              <Create onDone={list.reload} />
              {list.data?.length === 0 && <Notice title="No deletions"><p>Requests are listed here until 30 days after they are done.</p></Notice>}
              {list.data && list.data.length > 0 && (
                <div class="table-scroll" tabIndex={0} role="region" aria-label="Requests">
                  <table class="data">
                    <thead><tr><th scope="col">Query</th><th scope="col">From</th><th scope="col">To</th><th scope="col">Asked for</th><th scope="col">Status</th><th scope="col"><span class="offscreen">Actions</span></th></tr></thead>
                    <tbody>{[...list.data].reverse().map((d) => (
                      <tr key={d.request_id}>
                        <td class="mono wrap">{visible(d.query)}</td><td class="nowrap">{time(d.start_time)}</td><td class="nowrap">{time(d.end_time)}</td><td class="nowrap">{time(d.created_at)}</td>
                        <td><span class={`pill state-${d.status === 'processed' ? 'recording' : 'pending'}`}>{d.status}</span></td>
                        <td>{d.status !== 'processed' && <Cancel d={d} onDone={list.reload} />}</td>
                      </tr>))}</tbody>
                  </table>
                </div>)}
            </>}
      </div>
    </div>
  );
}
