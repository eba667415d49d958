import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useMemo, useState } from "react";
import { ApiError } from "@/api/errors";
import { tasks } from "@/api/jobs";
import type { LogFilter } from "@/api/logs";
import type { Job, Stream } from "@/api/types";
import { formatDateTime } from "@/format/time";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { ReadNote } from "@/ui/ReadNote";
import { SkeletonRows } from "@/ui/Skeleton";
import { notifyError } from "@/ui/notify";
import { LogLines } from "./LogLines";
import { LogStatusBar } from "./LogStatusBar";
import { LogToolbar } from "./LogToolbar";
import { SearchPanel } from "./SearchPanel";
import type { Line } from "./assemble";
import { findLines, nextMatch, previousMatch } from "./find";
import { lineLink } from "./lineLink";
import { useFirstError, useInitialPosition } from "./useInitialPosition";
import { useLogReader } from "./useLogReader";
import { useLogSearch } from "./useLogSearch";
import { useSearchHit } from "./useSearchHit";
import css from "./LogsTab.module.css";

interface Props {
  job: Job;
  rank?: number;
  attempt?: number;
  stream?: Stream;
  find?: string;
  line?: string;
}

export function LogsTab({ job, rank, attempt, stream, find, line }: Props) {
  const navigate = useNavigate({ from: "/jobs/$id" });
  const query = useQuery(tasks(job.id));
  const choose = (part: LogFilter) =>
    void navigate({
      search: (old) => ({ ...old, find: undefined, line: undefined, ...part }),
      replace: true,
    });
  const linkTo = (to: Line) =>
    void navigate({ search: (old) => ({ ...old, line: lineLink(to) }), replace: true });
  if (job.logs_deleted_at) return <Deleted job={job} />;
  return (
    <>
      <ReadNote query={query} what="list of tasks" wide />
      {/* The key begins a new log when another part of it is chosen. */}
      <LogPane
        key={`${rank} ${attempt} ${stream} ${find}`}
        job={job}
        filter={{ rank, attempt, stream }}
        find={find}
        link={line}
        onLink={linkTo}
        tools={{ tasks: query.data ?? [], onChoose: choose }}
      />
    </>
  );
}

interface PaneProps {
  job: Job;
  filter: LogFilter;
  find: string | undefined;
  /** The line to open the log at; a link to another one is made by `onLink`. */
  link: string | undefined;
  onLink: (line: Line) => void;
  tools: Pick<React.ComponentProps<typeof LogToolbar>, "tasks" | "onChoose">;
}

function LogPane({ job, filter, find, link, onLink, tools }: PaneProps) {
  const [follow, setFollow] = useState(!find && !link);
  // Long lines of a phone's width are read more easily below each other.
  const [wrap, setWrap] = useState(() => window.matchMedia("(max-width: 760px)").matches);
  const [times, setTimes] = useState(false);
  const [typed, setTyped] = useState(find ?? "");
  const [target, setTarget] = useState<number | null>(null);
  const needle = useDeferredValue(typed.trim());
  const { reader, view } = useLogReader(job.id, filter, follow);
  const { lines } = view;
  const ranks = job.tasks > 1 && filter.rank === undefined;
  const found = useMemo(() => findLines(lines, needle), [lines, needle]);

  function go(index: number | null) {
    setTarget(index);
    if (index !== null) setFollow(false);
  }

  const open = useSearchHit(reader, go);
  const error = useFirstError({ job, filter, view, go, open });
  const search = useLogSearch(job.id, filter);
  useInitialPosition({ id: job.id, filter, find, link, view, go, open });

  return (
    <div className={css.pane}>
      <LogToolbar
        {...tools}
        job={job}
        filter={filter}
        wrap={wrap}
        onWrap={setWrap}
        times={times}
        onTimes={setTimes}
        needle={typed}
        onNeedle={(text) => {
          setTyped(text);
          setTarget(null);
        }}
        found={needle ? found : null}
        whole={view.atStart && view.atEnd}
        target={target}
        onNext={() => go(nextMatch(found, target === null ? 0 : target + 1))}
        onPrevious={() => go(previousMatch(found, (target ?? lines.length) - 1))}
        onWhole={(regex) => search.start(typed.trim(), regex)}
        firstError={error}
      />
      <div className={css.work}>
        {lines.length === 0 ? (
          <NoLines job={job} view={view} onRetry={() => void reader.toEnd()} />
        ) : (
          <LogLines
            lines={lines}
            wrap={wrap}
            ranks={ranks}
            times={times}
            needle={needle}
            target={target}
            follow={follow && view.atEnd}
            onFollow={(on) => setFollow(on && view.atEnd)}
            onLink={(index) => {
              const line = lines[index];
              if (line) onLink(line);
              go(index);
            }}
            onNearStart={() => void reader.earlier()}
            onNearEnd={() => void reader.later()}
          />
        )}
        {search.needle ? (
          <SearchPanel
            search={search}
            ranks={ranks}
            onOpen={(hit) => {
              open(hit).catch((error: unknown) => notifyError(error, "The log could not be read"));
            }}
          />
        ) : null}
      </div>
      <LogStatusBar
        view={view}
        follow={follow && view.atEnd}
        onStart={() => {
          setFollow(false);
          void reader.toStart();
        }}
        onEnd={() => {
          setFollow(true);
          if (!view.atEnd) void reader.toEnd();
        }}
        onEarlier={() => void reader.earlier()}
      />
    </div>
  );
}

interface NoLinesProps {
  job: Job;
  view: ReturnType<typeof useLogReader>["view"];
  onRetry: () => void;
}

function NoLines({ job, view, onRetry }: NoLinesProps) {
  if (isDeleted(view.error)) return <Deleted job={job} />;
  if (view.error) return <ErrorState error={view.error} what="log" retry={onRetry} />;
  if (view.busy === "end") return <SkeletonRows rows={12} height={20} />;
  if (view.complete) return <EmptyState title="Nothing was written">This log is empty.</EmptyState>;
  if (job.state === "WAITING")
    return (
      <EmptyState title="No log yet">Lines show here as soon as the first task starts.</EmptyState>
    );
  return (
    <EmptyState
      title="No line yet"
      action={
        <Button variant="default" onClick={onRetry}>
          Look again
        </Button>
      }
    >
      Nothing was written so far. If your program does write, its language may hold output back: for
      Python, set PYTHONUNBUFFERED=1.
    </EmptyState>
  );
}

/** Shown to a reader who began before the logs were deleted. */
function isDeleted(error: unknown): boolean {
  return error instanceof ApiError && error.code === "logs_deleted";
}

function Deleted({ job }: { job: Job }) {
  return (
    <EmptyState title="This log was deleted">
      Logs are kept for a time after a job ends
      {job.logs_deleted_at ? (
        <>; these were deleted on {formatDateTime(job.logs_deleted_at)}</>
      ) : null}
      . Events, attempts and use of the job are still here.
    </EmptyState>
  );
}
