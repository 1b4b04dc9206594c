// The state of the page is the address. Views read `state` and call `go`.

import { computed, signal } from '@preact/signals';
import { DEFAULTS, formatAddress, parseAddress, type State } from './address';
import { preferences } from './preferences';
import { isZone } from './time/zone';

/** An address, or a browser that knew other zones, may name a zone that this one does not have: no time could be shown. */
function withPreferences(s: State): State {
  const tz = [s.tz === DEFAULTS.tz ? preferences.value.tz : s.tz, DEFAULTS.tz].find(isZone) ?? 'UTC';
  return { ...s, tz };
}

export const state = signal<State>(withPreferences(parseAddress(location.hash)));
export const view = computed(() => state.value.view);
export const zone = computed(() => state.value.tz);
export const tenant = computed(() => state.value.tenant);

/** Changes the state; `replace` makes no step for the back button. */
export function go(patch: Partial<State>, replace = false): void {
  const next = { ...state.value, ...patch };
  const address = formatAddress(next);
  if (address !== location.hash) history[replace ? 'replaceState' : 'pushState'](null, '', address);
  state.value = next;
}

/** The address of another state, for links. */
export const linkTo = (patch: Partial<State>): string => formatAddress({ ...state.value, ...patch });

/** What a view keeps when the reader goes to another one. */
export const viewLink = (view: State['view']): string =>
  linkTo({ view, line: '', context: false, mode: 'lines', cols: [] });

addEventListener('popstate', () => { state.value = withPreferences(parseAddress(location.hash)); });
addEventListener('hashchange', () => {
  const next = withPreferences(parseAddress(location.hash));
  if (formatAddress(next) !== formatAddress(state.value)) state.value = next;
});
