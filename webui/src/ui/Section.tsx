import type { ReactNode } from "react";
import css from "./Section.module.css";

/** A titled part of a side panel. */
export function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={css.section}>
      <h2 className={css.title}>{title}</h2>
      {children}
    </section>
  );
}
