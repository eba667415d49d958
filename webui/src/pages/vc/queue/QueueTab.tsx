import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { vcQueue } from "@/api/vc";
import { count } from "@/format/size";
import { useLiveQueries, usePoll } from "@/live/live";
import { Blank, Failure } from "@/ui/Blank";
import { LinkButton } from "@/ui/LinkButton";
import { SkeletonRows } from "@/ui/Skeleton";
import { barOfRunning, barOfWaiting } from "./bars";
import { TimeKey } from "./TimeKey";
import { TimeLine } from "./TimeLine";
import { WaitingTable } from "./WaitingTable";
import css from "./QueueTab.module.css";

/** Who runs and who waits, and when each will start. */
export function QueueTab({ name }: { name: string }) {
  const query = vcQueue(name);
  const queue = useInfiniteQuery({ ...query, refetchInterval: usePoll() });
  useLiveQueries("jobs", "", [query.queryKey], 1500);
  const pages = queue.data?.pages;
  const running = useMemo(() => pages?.flatMap((page) => page.running) ?? [], [pages]);
  const waiting = useMemo(() => pages?.flatMap((page) => page.waiting) ?? [], [pages]);
  const totals = pages?.at(-1);
  const bars = useMemo(
    () => [...running.map(barOfRunning), ...waiting.map(barOfWaiting)],
    [running, waiting],
  );

  if (queue.isPending) return <SkeletonRows rows={8} />;
  if (!queue.data) {
    return <Failure error={queue.error} what="queue" retry={() => void queue.refetch()} />;
  }
  if (bars.length === 0) return <Idle />;
  return (
    <div className={css.page}>
      <section aria-label="Time line">
        <header className={css.head}>
          <h2>Time line</h2>
          <span className="dim">
            {count(totals?.running_total ?? 0, "job runs", "jobs run")},{" "}
            {count(totals?.waiting_total ?? 0, "waits", "wait")}
          </span>
          <TimeKey />
        </header>
        <TimeLine bars={bars} />
      </section>
      <section aria-label="Waiting jobs">
        <header className={css.head}>
          <h2>Waiting</h2>
        </header>
        {waiting.length > 0 ? (
          <WaitingTable waiting={waiting} />
        ) : (
          <p className={css.none}>Nobody waits: what is submitted now is looked at first.</p>
        )}
        {queue.hasNextPage ? (
          <Button
            variant="default"
            className={css.more}
            loading={queue.isFetchingNextPage}
            onClick={() => void queue.fetchNextPage()}
          >
            Show more
          </Button>
        ) : null}
      </section>
    </div>
  );
}

function Idle() {
  return (
    <Blank
      title="Nothing runs and nothing waits"
      action={
        <LinkButton to="/jobs/new" variant="default">
          New job
        </LinkButton>
      }
    >
      All GPUs of this virtual cluster are there for the next job.
    </Blank>
  );
}
