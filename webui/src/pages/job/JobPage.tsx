import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { Suspense } from "react";
import { isApiError } from "@/api/errors";
import { job as jobQuery } from "@/api/jobs";
import type { Job } from "@/api/types";
import { isFinished } from "@/features/jobs/permissions";
import { useLiveQueries, usePoll } from "@/live/live";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { ErrorBoundary } from "@/ui/ErrorBoundary";
import { lazyPart } from "@/ui/lazyParts";
import { LinkButton } from "@/ui/LinkButton";
import { SkeletonRows } from "@/ui/Skeleton";
import { TabCount, tabProps, Tabs } from "@/ui/Tabs";
import { StaleNote } from "@/ui/StaleNote";
import { AttemptsTab } from "./attempts/AttemptsTab";
import { EventsTab } from "./EventsTab";
import { JobHeader } from "./JobHeader";
import { taskStates } from "./labels";
import { LogsTab } from "./logs/LogsTab";
import { RankGrid } from "./logs/RankGrid";
import { type JobSearch, type Tab, TABS } from "./searchParams";
import { TasksTab } from "./tasks/TasksTab";
import css from "./JobPage.module.css";

const MetricsTab = lazyPart(() => import("./metrics/MetricsTab"));
const TerminalTab = lazyPart(() => import("./terminal/TerminalTab"));
const SpecTab = lazyPart(() => import("./SpecTab"));

export function JobPage() {
  const { id } = useParams({ from: "/shell/jobs/$id" });
  const search = useSearch({ from: "/shell/jobs/$id" });
  const poll = usePoll(3000);
  const job = useQuery({
    ...jobQuery(id),
    refetchInterval: ({ state }) => (state.data && isFinished(state.data.state) ? false : poll),
  });
  // A job of 2,000 tasks is not to be read again with each of them.
  useLiveQueries("job", id, [["job", id]], (job.data?.tasks ?? 0) > 200 ? 3000 : 500);

  const tab = search.tab ?? "tasks";
  if (job.isPending) return <SkeletonRows rows={10} />;
  if (!job.data) {
    if (isApiError(job.error) && job.error.code === "job_archived") return <Archived id={id} />;
    return (
      <ErrorState
        error={job.error}
        what="job"
        retry={() => void job.refetch()}
        way={
          <LinkButton to="/jobs" variant="default">
            Go to the jobs
          </LinkButton>
        }
        page
      />
    );
  }
  return (
    <>
      <JobHeader job={job.data} tab={tab} />
      <StaleNote query={job} what="job" />
      <JobTabs job={job.data} tab={tab} />
      <section className={css.tab} aria-label={tab}>
        <ErrorBoundary what="This tab" resetKey={`${job.data.id} ${search.tab}`}>
          <Suspense fallback={<SkeletonRows rows={8} />}>
            <TabContent job={job.data} search={search} />
          </Suspense>
        </ErrorBoundary>
      </section>
    </>
  );
}

function Archived({ id }: { id: string }) {
  return (
    <EmptyState
      page
      title="This job was archived"
      action={
        <LinkButton to="/archive/$id" params={{ id }}>
          Open its record
        </LinkButton>
      }
    >
      It finished long ago. Its job file, attempts and events are kept; logs and metrics are not.
    </EmptyState>
  );
}

function TabContent({ job, search }: { job: Job; search: JobSearch }) {
  switch (search.tab) {
    case "logs":
      if (search.view === "ranks" && job.tasks > 1 && !job.logs_deleted_at)
        return <RankGrid job={job} first={search.first ?? 0} attempt={search.attempt} />;
      return <LogsTab key={job.id} job={job} {...search} />;
    case "metrics":
      return <MetricsTab job={job} />;
    case "attempts":
      return <AttemptsTab job={job} compare={search.compare} />;
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

const LABELS: Record<Tab, string> = {
  tasks: "Tasks",
  logs: "Logs",
  metrics: "Metrics",
  attempts: "Attempts",
  events: "Events",
  spec: "Job file",
  terminal: "Terminal",
};

function JobTabs({ job, tab }: { job: Job; tab: Tab }) {
  return (
    <Tabs label="About this job" active={tab}>
      {TABS.filter((each) => each !== "terminal" || each === tab || hasShell(job)).map((each) => (
        <Link
          key={each}
          to="/jobs/$id"
          params={{ id: job.id }}
          search={{ tab: each }}
          {...tabProps(each === tab)}
        >
          {LABELS[each]}
          {each === "tasks" ? <TabCount value={job.tasks} /> : null}
          {each === "attempts" && job.attempt > 1 ? <TabCount value={job.attempt} /> : null}
        </Link>
      ))}
    </Tabs>
  );
}

function hasShell(job: Job): boolean {
  return job.may_exec && (taskStates(job).RUNNING ?? 0) > 0;
}
