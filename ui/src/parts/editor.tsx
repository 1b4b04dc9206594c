// The query. A plain text field is there at once; the editor with colours and completion takes its
// place when it has been loaded, at the same size, with the cursor where it was.

import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { EditorHandle } from '../editor/editor';

export interface EditorProps { value: string; label: string; error: string | null; onRun: (query: string) => void; onChange?: (query: string) => void }

export const FOCUS_QUERY = 'logsvc-focus-query';

export function QueryEditor(p: EditorProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const handle = useRef<EditorHandle | null>(null);
  const props = useRef(p);
  props.current = p;

  useEffect(() => {
    let gone = false;
    const focus = () => (handle.current ?? area.current)?.focus();
    addEventListener(FOCUS_QUERY, focus);
    const load = () => void import('../editor/editor').then(({ createEditor }) => {
      if (gone || !host.current) return;
      const a = area.current!;
      handle.current = createEditor(host.current, {
        value: a.value, label: props.current.label,
        onRun: (q) => props.current.onRun(q), onChange: (q) => { a.value = q; props.current.onChange?.(q); },
      });
      handle.current.showError(props.current.error);
      const had = document.activeElement === a;
      a.hidden = true;
      if (had) handle.current.focus(a.selectionStart);
    }, () => { /* The text field goes on serving. */ });
    // After the first paint, and when nothing more urgent is to do.
    const timer = setTimeout(load, 60);
    return () => {
      gone = true;
      clearTimeout(timer);
      removeEventListener(FOCUS_QUERY, focus);
      handle.current?.destroy();
      handle.current = null;
    };
  }, []);

  useEffect(() => {
    handle.current?.set(p.value);
    if (area.current) area.current.value = p.value;
  }, [p.value]);
  useEffect(() => handle.current?.showError(p.error), [p.error, p.value]);

  return (
    <div class="query" ref={host}>
      <textarea ref={area} class="query-plain" rows={1} aria-label={p.label} spellcheck={false} autocomplete="off" autocapitalize="off"
        defaultValue={p.value} placeholder={'{service_name=~".+"} |= "text"'} onInput={(e) => p.onChange?.(e.currentTarget.value)}
        onKeyDown={(e) => { if (e.key === 'Enter' && !e.shiftKey) { e.preventDefault(); p.onRun(e.currentTarget.value); } }} />
    </div>
  );
}
