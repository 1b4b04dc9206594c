// How the node is: what is wrong in words, then its figures, refusals and settings.

import type { ComponentChildren, JSX } from 'preact';
import { useRef } from 'preact/hooks';
import { buildInfo, metricsText, readiness, refusals, servicesText, settingsDiff, type Refusal } from '../api';
import { findings, Metrics } from '../data/metrics';
import { ServerError } from '../http';
import { Problem } from '../parts/notice';
import { useLoad } from '../parts/use-load';
import { state, zone } from '../route';
import { visible } from '../text/pieces';
import { bytes, count, short } from '../text/size';
import { formatDuration, parseTime } from '../time/range';
import { seconds } from '../time/zone';

const EVERY = 5000;

function Card({ title, children, wide }: { title: string; children: ComponentChildren; wide?: boolean }): JSX.Element {
  return <section class={`card node-card ${wide ? 'wide' : ''}`}><h2>{title}</h2>{children}</section>;
}

function Meter({ used, max, label }: { used: number; max: number; label: string }): JSX.Element {
  const share = max > 0 ? used / max : 0;
  return (
    <div class="meter-row"><span>{label}</span><span class="muted num">{bytes(used)} of {bytes(max)}</span>
      <span class={`meter ${share > 0.95 ? 'bad' : share > 0.85 ? 'warn' : ''}`} role="img" aria-label={`${label}: ${Math.round(share * 100)} percent`}><span style={{ width: `${Math.min(100, share * 100)}%` }} /></span></div>
  );
}

function Facts({ rows }: { rows: [string, string][] }): JSX.Element {
  return <dl class="facts">{rows.map(([k, v]) => [<dt key={k}>{k}</dt>, <dd key={k + 'v'}>{v}</dd>])}</dl>;
}

const utc = (t: string | undefined): string => {
  const ns = t ? parseTime(t, 0, 'UTC') : null;
  return ns ? seconds(ns, zone.value) : '';
};

function RefusalRow({ r }: { r: Refusal }): JSX.Element {
  return (
    <tr>
      <td class="nowrap">{utc(r.last)}</td>
      <td><code>{visible(r.reason)}</code>{r.status ? <span class="muted"> {r.status}</span> : null}</td>
      <td class="num">{r.entries > 0 ? `${count(r.entries)} lines` : `${count(r.pushes)} pushes`}</td>
      <td class="wrap">{visible(r.error ?? '')}{r.stream && <code class="block">{visible(r.stream)}</code>}</td>
      <td class="wrap muted">{visible([r.peer, r.user_agent].filter(Boolean).join(', '))}</td>
    </tr>
  );
}

export function NodeView(): JSX.Element {
  const { tenant } = state.value;
  const before = useRef<Metrics | null>(null);
  const node = useLoad(async (signal) => {
    const [text, ready] = await Promise.all([metricsText(signal), readiness(signal)]);
    const now = new Metrics(text, Date.now());
    const old = before.current;
    before.current = now;
    return { now, old, ready };
  }, [tenant], EVERY);
  const build = useLoad(buildInfo, []);
  const refused = useLoad(refusals, [tenant], EVERY * 2);
  const settings = useLoad(settingsDiff, []);
  const services = useLoad(servicesText, []);
  const denied = node.error instanceof ServerError && node.error.status === 403;
  if (node.error && !node.data && !denied) return <div class="view"><div class="toolbar"><h1 class="view-title">Node</h1></div><div class="scroll pad"><Problem error={node.error} retry={node.reload} /></div></div>;
  const m = node.data?.now;
  const rate = (name: string): number => {
    const { old, now } = node.data!;
    return old && now.at > old.at ? Math.max(0, (now.sum(name) - old.sum(name)) * 1000 / (now.at - old.at)) : 0;
  };
  // What is below comes with what is above, so that nothing moves under the reader.
  const told = (m || denied) && (refused.data || refused.error);
  const wrong = m ? findings(m, node.data!.ready) : [];
  const stopped = (services.data ?? '').split('\n').filter((l) => l.includes('=>') && !l.endsWith('Running'));
  return (
    <div class="view">
      <div class="toolbar"><h1 class="view-title">Node</h1><span class="muted">{build.data ? `${build.data.branch.replace('-', ' ')}${build.data.revision && build.data.revision !== 'development' ? ` (${build.data.revision.slice(0, 8)})` : ''}, speaks Loki ${build.data.version}` : ''}</span></div>
      <div class="scroll pad">
        <section class={`health ${(node.error && !denied) || wrong.some((w) => w.bad) ? 'bad' : wrong.length || stopped.length ? 'warn' : 'good'}`} role="status" aria-label="State">
          {denied ? <p>This account is of a tenant. It sees its own refusals, and nothing of the node as a whole.</p> : !m ? <p>Asking…</p> : node.error ? <p>The server does not answer any more.</p> : wrong.length + stopped.length === 0 ? <p>All is well. Pushes and queries are taken.</p>
            : <ul>{wrong.map((w) => <li key={w.text}>{visible(w.text)}</li>)}{stopped.map((x) => <li key={x}>{visible(x)}</li>)}</ul>}
        </section>
        {m && (
          <div class="node-grid">
            <Card title="Lines">
              <Facts rows={[
                ['stored since the start', short(m.sum('loki_distributor_lines_received_total'))],
                ['now', `${short(Math.round(rate('loki_distributor_lines_received_total')))} lines/s, ${bytes(rate('loki_distributor_bytes_received_total'))}/s`],
                ['streams', count(m.sum('loki_ingester_memory_streams'))],
                ['refused lines', count(m.sum('loki_discarded_samples_total'))],
                ['refused pushes', count(m.sum('logsvc_refused_pushes_total'))],
                ['running for', formatDuration(m.at - m.sum('process_start_time_seconds') * 1000)],
              ]} />
            </Card>
            <Card title="Disk">
              <Meter label="disk" used={m.sum('logsvc_disk_size_bytes') - m.sum('logsvc_disk_free_bytes')} max={m.sum('logsvc_disk_size_bytes')} />
              <Facts rows={[
                ['segments', `${count(m.sum('logsvc_segments'))}, ${bytes(m.sum('logsvc_segment_file_bytes'))}`],
                ['lines in segments', `${bytes(m.sum('logsvc_segment_line_bytes'))} before compression`],
                ['not yet in segments', `${count(m.sum('logsvc_head_entries'))} lines, ${bytes(m.sum('logsvc_head_line_bytes'))}`],
                ['written to the log', bytes(m.sum('logsvc_wal_written_bytes_total'))],
              ]} />
            </Card>
            <Card title="Queries">
              <Facts rows={[
                ['running', m.all('logsvc_queries_running').map((q) => `${q.labels.work} ${q.value}`).join(', ')],
                ['waiting', m.all('logsvc_queries_waiting').map((q) => `${q.labels.work} ${q.value}`).join(', ')],
                ['tails', count(m.sum('loki_querier_tail_active'))],
                ['refused', count(m.sum('logsvc_queries_refused_total'))],
                ['read', bytes(m.sum('logsvc_query_line_bytes_total'))],
              ]} />
            </Card>
          </div>)}
        {m && (
          <Card title={`Memory, ${bytes(m.sum('process_resident_memory_bytes'))} in all`} wide>
            <div class="meters">{m.all('logsvc_memory_max_bytes').filter((b) => b.value > 0).map((b) => (
              <Meter key={b.labels.budget} label={b.labels.budget ?? ''} max={b.value} used={m.all('logsvc_memory_used_bytes').find((u) => u.labels.budget === b.labels.budget)?.value ?? 0} />))}</div>
          </Card>)}
        {told && <Card title="Last refusals" wide>
          {refused.error ? <p class="field-error">{refused.error.message}</p> : refused.data?.length === 0 ? <p class="muted">Nothing was refused since the start.</p>
            : refused.data && <div class="table-scroll" tabIndex={0} role="region" aria-label="Last refusals"><table class="data"><thead><tr><th scope="col">Last</th><th scope="col">Reason</th><th scope="col" class="num">How many</th><th scope="col">What was said</th><th scope="col">Sender</th></tr></thead>
                <tbody>{refused.data.map((r, i) => <RefusalRow key={i} r={r} />)}</tbody></table></div>}
        </Card>}
        {told && !denied && <Card title="Settings that differ from the defaults" wide>
          {settings.error ? <p class="field-error">{settings.error.message}</p> : <pre class="source plain" tabIndex={0} aria-label="Settings">{settings.data ?? ''}</pre>}
        </Card>}
      </div>
    </div>
  );
}
