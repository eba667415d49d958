import type { Comb } from "./model";
import { treeItem } from "./Tile";
import css from "./Closed.module.css";

/** A cell of a large virtual cluster in numbers; a click shows its GPUs. */
export function Closed({ comb, active }: { comb: Comb; active: string | null }) {
  const { gpus, used, lent, bad } = comb;
  const parts = { used, lent, idle: Math.max(0, gpus - used - lent - bad), bad };
  return (
    <div {...treeItem(comb, active)} className={css.closed}>
      <header className={css.head} aria-hidden="true">
        <span className={css.title}>{comb.title}</span>
        <span className="num">
          {used}/{gpus}
        </span>
      </header>
      <span className={css.bar}>
        {Object.entries(parts).map(([part, number]) =>
          number > 0 ? <span key={part} data-part={part} style={{ flexGrow: number }} /> : null,
        )}
      </span>
    </div>
  );
}
