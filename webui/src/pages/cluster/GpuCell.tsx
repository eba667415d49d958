import type { CSSProperties } from "react";
import css from "./GpuCell.module.css";

export type GpuCellKind = "free" | "cordoned" | "used" | "bad";

interface Props {
  kind: GpuCellKind;
  /** How far it is filled, in percent. */
  level?: number;
  colour?: string;
  small?: boolean;
}

/** One GPU as a cell of the comb. */
export function GpuCell({ kind, level = 100, colour, small }: Props) {
  return (
    <i
      className={css.cell}
      data-kind={kind}
      data-small={small || undefined}
      style={{ "--level": `${level}%`, "--fill": colour } as CSSProperties}
    />
  );
}
