import { useEffect, useRef } from "react";
import { searchLogs, type LogFilter } from "@/api/logs";
import type { LogMatch } from "@/api/types";
import { tellDone, tellError } from "@/ui/notify";
import { findLines } from "./find";
import type { LogView } from "./LogReader";

interface Props {
  id: string;
  filter: LogFilter;
  /** The text to open the log at; undefined: at its end. */
  find: string | undefined;
  view: LogView;
  go: (index: number | null) => void;
  open: (hit: LogMatch) => Promise<void>;
}

/** Opens a log at the newest line that holds a text: most often an error near its end, and
 * otherwise where the server finds it. */
export function useOpening({ id, filter, find, view, go, open }: Props) {
  const opened = useRef(!find);

  async function show(text: string) {
    const [index] = findLines(view.lines, text).slice(-1);
    if (index !== undefined) return go(index);
    const hit = view.atStart ? null : await lastMatch(id, filter, text);
    if (hit) return open(hit);
    tellDone("The log does not hold this line any more");
  }

  useEffect(() => {
    if (opened.current || !find || view.busy || view.lines.length === 0) return;
    opened.current = true;
    show(find).catch((error: unknown) => tellError(error, "The log could not be searched"));
    // Once, as soon as the first lines are there.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [view]);
}

async function lastMatch(id: string, filter: LogFilter, needle: string): Promise<LogMatch | null> {
  let last: LogMatch | null = null;
  const asked = { needle, regex: false, anyCase: false, limit: 1000 };
  let cursor: string | null = "";
  while (cursor !== null) {
    const page = await searchLogs(id, filter, { ...asked, cursor });
    last = page.matches.at(-1) ?? last;
    cursor = page.next;
  }
  return last;
}
