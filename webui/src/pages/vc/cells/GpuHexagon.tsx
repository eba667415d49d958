import type { SVGProps } from "react";
import { hexagon } from "./tileLayout";
import type { GpuLook } from "./treeCell";
import css from "./GpuHexagon.module.css";

const CELL = hexagon({ x: 0, y: 0 });

/** The states differ in shape as well as in colour. */
const MARKS: Partial<Record<GpuLook, string>> = {
  bad: "M-3.6-3.6 3.6 3.6M3.6-3.6-3.6 3.6",
  "used-bad": "M-4.4 0h8.8",
  lent: "M-3.4 3.4 3.4-3.4M-1.4-3.4h4.8v4.8",
  reserved: "M0-4.2V0l2.8 1.8",
};

interface Props extends SVGProps<SVGGElement> {
  state: GpuLook;
}

/** One GPU as a cell of the treeCell, around (0, 0). */
export function GpuHexagon({ state, ...rest }: Props) {
  const mark = MARKS[state];
  return (
    <g {...rest} className={css.gpu} data-state={state}>
      <path d={CELL} />
      {mark ? <path className={css.mark} d={mark} /> : null}
    </g>
  );
}
