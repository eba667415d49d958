import type { CSSProperties } from "react";
import css from "./Cell.module.css";

export type CellKind = "free" | "used" | "bad" | "absent";

interface Props {
  kind: CellKind;
  /** How far it is filled, in percent. */
  level?: number;
  colour?: string;
  small?: boolean;
}

/** One GPU as a cell of the comb. */
export function Cell({ kind, level = 100, colour, small }: Props) {
  return (
    <i
      className={css.cell}
      data-kind={kind}
      data-small={small || undefined}
      style={{ "--level": `${level}%`, "--fill": colour } as CSSProperties}
    />
  );
}
