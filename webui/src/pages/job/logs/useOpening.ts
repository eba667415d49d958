import { useEffect, useRef } from "react";
import { searchLogs, type LogFilter } from "@/api/logs";
import { tellDone, tellError } from "@/ui/notify";
import { findLines } from "./find";
import type { LogReader, LogView } from "./LogReader";

interface Props {
  id: string;
  filter: LogFilter;
  /** The text to open the log at; undefined: at its end. */
  find: string | undefined;
  reader: LogReader;
  view: LogView;
  go: (index: number | null) => void;
}

/** Opens a log at the newest line that holds a text: most often an error near its end, and
 * otherwise where the server finds it. */
export function useOpening({ id, filter, find, reader, view, go }: Props) {
  const opened = useRef(!find);

  async function open(text: string) {
    let [index] = findLines(view.lines, text).slice(-1);
    if (index === undefined && !view.atStart) {
      const cursor = await lastMatch(id, filter, text);
      if (cursor !== null) await reader.toCursor(cursor);
      [index] = findLines(reader.view.lines, text);
    }
    if (index === undefined) tellDone("The log does not hold this line any more");
    go(index ?? null);
  }

  useEffect(() => {
    if (opened.current || !find || view.busy || view.lines.length === 0) return;
    opened.current = true;
    open(find).catch((error: unknown) => tellError(error, "The log could not be searched"));
    // Once, as soon as the first lines are there.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [view]);
}

async function lastMatch(id: string, filter: LogFilter, needle: string): Promise<number | null> {
  let last: number | null = null;
  let cursor: string | null = "";
  while (cursor !== null) {
    const page = await searchLogs(id, filter, { needle, regex: false, cursor, limit: 1000 });
    last = page.matches.at(-1)?.cursor ?? last;
    cursor = page.next;
  }
  return last;
}
