import { useEffect, useRef, useState } from "react";
import { type LogFilter, searchLogs } from "@/api/logs";
import type { Job, LogMatch } from "@/api/types";
import { notifyError, notifySuccess } from "@/ui/notify";
import type { LogView } from "./LogReader";
import { plainText } from "./ansi";
import { type LinePlace, parseLineLink } from "./lineLink";
import { findLines, firstError, looksLikeError } from "./find";

interface Props {
  id: string;
  filter: LogFilter;
  /** The text to open the log at; undefined: at its end. */
  find: string | undefined;
  /** The line to open the log at, before any text. */
  link: string | undefined;
  view: LogView;
  go: (index: number | null) => void;
  open: (place: LinePlace & { text: string }) => Promise<void>;
}

/** Opens a log at a line that the address leads to, or at the newest line that holds a text: most often an error near its end, and
 * otherwise where the server finds it. */
export function useInitialPosition({ id, filter, find, link, view, go, open }: Props) {
  const opened = useRef(!find && !link);

  async function show(text: string) {
    const [index] = findLines(view.lines, text).slice(-1);
    if (index !== undefined) return go(index);
    const hit = view.atStart ? null : await lastMatch(id, filter, text);
    if (hit) return open(hit);
    notifySuccess("The log does not hold this line any more");
  }

  useEffect(() => {
    if (opened.current || view.busy || view.lines.length === 0) return;
    opened.current = true;
    const place = link ? parseLineLink(link) : null;
    if (!place && !find) return;
    (place ? open({ ...place, text: "" }) : show(find ?? "")).catch((error: unknown) =>
      notifyError(error, "The log could not be searched"),
    );
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

interface UseFirstErrorProps {
  job: Job;
  filter: LogFilter;
  view: LogView;
  go: (index: number | null) => void;
  open: (hit: LogMatch) => Promise<void>;
}

/** Words that errors contain, and other lines, too: `looksLikeError` decides. */
const SEARCH_TERMS = "error|exception|traceback|fatal|panic|segmentation fault|oom|killed";

/** Jumps to the first line of the log that looks like an error, wherever in the log it is. */
export function useFirstError({ job, filter, view, go, open }: UseFirstErrorProps) {
  const [busy, setBusy] = useState(false);

  async function find() {
    const index = view.atStart ? firstError(view.lines) : null;
    if (index !== null) return go(index);
    const whole = view.atStart && view.atEnd;
    const hit = whole ? null : await firstMatch(job.id, filter);
    if (hit) return open(hit);
    notifySuccess("No line looks like an error");
  }

  return {
    busy,
    find: () => {
      setBusy(true);
      find()
        .catch((error: unknown) => notifyError(error, "The log could not be searched"))
        .finally(() => setBusy(false));
    },
  };
}

async function firstMatch(id: string, filter: LogFilter): Promise<LogMatch | null> {
  const asked = { needle: SEARCH_TERMS, regex: true, anyCase: true, limit: 100 };
  let cursor: string | null = "";
  while (cursor !== null) {
    const page = await searchLogs(id, filter, { ...asked, cursor });
    const hit = page.matches.find(({ text }) => looksLikeError(plainText(text)));
    if (hit) return hit;
    cursor = page.next;
  }
  return null;
}
