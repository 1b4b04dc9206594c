// Empty and error states: what happened, and what to do about it.

import type { ComponentChildren, JSX } from 'preact';
import { ServerError, Unreachable } from '../http';
import { go, state, tenant } from '../route';
import { InputError } from '../search';
import { Button } from './button';
import { visible } from '../text/pieces';

export function Notice({ title, children, kind = 'plain' }: { title: string; children?: ComponentChildren; kind?: 'plain' | 'error' }): JSX.Element {
  return (
    <section class={`notice ${kind}`} {...(kind === 'error' ? { role: 'alert' } : {})}>
      <h2>{title}</h2>
      {children}
    </section>
  );
}

/** The place in the query that an error of the server names. */
export function errorPlace(message: string, query: string): { line: number; column: number } | null {
  const m = message.match(/at line (\d+), col (\d+)/);
  if (!m) return null;
  // Some mistakes are said to be in line 0. With a single line there is no doubt which one is meant.
  const line = Number(m[1]) || (query.includes('\n') ? 0 : 1);
  return line > 0 ? { line, column: Number(m[2]) } : null;
}

function Source({ query, line, column }: { query: string; line: number; column: number }): JSX.Element | null {
  const text = query.split('\n')[line - 1];
  if (text === undefined) return null;
  const from = Math.max(0, column - 60);
  return (
    <pre class="source" tabIndex={0} aria-label="Place of the mistake">
      {visible(text.slice(from, column + 40))}{'\n'}{' '.repeat(Math.max(0, Math.min(column, text.length + 1) - 1 - from))}^
    </pre>
  );
}

const HINTS: [RegExp, string][] = [
  [/no org id/, 'This server keeps the data of tenants apart. Set a tenant in the bar at the top, or let the proxy in front set X-Scope-OrgID.'],
  [/the query time range exceeds/, 'Choose a shorter range of time.'],
  [/too many outstanding|no memory for the query now/, 'Other queries are running. Try again in a moment.'],
  [/max(imum)? number of series/, 'Sum by fewer labels, or select fewer streams.'],
  [/at least one regexp or equality matcher/, 'A selector needs one matcher that does not match the empty text, such as {service_name=~".+"}.'],
];

export function Problem({ error, query = '', retry }: { error: Error; query?: string; retry?: () => void }): JSX.Element {
  const again = retry && <Button icon="refresh" label="Try again" onClick={retry} />;
  if (error instanceof Unreachable) {
    return <Notice kind="error" title="The server cannot be reached">
      <p>No answer came. It may be starting, or the network or a proxy in between is down.</p>{again}
    </Notice>;
  }
  if (error instanceof InputError) return <Notice kind="error" title="The range of time is not clear"><p>{error.message}</p></Notice>;
  const place = errorPlace(error.message, query);
  const hint = HINTS.find(([re]) => re.test(error.message))?.[1];
  const status = error instanceof ServerError ? error.status : 0;
  const title = place || /^parse error/.test(error.message) ? 'The query has a mistake'
    : status === 401 ? 'A tenant is needed'
    : status === 403 ? 'The server does not allow this'
    : status === 404 ? 'The server does not offer this'
    : status === 429 ? 'The server is busy'
    : status >= 500 ? 'The server could not answer'
    : status >= 400 ? 'The server refused the query' : 'This did not work';
  return (
    <Notice kind="error" title={title}>
      {place && query && <Source query={query} {...place} />}
      <p class="message">{visible(error.message)}</p>
      {hint && <p>{hint}</p>}
      {status === 401 && !tenant.value && <TenantForm />}
      {status !== 400 && again}
    </Notice>
  );
}

export function TenantForm({ done }: { done?: () => void }): JSX.Element {
  return (
    <form class="form-row" onSubmit={(e) => {
      e.preventDefault();
      const value = String(new FormData(e.currentTarget as HTMLFormElement).get('tenant') ?? '').trim();
      go({ tenant: value, line: '', context: false });
      done?.();
    }}>
      <label>Tenant <input data-first name="tenant" type="text" autocomplete="off" spellcheck={false} value={state.value.tenant} placeholder="team-a" /></label>
      <button type="submit" class="button primary">Use tenant</button>
    </form>
  );
}
