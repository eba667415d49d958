import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { jobCount, jobs } from "@/api/jobs";
import { me } from "@/api/session";
import { hasNoVirtualCluster, maySubmit, NoVirtualCluster } from "@/features/jobs/NoVirtualCluster";
import { pluralize } from "@/format/numbers";
import { useLiveQueries, usePoll } from "@/live/live";
import { EmptyPage, EmptyState, ErrorState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { Pagination } from "@/ui/Pagination";
import { SkeletonRows } from "@/ui/Skeleton";
import { StaleNote } from "@/ui/StaleNote";
import { BulkActions } from "./BulkActions";
import { JobFilters } from "./JobFilters";
import { JobsTable } from "./JobsTable";
import { isFiltered, type JobsSearch, toFilter } from "./searchParams";
import css from "./JobsPage.module.css";

export function JobsPage() {
  const search = useSearch({ from: "/shell/jobs" });
  const page = useQuery({ ...jobs(toFilter(search)), refetchInterval: usePoll() });
  const filter = toFilter(search);
  const total = useQuery({ ...jobCount(filter), refetchInterval: usePoll(30_000, 120_000) });
  useLiveQueries("jobs", "", [["jobs"]]);
  useLiveQueries("jobs", "", [["job-count"]], 10_000);
  const navigate = useNavigate({ from: "/jobs" });
  const go = (cursor: string | undefined) =>
    void navigate({ search: (old) => ({ ...old, cursor }) });
  const onFirstPage = search.cursor ? () => go(undefined) : undefined;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(NONE);
  // What is on another page, or gone from this one, is not acted on.
  const selected = page.data?.results.filter((job) => chosen.has(job.id)) ?? [];

  return (
    <>
      <PageHeader title="Jobs" note={total.data ? totalLabel(total.data, search) : null}>
        {search.tag ? (
          <LinkButton to="/jobs/compare" search={{ tag: search.tag }} variant="default">
            Compare runs
          </LinkButton>
        ) : null}
        <LinkButton to="/archive" variant="default">
          Archive
        </LinkButton>
        <ExportButton list="jobs" filter={filter} />
      </PageHeader>
      <JobFilters />
      {page.isPending ? <SkeletonRows rows={14} /> : null}
      {page.isError && !page.data ? (
        <ErrorState
          error={page.error}
          what="list of jobs"
          retry={() => void page.refetch()}
          onFirstPage={onFirstPage}
        />
      ) : null}
      <StaleNote query={page} what="list of jobs" />
      {page.data?.results.length === 0 ? (
        onFirstPage ? (
          <EmptyPage onFirstPage={onFirstPage} />
        ) : (
          <NoJobs filtered={isFiltered(search)} />
        )
      ) : null}
      {page.data && page.data.results.length > 0 ? (
        <div className={css.list} data-stale={page.isPlaceholderData || undefined}>
          <JobsTable jobs={page.data.results} chosen={chosen} onChoose={setChosen} />
        </div>
      ) : null}
      {selected.length > 0 ? (
        <BulkActions jobs={selected} onChoose={setChosen} />
      ) : page.data ? (
        <Pagination page={page.data} onGo={go} />
      ) : null}
    </>
  );
}

const NONE: ReadonlySet<string> = new Set();

function totalLabel({ total, more }: { total: number; more: boolean }, search: JobsSearch): string {
  const jobs = more ? `${total.toLocaleString("en")}+ jobs` : pluralize(total, "job");
  return isFiltered(search) ? `${jobs} ${total === 1 ? "matches" : "match"}` : jobs;
}

function NoJobs({ filtered }: { filtered: boolean }) {
  const navigate = useNavigate();
  const { data: user } = useQuery(me);
  if (user && hasNoVirtualCluster(user)) return <NoVirtualCluster user={user} />;
  if (filtered) {
    return (
      <EmptyState
        title="No job matches"
        action={
          <Button variant="default" onClick={() => void navigate({ to: "/jobs", search: {} })}>
            Show all jobs
          </Button>
        }
      >
        Nothing here has this state, owner, virtual cluster and name.
      </EmptyState>
    );
  }
  if (user && !maySubmit(user))
    return <EmptyState title="No jobs yet">Jobs that you may see are listed here.</EmptyState>;
  return (
    <EmptyState title="No jobs yet" action={<LinkButton to="/jobs/new">Submit a job</LinkButton>}>
      A job is a gang of containers that starts together, once its virtual cluster has the GPUs.
    </EmptyState>
  );
}
