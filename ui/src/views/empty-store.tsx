// A store without lines: how to send the first one. The page looks again by itself.

import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { labels } from '../api';
import { address } from '../http';
import { Button } from '../parts/button';
import { Notice } from '../parts/notice';
import { shell } from '../parts/copy';
import { copyAndSay } from '../parts/toast';
import { tenant } from '../route';
import { msToNs } from '../time/ns';

export function EmptyStore({ onLine }: { onLine: () => void }): JSX.Element {
  const header = tenant.value ? ` -H ${shell('X-Scope-OrgID: ' + tenant.value)}` : '';
  const command = `curl${header} --data-binary 'hello from curl' ${shell(address('loki/api/v1/lines') + '?app=hello')}`;
  useEffect(() => {
    const gone = new AbortController();
    const look = async () => {
      if (document.hidden) return;
      const now = Date.now();
      const names = await labels('', { from: msToNs(now - 86_400_000), to: msToNs(now + 600_000) }, gone.signal).catch(() => []);
      if (names.length > 0 && !gone.signal.aborted) onLine();
    };
    const timer = setInterval(() => void look(), 2000);
    return () => { clearInterval(timer); gone.abort(); };
  }, []);
  return (
    <Notice title="No lines yet">
      <p>Send the first one. This page shows it as soon as it is stored.</p>
      <pre class="source wrap" tabIndex={0} aria-label="Command">{command}</pre>
      <div class="bar"><Button icon="copy" label="Copy command" onClick={() => void copyAndSay(command, 'Command')} /></div>
      <p class="muted">Agents such as Alloy, Promtail, Fluent Bit or Vector send to <code>{address('loki/api/v1/push')}</code></p>
    </Notice>
  );
}
