import { useSyncExternalStore } from "react";

export interface Connection {
  /** When the server answered last (ms since the epoch); null: not yet. */
  seen: number | null;
  /** Whether the last request got no answer of the server. */
  lost: boolean;
}

/** What a proxy answers in place of a server that is down. */
const GATEWAY = new Set([502, 503, 504]);

let current: Connection = { seen: null, lost: false };
let answered: number | null = null;
const watchers = new Set<() => void>();

function change(lost: boolean): void {
  if (current.lost === lost) return;
  current = { seen: answered, lost };
  for (const watcher of watchers) watcher();
}

/** `fetch` that keeps note of whether the server answers. What was cut off by the page itself tells
 * nothing; a 503 that the server explains in JSON is an answer. */
export async function watchedFetch(request: Request): Promise<Response> {
  try {
    const response = await fetch(request);
    const json = response.headers.get("Content-Type")?.includes("json") ?? false;
    const lost = GATEWAY.has(response.status) && !json;
    if (!lost) answered = Date.now();
    change(lost);
    return response;
  } catch (error) {
    if (error instanceof TypeError) change(true);
    throw error;
  }
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function useConnection(): Connection {
  return useSyncExternalStore(watch, () => current);
}
