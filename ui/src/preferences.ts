// What a reader prefers, kept in localStorage: nothing else is kept, and no log data ever.

import { effect, signal } from '@preact/signals';

export interface Preferences { theme: 'system' | 'light' | 'dark'; tz: string; recent: string[] }

const KEY = 'logsvc.preferences';
const NONE: Preferences = { theme: 'system', tz: 'local', recent: [] };

function load(): Preferences {
  try {
    const p = JSON.parse(localStorage.getItem(KEY) ?? '{}');
    return {
      theme: p.theme === 'light' || p.theme === 'dark' ? p.theme : 'system',
      tz: typeof p.tz === 'string' ? p.tz : 'local',
      recent: Array.isArray(p.recent) ? p.recent.filter((r: unknown) => typeof r === 'string').slice(0, 20) : [],
    };
  } catch {
    return NONE; // storage is switched off
  }
}

export const preferences = signal<Preferences>(load());

export function prefer(patch: Partial<Preferences>): void {
  preferences.value = { ...preferences.value, ...patch };
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences.value));
  } catch {
    // The choice holds until the page is left.
  }
}

export function remember(query: string): void {
  if (!query.trim()) return;
  prefer({ recent: [query, ...preferences.value.recent.filter((r) => r !== query)].slice(0, 20) });
}

const system = matchMedia('(prefers-color-scheme: dark)');
export const dark = signal(false);

effect(() => {
  const { theme } = preferences.value;
  dark.value = theme === 'dark' || (theme === 'system' && system.matches);
  document.documentElement.dataset.theme = dark.value ? 'dark' : 'light';
});
system.addEventListener('change', () => prefer({}));
