import { type ReactNode, useEffect, useRef } from "react";
import css from "./Tabs.module.css";

interface Props {
  /** What the tabs are about, for screen readers. */
  label: string;
  /** The chosen one; on a narrow screen it is scrolled into sight. */
  active: string;
  children: ReactNode;
}

/** A row of links, each to a part of the page; give each `tabProps`. */
export function Tabs({ label, active, children }: Props) {
  const row = useRef<HTMLElement>(null);
  useEffect(() => {
    const tab = row.current?.querySelector<HTMLElement>("[data-active]");
    if (!row.current || !tab) return;
    // Not scrollIntoView, which would scroll the page as well.
    row.current.scrollLeft = tab.offsetLeft - (row.current.clientWidth - tab.offsetWidth) / 2;
  }, [active]);
  return (
    <nav ref={row} className={css.tabs} aria-label={label}>
      {children}
    </nav>
  );
}

/** The properties of a link that is a tab. */
export function tabProps(active: boolean) {
  return {
    className: css.tab,
    "aria-current": active ? ("page" as const) : undefined,
    "data-active": active || undefined,
  };
}

/** A number behind the name of a tab. */
export function TabCount({ value }: { value: number }) {
  return <span className={css.count}>{value.toLocaleString("en")}</span>;
}
