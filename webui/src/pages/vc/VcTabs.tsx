import { Link } from "@tanstack/react-router";
import type { VirtualCluster } from "@/api/types";
import { TABS, type Tab } from "./search";
import css from "@/ui/tabs.module.css";

const LABELS: Record<Tab, string> = {
  cells: "Cells",
  queue: "Queue",
  history: "History",
  members: "Members",
  settings: "Settings",
};

interface Props {
  vc: VirtualCluster;
  tab: Tab;
}

export function VcTabs({ vc, tab }: Props) {
  return (
    <nav className={css.tabs} aria-label="About this virtual cluster">
      {TABS.filter((each) => vc.may_manage || each !== "settings").map((each) => (
        <Link
          key={each}
          to="/virtual-clusters/$name"
          params={{ name: vc.name }}
          search={{ tab: each }}
          className={css.tab}
          aria-current={each === tab ? "page" : undefined}
          data-active={each === tab || undefined}
        >
          {LABELS[each]}
          {each === "members" ? <span className={css.count}>{vc.members}</span> : null}
        </Link>
      ))}
    </nav>
  );
}
