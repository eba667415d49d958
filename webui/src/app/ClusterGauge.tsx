import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { cluster } from "@/api/cluster";
import { useLiveQueries, usePoll } from "@/live/live";
import { UseBar } from "@/ui/UseBar";
import { LiveDot } from "./LiveDot";
import css from "./ClusterGauge.module.css";

/** How full the cluster is, at the foot of the sidebar. */
export function ClusterGauge() {
  const { data } = useQuery({ ...cluster, refetchInterval: usePoll(15_000) });
  useLiveQueries("cluster", "", [cluster.queryKey], 3000);
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
      <UseBar used={used} owned={total} label="GPUs in use" />
      <span className={css.line}>
        <span className="dim num">
          {data.jobs.RUNNING ?? 0} running, {data.jobs.WAITING ?? 0} waiting
        </span>
        <LiveDot />
      </span>
    </Link>
  );
}
