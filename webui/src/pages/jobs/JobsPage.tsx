import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { jobs } from "@/api/jobs";
import { me } from "@/api/session";
import { useLiveQueries, usePoll } from "@/live/live";
import { Blank, Failure } from "@/ui/Blank";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { JobFilters } from "./JobFilters";
import { JobsTable } from "./JobsTable";
import { isOutside, NoVirtualCluster } from "./NoVirtualCluster";
import { Pager } from "./Pager";
import { isFiltered, toFilter } from "./search";
import css from "./JobsPage.module.css";

export function JobsPage() {
  const search = useSearch({ from: "/shell/jobs" });
  const page = useQuery({ ...jobs(toFilter(search)), refetchInterval: usePoll() });
  useLiveQueries("jobs", "", [["jobs"]]);

  return (
    <>
      <PageHeader title="Jobs" />
      <JobFilters />
      {page.isPending ? <SkeletonRows rows={14} /> : null}
      {page.isError && !page.data ? (
        <Failure error={page.error} what="list of jobs" retry={() => void page.refetch()} />
      ) : null}
      {page.data?.results.length === 0 ? <NoJobs filtered={isFiltered(search)} /> : null}
      {page.data && page.data.results.length > 0 ? (
        <div className={css.list} data-stale={page.isPlaceholderData || undefined}>
          <JobsTable jobs={page.data.results} />
        </div>
      ) : null}
      {page.data ? <Pager page={page.data} /> : null}
    </>
  );
}

function NoJobs({ filtered }: { filtered: boolean }) {
  const navigate = useNavigate();
  const { data: user } = useQuery(me);
  if (user && isOutside(user)) return <NoVirtualCluster user={user} />;
  if (filtered) {
    return (
      <Blank
        title="No job matches"
        action={
          <Button variant="default" onClick={() => void navigate({ to: "/jobs", search: {} })}>
            Show all jobs
          </Button>
        }
      >
        Nothing here has this state, owner, virtual cluster and name.
      </Blank>
    );
  }
  return (
    <Blank title="No jobs yet" action={<LinkButton to="/jobs/new">Submit a job</LinkButton>}>
      A job is a gang of containers that starts together, once its virtual cluster has the GPUs.
    </Blank>
  );
}
