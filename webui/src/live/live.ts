import { useQueryClient, type QueryKey } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useSyncExternalStore } from "react";
import { LiveSocket, type Topic } from "./socket";
import { throttle } from "./throttle";

const scheme = location.protocol === "https:" ? "wss:" : "ws:";
/** The page's only socket. */
export const live = new LiveSocket(`${scheme}//${location.host}/ws/live`);
addEventListener("online", () => live.hurry());

export function useLiveStatus() {
  return useSyncExternalStore(live.watchStatus, live.getStatus);
}

/** Calls `action` when the topic changes, at most every `gap` ms. */
export function useDoorbell(topic: Topic, id: string, action: () => void, gap = 500): void {
  const latest = useEffectEvent(action);
  useEffect(() => {
    const ring = throttle(() => latest(), gap);
    const stop = live.follow(topic, id, ring);
    return () => {
      stop();
      ring.cancel();
    };
  }, [topic, id, gap]);
}

/** Reads queries again when the topic changes; `keys` are prefixes of query keys. */
export function useLiveQueries(topic: Topic, id: string, keys: QueryKey[], gap = 1000): void {
  const queries = useQueryClient();
  useDoorbell(
    topic,
    id,
    () => {
      for (const queryKey of keys) void queries.invalidateQueries({ queryKey });
    },
    gap,
  );
}

/** For `refetchInterval`: doorbells make pages fast, this makes them certain, and carries them
 * alone (every `ms`) while the socket is down. */
export function usePoll(ms = 5000): number {
  return useLiveStatus() === "open" ? 30_000 : ms;
}
