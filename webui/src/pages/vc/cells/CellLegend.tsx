import { Legend } from "@/ui/Legend";
import { GpuHexagon } from "./GpuHexagon";
import { capitalize } from "@/format/names";
import { UNUSABLE } from "./labels";
import { hexagon } from "./tileLayout";
import type { GpuLook } from "./treeCell";
import css from "./CellLegend.module.css";

const LEGEND: [GpuLook, string][] = [
  ["free", "Free"],
  ["used", "In use"],
  ["reserved", "Reserved"],
  ["lent", "Lent out, until needed"],
  ["used-bad", `In use, ${UNUSABLE}`],
  ["bad", capitalize(UNUSABLE)],
];

/** `others`: GPUs of the same nodes that are not of this virtual cluster are drawn, too. */
export function CellLegend({ others }: { others: boolean }) {
  return (
    <Legend>
      {LEGEND.map(([state, word]) => (
        <li key={state}>
          <svg width="16" height="18" viewBox="-13 -13.5 26 27" aria-hidden="true">
            <GpuHexagon state={state} />
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
    </Legend>
  );
}
