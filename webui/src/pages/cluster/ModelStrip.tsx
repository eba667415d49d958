import type { Cluster } from "@/api/types";
import { shortModel } from "@/format/names";
import { UseBar } from "@/ui/UseBar";
import css from "./ModelStrip.module.css";

/** The cluster in numbers, one figure per GPU model. */
export function ModelStrip({ cluster }: { cluster: Cluster }) {
  const models = Object.entries(cluster.gpus);
  if (models.length === 0) return null;
  return (
    <ul className={css.strip} aria-label="GPUs by model">
      {models.map(([model, { total, used, bad }]) => (
        <li key={model} className={css.model}>
          <span className={css.name} title={model}>
            {shortModel(model)}
          </span>
          <span className={css.number}>
            <b className="num">{(total - used - bad).toLocaleString("en")}</b> free of{" "}
            {total.toLocaleString("en")}
            {bad > 0 ? <span className={css.bad}>{bad} bad</span> : null}
          </span>
          <UseBar used={used} owned={total} label={`${model} in use`} />
        </li>
      ))}
    </ul>
  );
}
