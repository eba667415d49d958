import { Link } from "@tanstack/react-router";
import type { Job } from "@/api/types";
import { TABS, type Tab } from "./search";
import css from "@/ui/tabs.module.css";

const LABELS: Record<Tab, string> = {
  tasks: "Tasks",
  logs: "Logs",
  metrics: "Metrics",
  events: "Events",
  spec: "Job file",
};

export function JobTabs({ job, tab }: { job: Job; tab: Tab }) {
  return (
    <nav className={css.tabs} aria-label="About this job">
      {TABS.map((each) => (
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
        </Link>
      ))}
    </nav>
  );
}
