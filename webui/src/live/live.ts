import { useQueryClient, type QueryClient, type QueryKey } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useSyncExternalStore } from "react";
import { serially } from "./renewal";
import { LiveSocket, type Topic } from "./socket";
import { throttle } from "./throttle";

const scheme = location.protocol === "https:" ? "wss:" : "ws:";
/** The page's only socket. */
export const live = new LiveSocket(`${scheme}//${location.host}/ws/live`);
addEventListener("online", () => live.hurry());

export function useLiveStatus() {
  return useSyncExternalStore(live.watchStatus, live.getStatus);
}

/** Calls `action` when the topic changes: at most every `gap` ms, and never twice at a time. */
export function useDoorbell(topic: Topic, id: string, action: () => unknown, gap = 500): void {
  const latest = useEffectEvent(action);
  useEffect(() => {
    const ring = throttle(
      serially(async () => latest()),
      gap,
    );
    const stop = live.follow(topic, id, ring);
    return () => {
      stop();
      ring.cancel();
    };
  }, [topic, id, gap]);
}

/** Reads queries again when the topic changes; `keys` are prefixes of query keys. A reading under
 * way is let finish: cut off by every bell, a long one would never end. */
export function useLiveQueries(topic: Topic, id: string, keys: QueryKey[], gap = 1000): void {
  const queries = useQueryClient();
  useDoorbell(topic, id, () => renew(queries, keys), gap);
}

async function renew(queries: QueryClient, keys: QueryKey[]): Promise<void> {
  const busy = keys.some((queryKey) => queries.isFetching({ queryKey }) > 0);
  const read = () =>
    Promise.all(
      keys.map((queryKey) => queries.invalidateQueries({ queryKey }, { cancelRefetch: false })),
    );
  await read();
  // That reading began before the bell.
  if (busy) await read();
}

/** For `refetchInterval`: doorbells make pages fast, this makes them certain, and carries them
 * alone (every `ms`) while the socket is down. */
export function usePoll(ms = 5000): number {
  return useLiveStatus() === "open" ? 30_000 : ms;
}
