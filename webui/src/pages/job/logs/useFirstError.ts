import { useState } from "react";
import { searchLogs, type LogFilter } from "@/api/logs";
import type { Job } from "@/api/types";
import { tellDone, tellError } from "@/ui/notify";
import { firstError } from "./find";
import type { LogReader, LogView } from "./LogReader";

interface Props {
  job: Job;
  filter: LogFilter;
  reader: LogReader;
  view: LogView;
  go: (index: number | null) => void;
}

/** Words that errors are told with; the server looks for them in what is not in memory. */
const WORDS = ["Traceback", "Error", "ERROR", "FATAL"];

/** Jumps to the first line of the log that looks like an error, wherever in the log it is. */
export function useFirstError({ job, filter, reader, view, go }: Props) {
  const [busy, setBusy] = useState(false);

  async function find() {
    if (!view.atStart) {
      const cursors = await Promise.all(WORDS.map((word) => firstMatch(job.id, filter, word)));
      const first = Math.min(...cursors.map((cursor) => cursor ?? Infinity));
      if (Number.isFinite(first) && !holds(view, first)) await reader.toCursor(first);
    }
    const index = firstError(reader.view.lines);
    if (index === null) tellDone("No line looks like an error");
    go(index);
  }

  return {
    busy,
    find: () => {
      setBusy(true);
      find()
        .catch((error: unknown) => tellError(error, "The log could not be searched"))
        .finally(() => setBusy(false));
    },
  };
}

async function firstMatch(id: string, filter: LogFilter, word: string): Promise<number | null> {
  let cursor: string | null = "";
  while (cursor !== null) {
    const page = await searchLogs(id, filter, { needle: word, regex: false, cursor, limit: 1 });
    if (page.matches[0]) return page.matches[0].cursor;
    cursor = page.next;
  }
  return null;
}

function holds(view: LogView, cursor: number): boolean {
  const [first, last] = [view.lines[0], view.lines.at(-1)];
  return Boolean(first && last && first.chunk.cursor <= cursor && cursor <= last.chunk.cursor);
}
