import { useEffect, useRef, useState } from "react";
import { searchLogs, type LogFilter } from "@/api/logs";
import type { LogMatch } from "@/api/types";
import { ignoresCase } from "./find";

/** Matches that are read before one has to ask for more. */
const BATCH = 100;

export interface LogSearch {
  /** What is looked for; "" while nothing is. */
  needle: string;
  regex: boolean;
  hits: LogMatch[];
  busy: boolean;
  /** The server has looked at all there is. */
  done: boolean;
  error: unknown;
  start: (needle: string, regex: boolean) => void;
  more: () => void;
  close: () => void;
}

interface State extends Pick<LogSearch, "needle" | "regex" | "hits" | "busy" | "error"> {
  /** Where the server goes on; null: it reached the end. */
  next: string | null;
}

const IDLE: State = { needle: "", regex: false, hits: [], busy: false, error: null, next: null };

/** Searches a whole log on the server, request by request: each does a bounded amount of work. */
export function useLogSearch(id: string, filter: LogFilter): LogSearch {
  const [state, setState] = useState(IDLE);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => () => abort.current?.abort(), []);

  async function read(from: State) {
    abort.current?.abort();
    const { signal } = (abort.current = new AbortController());
    let found = { ...from, busy: true, error: null };
    setState(found);
    const enough = from.hits.length + BATCH;
    try {
      while (found.busy) {
        const limit = enough - found.hits.length;
        const { needle, regex, next } = found;
        const anyCase = ignoresCase(needle);
        const asked = { needle, regex, anyCase, cursor: next, limit };
        const page = await searchLogs(id, filter, asked, signal);
        const hits = [...found.hits, ...page.matches];
        const busy = page.next !== null && hits.length < enough;
        found = { ...found, hits, busy, next: page.next };
        setState(found);
      }
    } catch (error) {
      if (!signal.aborted) setState({ ...found, busy: false, error });
    }
  }

  return {
    ...state,
    done: !state.busy && state.next === null && state.error === null,
    start: (needle, regex) => void read({ ...IDLE, needle, regex, next: "" }),
    more: () => void read(state),
    close: () => {
      abort.current?.abort();
      setState(IDLE);
    },
  };
}
