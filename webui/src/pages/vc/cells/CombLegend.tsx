import type { CellState } from "@/api/vc";
import { Gpu } from "./Gpu";
import { hexagon } from "./tile";
import css from "./CombLegend.module.css";

const KEY: [CellState, string][] = [
  ["free", "Free"],
  ["used", "In use"],
  ["reserved", "Reserved"],
  ["lent", "Lent out, until needed"],
  ["bad", "Bad"],
];

/** `others`: GPUs of the same nodes that are not of this virtual cluster are drawn, too. */
export function CombLegend({ others }: { others: boolean }) {
  return (
    <ul className={css.legend} aria-label="Legend">
      {KEY.map(([state, word]) => (
        <li key={state}>
          <svg width="16" height="18" viewBox="-13 -13.5 26 27" aria-hidden="true">
            <Gpu state={state} />
          </svg>
          {word}
        </li>
      ))}
      {others ? (
        <li>
          <svg width="16" height="18" viewBox="-13 -13.5 26 27" aria-hidden="true">
            <path className={css.others} d={hexagon({ x: 0, y: 0 })} />
          </svg>
          Not its own
        </li>
      ) : null}
    </ul>
  );
}
