import { useEffect, useState, useSyncExternalStore } from "react";
import { readLogs, type LogFilter } from "@/api/logs";
import { useDoorbell, usePoll } from "@/live/live";
import { LogReader, type LogView } from "./LogReader";

/** A reader of this job's log that follows its end while `follow` is set. */
export function useLogReader(
  id: string,
  filter: LogFilter,
  follow: boolean,
): { reader: LogReader; view: LogView } {
  const [reader] = useState(
    () => new LogReader((range, signal) => readLogs(id, filter, range, signal)),
  );
  const view = useSyncExternalStore(reader.watch, reader.getView);

  useEffect(() => {
    void reader.toEnd();
    return () => reader.close();
  }, [reader]);

  const ring = async () => {
    if (follow) await reader.poke();
  };
  useDoorbell("job-logs", id, ring, 150);
  usePolling(ring, usePoll(2000), follow && !view.complete);
  return { reader, view };
}

function usePolling(action: () => Promise<void>, every: number, on: boolean): void {
  useEffect(() => {
    if (!on) return undefined;
    const run = () => void action();
    run();
    const timer = setInterval(run, every);
    return () => clearInterval(timer);
    // `action` is new with every drawing; the newest is not needed, any of them rings.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [every, on]);
}
