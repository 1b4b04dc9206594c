import type { ComponentChildren, JSX } from 'preact';
import { Icon, type IconName } from './icon';

interface Props {
  icon?: IconName;
  label: string;
  /** Only the icon is shown; the label is its name. */
  bare?: boolean;
  kind?: 'plain' | 'primary' | 'danger' | 'quiet';
  pressed?: boolean;
  disabled?: boolean;
  onClick: (e: MouseEvent) => void;
  children?: ComponentChildren;
  class?: string;
}

export function Button(p: Props): JSX.Element {
  const pressed = p.pressed === undefined ? {} : { 'aria-pressed': p.pressed };
  return (
    <button type="button" class={`button ${p.kind ?? 'plain'} ${p.bare ? 'bare' : ''} ${p.class ?? ''}`} disabled={p.disabled ?? false}
      onClick={p.onClick} {...pressed} {...(p.bare ? { 'aria-label': p.label, title: p.label } : {})}>
      {p.icon && <Icon name={p.icon} />}
      {!p.bare && <span>{p.label}</span>}
      {p.children}
    </button>
  );
}
