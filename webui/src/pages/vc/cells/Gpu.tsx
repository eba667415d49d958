import type { SVGProps } from "react";
import type { CellState } from "@/api/vc";
import { hexagon } from "./tile";
import css from "./Gpu.module.css";

const CELL = hexagon({ x: 0, y: 0 });

/** Shape tells the states apart as well as colour. */
const MARKS: Partial<Record<CellState, string>> = {
  bad: "M-3.6-3.6 3.6 3.6M3.6-3.6-3.6 3.6",
  lent: "M-3.4 3.4 3.4-3.4M-1.4-3.4h4.8v4.8",
  reserved: "M0-4.2V0l2.8 1.8",
};

interface Props extends SVGProps<SVGGElement> {
  state: CellState;
}

/** One GPU as a cell of the comb, around (0, 0). */
export function Gpu({ state, ...rest }: Props) {
  const mark = MARKS[state];
  return (
    <g {...rest} className={css.gpu} data-state={state}>
      <path d={CELL} />
      {mark ? <path className={css.mark} d={mark} /> : null}
    </g>
  );
}
