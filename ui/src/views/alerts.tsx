// Rule groups, their states, and what fires.

import type { JSX } from 'preact';
import { ruleGroups, type Alert, type Group, type Rule } from '../api';
import { Notice, Problem } from '../parts/notice';
import { useLoad } from '../parts/use-load';
import { linkTo, state, zone } from '../route';
import { visible } from '../text/pieces';
import { plural, shown } from '../text/size';
import { formatDuration, parseTime } from '../time/range';
import { seconds } from '../time/zone';

const when = (t: string | undefined): string => {
  const ns = t && !t.startsWith('0001') ? parseTime(t, Date.now(), 'UTC') : null;
  return ns ? seconds(ns, zone.value) : 'not yet';
};

const labelText = (l: Record<string, string>): string =>
  Object.entries(l).filter(([k]) => k !== 'alertname').map(([k, v]) => `${visible(k)}=${visible(v)}`).join(' · ');

function Firing({ a, rule }: { a: Alert; rule: Rule }): JSX.Element {
  return (
    <li class={`alert-row state-${a.state}`}>
      <span class={`pill state-${a.state}`}>{a.state}</span>
      <span class="alert-main"><b><bdi>{visible(rule.name)}</bdi></b> <span class="muted">{labelText(a.labels)}</span>
        {Object.entries(a.annotations).map(([k, v]) => <span key={k} class="annotation"><span class="muted">{visible(k)}</span> {visible(v)}</span>)}</span>
      <span class="muted alert-since">value {visible(shown(a.value))}, since {when(a.activeAt)}</span>
    </li>
  );
}

function RuleRow({ r }: { r: Rule }): JSX.Element {
  const state_ = r.type === 'recording' ? 'recording' : r.health === 'err' ? 'error' : (r.state ?? 'unknown');
  return (
    <li class="rule">
      <span class={`pill state-${state_}`}>{state_}</span>
      <div class="rule-main">
        <div class="rule-name"><b><bdi>{visible(r.name)}</bdi></b>{r.duration ? <span class="muted"> for {formatDuration(r.duration * 1000)}</span> : null}
          {r.labels && <span class="muted"> {labelText(r.labels)}</span>}</div>
        <code class="rule-query">{visible(r.query)}</code>
        {r.lastError && <p class="field-error">{visible(r.lastError)}</p>}
      </div>
      <a class="button plain" href={linkTo({ view: 'search', q: r.query, line: '', mode: 'lines' })}>Run<span class="offscreen"> the query of {visible(r.name)}</span></a>
    </li>
  );
}

function GroupCard({ g }: { g: Group }): JSX.Element {
  return (
    <section class="card group">
      <h2 class="group-head"><bdi>{visible(g.name)}</bdi> <span class="muted">{visible(g.file)}, every {formatDuration(g.interval * 1000)}, last {when(g.lastEvaluation)}</span></h2>
      <ul class="rules">{g.rules.map((r, i) => <RuleRow key={r.name + i} r={r} />)}</ul>
    </section>
  );
}

export function AlertsView(): JSX.Element {
  const groups = useLoad(ruleGroups, [state.value.tenant], 15_000);
  const all = (groups.data ?? []).flatMap((g) => g.rules.flatMap((r) => (r.alerts ?? []).map((a) => ({ a, r }))));
  const firing = [...all.filter((x) => x.a.state === 'firing'), ...all.filter((x) => x.a.state !== 'firing')];
  return (
    <div class="view">
      <div class="toolbar"><h1 class="view-title">Alerts</h1>
        <span class="muted">{groups.data ? `${plural(all.filter((x) => x.a.state === 'firing').length, 'alert')} firing, ${plural(groups.data.length, 'group')}` : ''}</span></div>
      <div class="scroll pad">
        {groups.error && <Problem error={groups.error} retry={groups.reload} />}
        {groups.data && firing.length > 0 && (
          <section aria-label="Alerts that fire or are pending"><ul class="alerts">{firing.slice(0, 500).map((x, i) => <Firing key={i} a={x.a} rule={x.r} />)}</ul></section>)}
        {groups.data?.map((g) => <GroupCard key={g.file + g.name} g={g} />)}
        {groups.data?.length === 0 && (
          <Notice title="No rules">
            <p>A group of rules is sent as YAML, with logcli's sister <code>lokitool</code>, <code>cortextool</code> or curl:</p>
            <pre class="source" tabIndex={0} aria-label="Example">{`name: shop
interval: 1m
rules:
  - alert: ManyErrors
    expr: sum by (service_name) (rate({service_name=~".+"} | detected_level="error" [5m])) > 1
    for: 10m`}</pre>
            <p class="muted">POST it to <code>loki/api/v1/rules/&lt;namespace&gt;</code>.</p>
          </Notice>)}
      </div>
    </div>
  );
}
