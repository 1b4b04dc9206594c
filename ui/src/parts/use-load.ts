// Loads something for a view, again at an interval if wanted, and cancels it when the view goes.

import { useEffect, useState } from 'preact/hooks';
import { isAbort } from '../http';

export interface Loaded<T> { data: T | null; error: Error | null; busy: boolean; reload: () => void }

export function useLoad<T>(load: ((signal: AbortSignal) => Promise<T>) | null, inputs: readonly unknown[], everyMs = 0): Loaded<T> {
  const [data, setData] = useState<T | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(true);
  const [turn, setTurn] = useState(0);
  useEffect(() => { setData(null); setError(null); }, inputs);
  useEffect(() => {
    if (!load) return;
    const gone = new AbortController();
    const once = async () => {
      setBusy(true);
      try {
        const value = await load(gone.signal);
        if (gone.signal.aborted) return;
        setData(() => value);
        setError(null);
      } catch (e) {
        if (isAbort(e) || gone.signal.aborted) return;
        setError(e instanceof Error ? e : new Error(String(e)));
      }
      setBusy(false);
    };
    void once();
    const timer = everyMs ? setInterval(() => { if (!document.hidden) void once(); }, everyMs) : 0;
    return () => { gone.abort(); clearInterval(timer); };
  }, [...inputs, turn]);
  return { data, error, busy, reload: () => setTurn((n) => n + 1) };
}
