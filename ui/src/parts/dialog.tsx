// A question before something that cannot be undone.

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

export function Dialog({ title, onClose, children, wide }: { title: string; onClose: () => void; children: ComponentChildren; wide?: boolean }): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = ref.current!;
    const before = document.activeElement as HTMLElement | null;
    d.showModal();
    // The first button may be out of sight at the end of a long dialog.
    d.querySelector('h2')!.focus();
    return () => { d.close(); before?.focus?.(); };
  }, []);
  return (
    <dialog ref={ref} class={`dialog ${wide ? 'wide' : ''}`} aria-label={title} onCancel={(e) => { e.preventDefault(); onClose(); }}
      onClick={(e) => { if (e.target === ref.current) onClose(); }}>
      <div class="dialog-inner"><h2 tabIndex={-1}>{title}</h2>{children}</div>
    </dialog>
  );
}
