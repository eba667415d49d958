import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { type Home, home as homeQuery } from "@/api/home";
import { me } from "@/api/session";
import type { JobSummary, Me } from "@/api/types";
import { hasNoVirtualCluster, maySubmit, NoVirtualCluster } from "@/features/jobs/NoVirtualCluster";
import { Totals } from "@/features/usage/Totals";
import { useLiveQueries, usePoll } from "@/live/live";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { StateIcon } from "@/ui/StateIcon";
import { RelativeTime } from "@/ui/Time";
import { FirstJob } from "./FirstJob";
import { FreeGpus } from "./FreeGpus";
import css from "./HomePage.module.css";

/** What concerns the reader now: own jobs, free GPUs, what waits and why, own usage. */
export function HomePage() {
  const { data: user } = useQuery(me);
  const query = useQuery({ ...homeQuery, refetchInterval: usePoll(15_000) });
  useLiveQueries("jobs", "", [homeQuery.queryKey], 3000);
  if (user && hasNoVirtualCluster(user)) {
    return (
      <>
        <PageHeader title="Home" />
        <NoVirtualCluster user={user} />
      </>
    );
  }
  return (
    <>
      <PageHeader title="Home">
        {user && maySubmit(user) ? <LinkButton to="/jobs/new">New job</LinkButton> : null}
      </PageHeader>
      <div className={css.page}>
        <QueryState query={query} what="overview" rows={6} height={64}>
          {(home) => <Overview home={home} user={user} />}
        </QueryState>
      </div>
    </>
  );
}

function Overview({ home, user }: { home: Home; user: Me | null | undefined }) {
  const username = user?.username ?? "";
  const total = (state: string) => home.states[state] ?? 0;
  return (
    <>
      {home.submitted || !user || !maySubmit(user) ? null : (
        <FirstJob vc={home.virtual_clusters[0]?.name} />
      )}
      <div className={css.columns}>
        <div className={css.column}>
          <Card
            title="Running"
            more={<AllJobs owner={username} state="RUNNING" total={total("RUNNING")} />}
          >
            <JobList jobs={home.running} empty="None of your jobs runs now.">
              {(job) => <RelativeTime at={job.started_at ?? job.submitted_at} />}
            </JobList>
          </Card>
          <Card
            title="Waiting"
            more={<AllJobs owner={username} state="WAITING" total={total("WAITING")} />}
          >
            <JobList jobs={home.waiting} empty="None of your jobs waits." sentence={waitSentence}>
              {(job) => <RelativeTime at={job.submitted_at} />}
            </JobList>
          </Card>
          <Card title="Failed last">
            <JobList jobs={home.failed} empty="None of your jobs failed." sentence={failSentence}>
              {(job) => <RelativeTime at={job.finished_at ?? job.submitted_at} />}
            </JobList>
          </Card>
        </div>
        <div className={css.column}>
          <Card title="Free GPUs now">
            <FreeGpus vcs={home.virtual_clusters} />
          </Card>
          <Card
            title="Your GPU-hours this month"
            more={
              <Link to="/usage" className="link">
                Details
              </Link>
            }
          >
            <Totals sums={home.usage} />
          </Card>
        </div>
      </div>
    </>
  );
}

function waitSentence(job: JobSummary): string {
  return job.wait_reason?.message ?? (job.placed_at ? "Placed: its containers are prepared." : "");
}

function failSentence(job: JobSummary): string {
  return job.diagnosis_title ?? job.exit_reason?.message ?? "";
}

function Card({ title, more, children }: { title: string; more?: ReactNode; children: ReactNode }) {
  return (
    <section className={css.card} aria-label={title}>
      <header className={css.head}>
        <h2 className={css.title}>{title}</h2>
        {more}
      </header>
      {children}
    </section>
  );
}

function AllJobs({ owner, state, total }: { owner: string; state: string; total: number }) {
  if (total === 0) return null;
  return (
    <Link to="/jobs" search={{ owner, state }} className="link">
      All {total.toLocaleString("en")}
    </Link>
  );
}

interface ListProps {
  jobs: readonly JobSummary[];
  empty: string;
  sentence?: (job: JobSummary) => string;
  children: (job: JobSummary) => ReactNode;
}

function JobList({ jobs, empty, sentence, children }: ListProps) {
  if (jobs.length === 0) return <p className="dim">{empty}</p>;
  return (
    <ul className={css.jobs}>
      {jobs.map((job) => (
        <li key={job.id} className={css.job}>
          <StateIcon state={job.state} />
          <div className={css.words}>
            <Link to="/jobs/$id" params={{ id: job.id }} className="link">
              {job.name}
            </Link>
            {sentence ? <p className={css.sentence}>{sentence(job)}</p> : null}
          </div>
          <span className={css.when}>{children(job)}</span>
        </li>
      ))}
    </ul>
  );
}
