import { useSyncExternalStore } from "react";
import { GATEWAY_ERRORS } from "./errors";

export interface Connection {
  /** When the server answered last (ms since the epoch); null: not yet. */
  seen: number | null;
  /** Whether the last request got no answer of the server. */
  lost: boolean;
}

let current: Connection = { seen: null, lost: false };
let answered: number | null = null;
const listeners = new Set<() => void>();

function update(lost: boolean): void {
  if (current.lost === lost) return;
  current = { seen: answered, lost };
  for (const watcher of listeners) watcher();
}

/** Calls `fetch` and records whether the server answered. A request that the page itself aborted
 * counts as neither; a 503 that the server explains in JSON is an answer. */
export async function trackedFetch(request: Request): Promise<Response> {
  try {
    const response = await fetch(request);
    const json = response.headers.get("Content-Type")?.includes("json") ?? false;
    const lost = GATEWAY_ERRORS.has(response.status) && !json;
    if (!lost) answered = Date.now();
    update(lost);
    return response;
  } catch (error) {
    if (error instanceof TypeError) update(true);
    throw error;
  }
}

function subscribe(watcher: () => void): () => void {
  listeners.add(watcher);
  return () => listeners.delete(watcher);
}

export function useConnection(): Connection {
  return useSyncExternalStore(subscribe, () => current);
}
