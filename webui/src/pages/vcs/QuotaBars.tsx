import type { VirtualCluster } from "@/api/types";
import { shortModel } from "@/format/names";
import { UseBar } from "@/ui/UseBar";
import css from "./QuotaBars.module.css";

/** Per GPU model, what is used of what is owned. */
export function QuotaBars({ vc }: { vc: VirtualCluster }) {
  const models = [...new Set([...Object.keys(vc.quotas), ...Object.keys(vc.used)])].sort();
  if (models.length === 0) return <p className="dim">Owns no GPUs.</p>;
  return (
    <ul className={css.bars}>
      {models.map((model) => {
        const owned = vc.quotas[model] ?? 0;
        const used = vc.used[model] ?? 0;
        return (
          <li key={model} className={css.bar}>
            <span className="clip" title={model}>
              {shortModel(model)}
            </span>
            <span className="num">
              {used} <span className="dim">of {owned} used</span>
            </span>
            <UseBar used={used} owned={owned} label={`${model} used by ${vc.name}`} />
          </li>
        );
      })}
    </ul>
  );
}
