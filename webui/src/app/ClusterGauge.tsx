import { Button, Tooltip } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { cluster } from "@/api/cluster";
import { me } from "@/api/session";
import { formatClock } from "@/format/time";
import { useLiveQueries, useLiveStatus, usePoll } from "@/live/live";
import { isUnread, unreadText } from "@/ui/ReadNote";
import { UsageBar } from "@/ui/UsageBar";
import css from "./ClusterGauge.module.css";

/** How full the cluster is, at the foot of the sidebar. */
export function ClusterGauge() {
  const { data: user } = useQuery(me);
  const query = useQuery({ ...cluster, refetchInterval: usePoll(15_000) });
  const { data } = query;
  useLiveQueries("cluster", "", [cluster.queryKey], 3000);
  if (isUnread(query)) {
    return (
      <div
        className={css.gauge}
        role="status"
        title={unreadText(query, "use of GPUs") ?? undefined}
      >
        GPUs in use could not be read
        <Button size="compact-xs" variant="default" onClick={() => void query.refetch()}>
          Try again
        </Button>
      </div>
    );
  }
  if (!data) return null;
  const models = Object.values(data.gpus);
  const total = models.reduce((sum, each) => sum + each.total, 0);
  const used = models.reduce((sum, each) => sum + each.used, 0);
  return (
    <Link to="/cluster" className={css.gauge}>
      <span className={css.line}>
        <span>GPUs in use</span>
        <span className="num">
          {used} <span className="dim">of {total}</span>
        </span>
      </span>
      <UsageBar used={used} owned={total} label="GPUs in use" />
      <span className={css.line}>
        <span className="dim num">
          {query.error ? `At ${formatClock(query.dataUpdatedAt)}: ` : null}
          {/* GPUs are counted for all, jobs only where their team shows them. */}
          {user?.is_admin ? "" : "You see "}
          {data.jobs.RUNNING ?? 0} running, {data.jobs.WAITING ?? 0} waiting
        </span>
        <LiveIndicator />
      </span>
    </Link>
  );
}

const STATUS_LABELS = {
  open: "Live: changes show at once",
  connecting: "Connecting for live changes",
  waiting: "Not live: the page asks every few seconds instead",
};

function LiveIndicator() {
  const status = useLiveStatus();
  return (
    <Tooltip label={STATUS_LABELS[status]}>
      <span
        className={css.dot}
        data-status={status}
        role="img"
        aria-label={STATUS_LABELS[status]}
      />
    </Tooltip>
  );
}
