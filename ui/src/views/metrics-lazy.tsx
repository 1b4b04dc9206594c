// The chart and its library are loaded when there is something to draw.

import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Chart } from '../search';

type View = (p: { chart: Chart }) => JSX.Element;
let loaded: View | null = null;

export function Metrics({ chart }: { chart: Chart }): JSX.Element {
  const [View, setView] = useState<View | null>(() => loaded);
  useEffect(() => {
    if (!loaded) void import('./metrics').then((m) => { loaded = m.MetricsView; setView(() => loaded); });
  }, []);
  return View ? <View chart={chart} /> : <div class="chart-space" aria-busy="true" />;
}
