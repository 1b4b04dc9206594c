// A panel under a button. Escape and a click elsewhere close it; focus goes in and comes back.

import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon, type IconName } from './icon';

interface Props {
  label: string;
  text?: string;
  icon?: IconName;
  class?: string;
  align?: 'start' | 'end';
  children: (close: () => void) => ComponentChildren;
}

export function Popover(p: Props): JSX.Element {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = () => { setOpen(false); button.current?.focus(); };
  useEffect(() => {
    if (!open) return;
    root.current?.querySelector<HTMLElement>('.panel [data-first], .panel button, .panel input, .panel a')?.focus();
    const outside = (e: Event) => { if (!root.current?.contains(e.target as Node)) setOpen(false); };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
    };
  }, [open]);
  return (
    <div class={`popover ${p.class ?? ''}`} ref={root} onKeyDown={(e) => { if (e.key === 'Escape' && open) { e.stopPropagation(); close(); } }}>
      <button type="button" ref={button} class={`button plain ${p.text === undefined ? 'bare' : ''}`} aria-expanded={open}
        {...(p.text === undefined || p.text !== p.label ? { 'aria-label': p.text ? `${p.label}: ${p.text}` : p.label, title: p.label } : {})}
        onClick={() => setOpen(!open)}>
        {p.icon && <Icon name={p.icon} />}
        {p.text !== undefined && <span>{p.text}</span>}
        {p.text !== undefined && <Icon name="chevron" />}
      </button>
      {open && <div class={`panel ${p.align ?? 'start'}`} role="group" aria-label={p.label}>{p.children(close)}</div>}
    </div>
  );
}
