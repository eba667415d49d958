import { Children, type ReactNode } from "react";
import css from "./Breadcrumb.module.css";

/** The way up from a page: links to the pages above it, each followed by a slash. */
export function Breadcrumb({ children }: { children: ReactNode }) {
  return (
    <nav aria-label="Pages above" className={css.trail}>
      {Children.map(children, (link) => (
        <>
          {link}
          <span className={css.slash} aria-hidden>
            /
          </span>
        </>
      ))}
    </nav>
  );
}
