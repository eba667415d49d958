import { Link } from "@tanstack/react-router";
import type { Job } from "@/api/types";
import { TABS, type Tab } from "./search";
import { taskStates } from "./words";
import css from "@/ui/tabs.module.css";

const LABELS: Record<Tab, string> = {
  tasks: "Tasks",
  logs: "Logs",
  metrics: "Metrics",
  attempts: "Attempts",
  events: "Events",
  spec: "Job file",
  terminal: "Terminal",
};

export function JobTabs({ job, tab }: { job: Job; tab: Tab }) {
  return (
    <nav className={css.tabs} aria-label="About this job">
      {TABS.filter((each) => each !== "terminal" || each === tab || hasShell(job)).map((each) => (
        <Link
          key={each}
          to="/jobs/$id"
          params={{ id: job.id }}
          search={{ tab: each }}
          className={css.tab}
          aria-current={each === tab ? "page" : undefined}
          data-active={each === tab || undefined}
        >
          {LABELS[each]}
          {each === "tasks" ? (
            <span className={css.count}>{job.tasks.toLocaleString("en")}</span>
          ) : null}
          {each === "attempts" && job.attempt > 1 ? (
            <span className={css.count}>{job.attempt.toLocaleString("en")}</span>
          ) : null}
        </Link>
      ))}
    </nav>
  );
}

function hasShell(job: Job): boolean {
  return job.may_exec && (taskStates(job).RUNNING ?? 0) > 0;
}
