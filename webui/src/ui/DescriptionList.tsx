import type { ReactNode } from "react";
import css from "./DescriptionList.module.css";

/** Short facts side by side, each under its name. */
export function DescriptionList({ children }: { children: ReactNode }) {
  return <dl className={css.facts}>{children}</dl>;
}

export function DescriptionItem({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className={css.fact}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
