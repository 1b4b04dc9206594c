// Reads the text form of metrics, as far as the page about the node needs it.

export interface Metric { name: string; labels: Record<string, string>; value: number }

export function parseMetrics(text: string): Metric[] {
  const out: Metric[] = [];
  for (const line of text.split('\n')) {
    if (line === '' || line[0] === '#' || line.includes('_bucket{')) continue;
    const m = line.match(/^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/);
    if (!m) continue;
    const labels: Record<string, string> = {};
    for (const p of (m[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[p[1]!] = p[2]!.replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
    }
    out.push({ name: m[1]!, labels, value: Number(m[3]) });
  }
  return out;
}

export class Metrics {
  private readonly by = new Map<string, Metric[]>();
  constructor(text: string, readonly at: number) {
    for (const m of parseMetrics(text)) {
      const list = this.by.get(m.name);
      if (list) list.push(m); else this.by.set(m.name, [m]);
    }
  }

  all(name: string): Metric[] { return this.by.get(name) ?? []; }
  sum(name: string): number { return this.all(name).reduce((n, m) => n + m.value, 0); }
  has(name: string): boolean { return this.by.has(name); }
}

export interface Finding { bad: boolean; text: string }

/** What is wrong with a node, in words. */
export function findings(m: Metrics, ready: string): Finding[] {
  const out: Finding[] = [];
  const say = (when: boolean, bad: boolean, text: string) => { if (when) out.push({ bad, text }); };
  say(ready !== '', true, `The server is not ready: ${ready}`);
  const used = m.sum('loki_ingester_wal_disk_usage_percent');
  say(used > 0.95, true, `The disk is ${Math.round(used * 100)} % full. Pushes are refused when it has no room.`);
  say(used > 0.85 && used <= 0.95, false, `The disk is ${Math.round(used * 100)} % full.`);
  const n = (name: string) => m.sum(name);
  say(n('logsvc_wal_failures_total') > 0, true, `The log could not be written ${n('logsvc_wal_failures_total')} times since the start. Look at the disk.`);
  say(n('logsvc_seal_failures_total') > 0, true, `Writing segments failed ${n('logsvc_seal_failures_total')} times since the start.`);
  say(n('logsvc_query_unreadable_parts_total') > 0, true, 'Queries met parts of segments that cannot be read. The server\'s own log names them.');
  say(n('logsvc_recovery_damaged_bytes') > 0, true, 'The last start found damaged bytes in the log and left them out.');
  say(n('loki_panic_total') > 0, true, 'A part of the server failed and was restarted. This is a fault of the server: please report it.');
  say(n('logsvc_deletion_failures_total') > 0, false, 'Removing deleted lines failed at least once.');
  say(m.has('logsvc_reload_last_successful') && n('logsvc_reload_last_successful') === 0 && n('logsvc_reloads_total') > 0, true, 'The last reload found a mistake in a file; the settings before it stay in force.');
  say(n('logsvc_connections_refused_total') > 0, false, `${n('logsvc_connections_refused_total')} connections were turned away.`);
  for (const b of m.all('logsvc_memory_refused_total')) {
    say(b.value > 0, false, `Memory for ${b.labels.budget} ran out ${b.value} times since the start; clients were told to try again.`);
  }
  for (const r of m.all('logsvc_queries_waiting')) say(r.value > 0, false, `${r.value} requests of the kind “${r.labels.work}” wait for their turn.`);
  return out;
}
