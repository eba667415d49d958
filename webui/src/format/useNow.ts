import { useSyncExternalStore } from "react";

// One ticking clock for all the ages and durations of the page.
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;
const listeners = new Set<() => void>();

function subscribe(watcher: () => void): () => void {
  listeners.add(watcher);
  if (timer === undefined) now = Date.now();
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(watcher);
    if (listeners.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** Milliseconds since the epoch, renewed every second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}
