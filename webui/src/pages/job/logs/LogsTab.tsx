import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useMemo, useState } from "react";
import { ApiError } from "@/api/errors";
import { tasks } from "@/api/jobs";
import type { LogFilter } from "@/api/logs";
import type { Job, Stream } from "@/api/types";
import { fullTime } from "@/format/time";
import { Blank, Failure } from "@/ui/Blank";
import { SkeletonRows } from "@/ui/Skeleton";
import { tellError } from "@/ui/notify";
import { findLines, nextMatch, previousMatch } from "./find";
import { LogFoot } from "./LogFoot";
import { LogLines } from "./LogLines";
import { LogTools } from "./LogTools";
import { SearchPanel } from "./SearchPanel";
import { useFirstError } from "./useFirstError";
import { useHit } from "./useHit";
import { useLogReader } from "./useLogReader";
import { useLogSearch } from "./useLogSearch";
import { useOpening } from "./useOpening";
import css from "./LogsTab.module.css";

interface Props {
  job: Job;
  rank?: number;
  attempt?: number;
  stream?: Stream;
  find?: string;
}

export function LogsTab({ job, rank, attempt, stream, find }: Props) {
  const navigate = useNavigate({ from: "/jobs/$id" });
  const { data: all } = useQuery(tasks(job.id));
  const choose = (part: LogFilter) =>
    void navigate({ search: (old) => ({ ...old, find: undefined, ...part }), replace: true });
  if (job.logs_deleted_at) return <Deleted job={job} />;
  return (
    // The key begins a new log when another part of it is chosen.
    <LogPane
      key={`${rank} ${attempt} ${stream} ${find}`}
      job={job}
      filter={{ rank, attempt, stream }}
      find={find}
      tools={{ tasks: all ?? [], onChoose: choose }}
    />
  );
}

interface PaneProps {
  job: Job;
  filter: LogFilter;
  find: string | undefined;
  tools: Pick<React.ComponentProps<typeof LogTools>, "tasks" | "onChoose">;
}

function LogPane({ job, filter, find, tools }: PaneProps) {
  const [follow, setFollow] = useState(!find);
  const [wrap, setWrap] = useState(false);
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

  const open = useHit(reader, go);
  const error = useFirstError({ job, filter, view, go, open });
  const search = useLogSearch(job.id, filter);
  useOpening({ id: job.id, filter, find, view, go, open });

  return (
    <div className={css.pane}>
      <LogTools
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
            onNearStart={() => void reader.earlier()}
            onNearEnd={() => void reader.later()}
          />
        )}
        {search.needle ? (
          <SearchPanel
            search={search}
            ranks={ranks}
            onOpen={(hit) => {
              open(hit).catch((error: unknown) => tellError(error, "The log could not be read"));
            }}
          />
        ) : null}
      </div>
      <LogFoot
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
  if (view.error) return <Failure error={view.error} what="log" retry={onRetry} />;
  if (view.busy === "end") return <SkeletonRows rows={12} height={20} />;
  if (view.complete) return <Blank title="Nothing was written">This log is empty.</Blank>;
  if (job.state === "WAITING")
    return <Blank title="No log yet">Lines show here as soon as the first task starts.</Blank>;
  return (
    <Blank
      title="No line yet"
      action={
        <Button variant="default" onClick={onRetry}>
          Look again
        </Button>
      }
    >
      Nothing was written so far. If your program does write, its language may hold output back: for
      Python, set PYTHONUNBUFFERED=1.
    </Blank>
  );
}

/** Told to a reader that began before they were deleted. */
function isDeleted(error: unknown): boolean {
  return error instanceof ApiError && error.code === "logs_deleted";
}

function Deleted({ job }: { job: Job }) {
  return (
    <Blank title="This log was deleted">
      Logs are kept for a time after a job ends
      {job.logs_deleted_at ? <>; these were deleted on {fullTime(job.logs_deleted_at)}</> : null}.
      Events, attempts and use of the job are still here.
    </Blank>
  );
}
