import { useQuery } from "@tanstack/react-query";
import { useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import { job as jobQuery } from "@/api/jobs";
import type { Job } from "@/api/types";
import { useLiveQueries, usePoll } from "@/live/live";
import { Failure } from "@/ui/Blank";
import { SkeletonRows } from "@/ui/Skeleton";
import { AttemptsTab } from "./attempts/AttemptsTab";
import { EventsTab } from "./events/EventsTab";
import { JobHeader } from "./JobHeader";
import { JobTabs } from "./JobTabs";
import { LogsTab } from "./logs/LogsTab";
import type { JobSearch } from "./search";
import { TasksTab } from "./tasks/TasksTab";
import { isOver } from "./words";
import css from "./JobPage.module.css";

const MetricsTab = lazy(() => import("./metrics/MetricsTab"));
const TerminalTab = lazy(() => import("./terminal/TerminalTab"));
const SpecTab = lazy(() => import("./SpecTab"));

export function JobPage() {
  const { id } = useParams({ from: "/shell/jobs/$id" });
  const search = useSearch({ from: "/shell/jobs/$id" });
  const poll = usePoll(3000);
  const job = useQuery({
    ...jobQuery(id),
    refetchInterval: ({ state }) => (state.data && isOver(state.data.state) ? false : poll),
  });
  // A job of 2,000 tasks is not to be read again with each of them.
  useLiveQueries("job", id, [["job", id]], (job.data?.tasks ?? 0) > 200 ? 3000 : 500);

  const tab = search.tab ?? "tasks";
  if (job.isPending) return <SkeletonRows rows={10} />;
  if (!job.data) {
    return <Failure error={job.error} what="job" retry={() => void job.refetch()} />;
  }
  return (
    <>
      <JobHeader job={job.data} tab={tab} />
      <JobTabs job={job.data} tab={tab} />
      <section className={css.tab} aria-label={tab}>
        <Suspense fallback={<SkeletonRows rows={8} />}>
          <Tab job={job.data} search={search} />
        </Suspense>
      </section>
    </>
  );
}

function Tab({ job, search }: { job: Job; search: JobSearch }) {
  switch (search.tab) {
    case "logs":
      return <LogsTab key={job.id} job={job} {...search} />;
    case "metrics":
      return <MetricsTab job={job} />;
    case "attempts":
      return <AttemptsTab job={job} />;
    case "events":
      return <EventsTab job={job} />;
    case "terminal":
      return <TerminalTab job={job} rank={search.rank} />;
    case "spec":
      return <SpecTab job={job} />;
    default:
      return <TasksTab job={job} />;
  }
}
