import { useState } from "react";
import { searchLogs, type LogFilter } from "@/api/logs";
import type { Job, LogMatch } from "@/api/types";
import { tellDone, tellError } from "@/ui/notify";
import { plainText } from "./ansi";
import { firstError, looksLikeError } from "./find";
import type { LogView } from "./LogReader";

interface Props {
  job: Job;
  filter: LogFilter;
  view: LogView;
  go: (index: number | null) => void;
  open: (hit: LogMatch) => Promise<void>;
}

/** What errors are told with, and more: which of it is one is seen here. */
const WORDS = "error|exception|traceback|fatal|panic|segmentation fault|oom|killed";

/** Jumps to the first line of the log that looks like an error, wherever in the log it is. */
export function useFirstError({ job, filter, view, go, open }: Props) {
  const [busy, setBusy] = useState(false);

  async function find() {
    const index = view.atStart ? firstError(view.lines) : null;
    if (index !== null) return go(index);
    const whole = view.atStart && view.atEnd;
    const hit = whole ? null : await firstMatch(job.id, filter);
    if (hit) return open(hit);
    tellDone("No line looks like an error");
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

async function firstMatch(id: string, filter: LogFilter): Promise<LogMatch | null> {
  const asked = { needle: WORDS, regex: true, anyCase: true, limit: 100 };
  let cursor: string | null = "";
  while (cursor !== null) {
    const page = await searchLogs(id, filter, { ...asked, cursor });
    const hit = page.matches.find(({ text }) => looksLikeError(plainText(text)));
    if (hit) return hit;
    cursor = page.next;
  }
  return null;
}
