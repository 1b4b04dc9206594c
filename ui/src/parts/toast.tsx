import type { JSX } from 'preact';
import { signal } from '@preact/signals';
import { copy } from './copy';

const message = signal('');
let timer = 0;

export function say(text: string): void {
  message.value = text;
  clearTimeout(timer);
  timer = window.setTimeout(() => { message.value = ''; }, 4000);
}

export const copyAndSay = async (text: string, what: string): Promise<void> =>
  say((await copy(text)) ? `${what} copied` : 'The browser does not allow copying here');

export const Toast = (): JSX.Element => (
  <div class="toast-place" role="status" aria-live="polite">{message.value && <div class="toast">{message.value}</div>}</div>
);
