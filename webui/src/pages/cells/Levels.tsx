import type { Chain } from "@/api/types";
import { count } from "@/format/size";
import { Icon } from "@/ui/Icon";
import { shortWords } from "./words";
import css from "./Levels.module.css";

/** A chain in words, from its largest cells down to single GPUs: each is made of the next. */
export function Levels({ chain }: { chain: Chain }) {
  const levels = chain.levels.toSorted((a, b) => b.level - a.level);
  return (
    <p className={css.levels}>
      <span className={css.nodes}>{count(chain.nodes, "node")}</span>
      {levels.map((level, at) => {
        const above = levels[at - 1];
        return (
          <span key={level.type} className={css.level} title={`${level.words}: ${level.type}`}>
            {above ? <Icon name="right" size={12} /> : null}
            {above ? `${above.gpus / level.gpus} × ${shortWords(level)}` : shortWords(level)}
          </span>
        );
      })}
    </p>
  );
}
