import type { ReactNode } from "react";
import css from "./Legend.module.css";

/** What the marks of a drawing mean: list items, each with a mark and its words. */
export function Legend({ className, children }: { className?: string; children: ReactNode }) {
  return (
    <ul className={className ? `${css.legend} ${className}` : css.legend} aria-label="Legend">
      {children}
    </ul>
  );
}
