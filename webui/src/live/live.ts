import { type QueryClient, type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useSyncExternalStore } from "react";
import { serialize, throttle } from "./coalesce";
import { LiveSocket, type Topic } from "./socket";

const scheme = location.protocol === "https:" ? "wss:" : "ws:";
/** The page's only socket. */
export const live = new LiveSocket(`${scheme}//${location.host}/ws/live`);
addEventListener("online", () => live.reconnectNow());

export function useLiveStatus() {
  return useSyncExternalStore(live.subscribeStatus, live.getStatus);
}

/** Calls `action` when the topic changes: at most every `gap` ms, and never twice at a time. */
export function useDoorbell(topic: Topic, id: string, action: () => unknown, gap = 500): void {
  const latest = useEffectEvent(action);
  useEffect(() => {
    const ring = throttle(
      serialize(async () => latest()),
      gap,
    );
    const stop = live.subscribe(topic, id, ring);
    return () => {
      stop();
      ring.cancel();
    };
  }, [topic, id, gap]);
}

/** Reads queries again when the topic changes; `keys` are prefixes of query keys. A reading under
 * way is let finish: cut off by every notification, a long one would never end. */
export function useLiveQueries(topic: Topic, id: string, keys: QueryKey[], gap = 1000): void {
  const queries = useQueryClient();
  useDoorbell(topic, id, () => refetch(queries, keys), gap);
}

async function refetch(queries: QueryClient, keys: QueryKey[]): Promise<void> {
  const busy = keys.some((queryKey) => queries.isFetching({ queryKey }) > 0);
  const read = () =>
    Promise.all(
      keys.map((queryKey) => queries.invalidateQueries({ queryKey }, { cancelRefetch: false })),
    );
  await read();
  // That request began before the notification.
  if (busy) await read();
}

/** For `refetchInterval`, in ms: notifications make pages fast, polls make them certain (every
 * `resting` ms), and carry them alone (every `ms`) while the socket is down. */
export function usePoll(ms = 5000, resting = 60_000): number {
  return useLiveStatus() === "open" ? resting : ms;
}
