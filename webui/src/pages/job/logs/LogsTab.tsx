import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useDeferredValue, useMemo, useState } from "react";
import { tasks } from "@/api/jobs";
import type { Job, Stream } from "@/api/types";
import { Blank, Failure } from "@/ui/Blank";
import { SkeletonRows } from "@/ui/Skeleton";
import { findLines, nextMatch, previousMatch } from "./find";
import { LogFoot } from "./LogFoot";
import { LogLines } from "./LogLines";
import { LogTools } from "./LogTools";
import { useFirstError } from "./useFirstError";
import { useLogReader } from "./useLogReader";
import css from "./LogsTab.module.css";

interface Props {
  job: Job;
  rank?: number;
  stream?: Stream;
}

export function LogsTab({ job, rank, stream }: Props) {
  const navigate = useNavigate({ from: "/jobs/$id" });
  const { data: all } = useQuery(tasks(job.id));
  const choose = (part: { rank?: number; stream?: Stream }) =>
    void navigate({ search: (old) => ({ ...old, ...part }), replace: true });
  return (
    // The key begins a new log when another part of it is chosen.
    <LogPane
      key={`${rank} ${stream}`}
      job={job}
      filter={{ rank, stream }}
      tools={{ tasks: all ?? [], rank, stream, onChoose: choose }}
    />
  );
}

interface PaneProps {
  job: Job;
  filter: { rank?: number; stream?: Stream };
  tools: Pick<React.ComponentProps<typeof LogTools>, "tasks" | "rank" | "stream" | "onChoose">;
}

function LogPane({ job, filter, tools }: PaneProps) {
  const [follow, setFollow] = useState(true);
  const [wrap, setWrap] = useState(false);
  const [times, setTimes] = useState(false);
  const [typed, setTyped] = useState("");
  const [target, setTarget] = useState<number | null>(null);
  const needle = useDeferredValue(typed.trim());
  const { reader, view } = useLogReader(job.id, filter, follow);
  const { lines } = view;
  const found = useMemo(() => findLines(lines, needle), [lines, needle]);

  function go(index: number | null) {
    setTarget(index);
    if (index !== null) setFollow(false);
  }

  const error = useFirstError({ job, filter, reader, view, go });

  return (
    <div className={css.pane}>
      <LogTools
        {...tools}
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
        target={target}
        onNext={() => go(nextMatch(found, target === null ? 0 : target + 1))}
        onPrevious={() => go(previousMatch(found, (target ?? lines.length) - 1))}
        firstError={error}
      />
      {lines.length === 0 ? (
        <NoLines job={job} view={view} onRetry={() => void reader.toEnd()} />
      ) : (
        <LogLines
          lines={lines}
          wrap={wrap}
          ranks={job.tasks > 1 && filter.rank === undefined}
          times={times}
          needle={needle}
          target={target}
          follow={follow && view.atEnd}
          onFollow={(on) => setFollow(on && view.atEnd)}
          onNearStart={() => void reader.earlier()}
          onNearEnd={() => void reader.later()}
        />
      )}
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
