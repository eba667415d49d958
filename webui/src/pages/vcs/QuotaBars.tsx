import { useQuery } from "@tanstack/react-query";
import { cells } from "@/api/cells";
import type { VirtualCluster } from "@/api/types";
import { shortModel } from "@/format/names";
import { UseBar } from "@/ui/UseBar";
import { ownedByModel, unavailable } from "./owned";
import css from "./QuotaBars.module.css";

/** Per GPU model, what is used of what is owned. */
export function QuotaBars({ vc }: { vc: VirtualCluster }) {
  const { data: shapes } = useQuery(cells);
  const owns = ownedByModel(vc, shapes);
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
                {now ? unavailable(now) : ""}
              </span>
            </span>
            <UseBar
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
