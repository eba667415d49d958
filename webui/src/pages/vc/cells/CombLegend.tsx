import type { CellState } from "@/api/vc";
import { Gpu } from "./Gpu";
import css from "./CombLegend.module.css";

const KEY: [CellState, string][] = [
  ["free", "Free"],
  ["used", "In use"],
  ["reserved", "Reserved"],
  ["lent", "Lent out, until needed"],
  ["bad", "Bad"],
];

export function CombLegend() {
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
    </ul>
  );
}
