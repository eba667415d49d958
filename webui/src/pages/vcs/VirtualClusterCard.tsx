import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { cells } from "@/api/cells";
import type { VirtualCluster } from "@/api/types";
import { ownedGpusByModel, unavailableGpus } from "@/features/virtualClusters/ownedGpus";
import { shortModel } from "@/format/names";
import { pluralize } from "@/format/numbers";
import { UsageBar } from "@/ui/UsageBar";
import css from "./VirtualClusterCard.module.css";

export function VirtualClusterCard({ vc }: { vc: VirtualCluster }) {
  const page = { to: "/virtual-clusters/$name", params: { name: vc.name } } as const;
  return (
    <li className={css.card}>
      <header className={css.head}>
        <Link {...page} className={css.name}>
          {vc.name}
        </Link>
        {vc.role ? <span className={css.role}>{vc.role}</span> : null}
      </header>
      {vc.description ? <p className={css.about}>{vc.description}</p> : null}
      <QuotaBars vc={vc} />
      <footer className={css.foot}>
        <Link {...page} search={{ tab: "queue" }} className={css.link}>
          Queue
        </Link>
        <Link {...page} search={{ tab: "members" }} className={css.link}>
          {pluralize(vc.members, "member")}
        </Link>
        <Link to="/jobs" search={{ vc: vc.name }} className={css.link}>
          Jobs
        </Link>
      </footer>
    </li>
  );
}

/** Per GPU model, what is used of what is owned. */
function QuotaBars({ vc }: { vc: VirtualCluster }) {
  const { data: shapes } = useQuery(cells);
  const owns = ownedGpusByModel(vc, shapes);
  const models = [...new Set([...Object.keys(owns), ...Object.keys(vc.used)])].sort();
  if (models.length === 0) return <p className="dim">Owns no GPUs.</p>;
  return (
    <ul className={css.bars}>
      {models.map((model) => {
        const owned = owns[model] ?? 0;
        const used = vc.used[model] ?? 0;
        const now = shapes?.gpus.find(
          (g) => g.virtual_cluster === vc.name && g.gpu_model === model,
        );
        return (
          <li key={model} className={css.bar}>
            <span className="clip" title={model}>
              {shortModel(model)}
            </span>
            <span className="num">
              {used}{" "}
              <span className="dim">
                {used > owned ? `used, owns ${owned}` : `of ${owned} used`}
                {now ? unavailableGpus(now) : ""}
              </span>
            </span>
            <UsageBar
              used={used}
              owned={owned}
              label={`${model} used by ${vc.name}`}
              beyond="borrowed"
            />
          </li>
        );
      })}
    </ul>
  );
}
