import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { me } from "@/api/session";
import type { VirtualCluster } from "@/api/types";
import { virtualCluster } from "@/api/vc";
import { Failure } from "@/ui/Blank";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { CellsTab } from "./cells/CellsTab";
import { HistoryTab } from "./history/HistoryTab";
import { QueueTab } from "./queue/QueueTab";
import type { VcSearch } from "./search";
import { Members } from "./team/Members";
import { Settings } from "./team/Settings";
import { VcTabs } from "./VcTabs";
import css from "./VcPage.module.css";

/** One virtual cluster: what it owns, who runs and waits in it, how that was, and who is in it. */
export function VcPage() {
  const { name } = useParams({ from: "/shell/virtual-clusters/$name" });
  const search = useSearch({ from: "/shell/virtual-clusters/$name" });
  const { data: user } = useQuery(me);
  const vc = useQuery(virtualCluster(name));
  const admin = user?.is_admin ?? false;

  if (vc.isPending) return <SkeletonRows rows={8} />;
  if (!vc.data) {
    return <Failure error={vc.error} what="virtual cluster" retry={() => void vc.refetch()} />;
  }
  const { tab = "cells" } = search;
  const shown = tab === "settings" && !vc.data.may_manage ? "cells" : tab;
  return (
    <>
      <PageHeader
        above={<Crumb />}
        title={name}
        note={<span className={css.note}>{noteOf(vc.data)}</span>}
      >
        <LinkButton
          to="/jobs"
          search={{ vc: name }}
          variant="default"
          leftSection={<Icon name="jobs" size={14} />}
        >
          Its jobs
        </LinkButton>
      </PageHeader>
      <VcTabs vc={vc.data} tab={shown} />
      <section className={css.tab} aria-label={shown} key={name}>
        <Content vc={vc.data} admin={admin} search={{ ...search, tab: shown }} />
      </section>
    </>
  );
}

interface ContentProps {
  vc: VirtualCluster;
  admin: boolean;
  search: VcSearch;
}

function Content({ vc, admin, search }: ContentProps) {
  switch (search.tab) {
    case "queue":
      return <QueueTab name={vc.name} />;
    case "history":
      return <HistoryTab name={vc.name} range={search.range ?? "24h"} />;
    case "members":
      return (
        <div className={css.form}>
          <Members name={vc.name} admin={admin} manages={vc.may_manage} />
        </div>
      );
    case "settings":
      return <Settings vc={vc} admin={admin} />;
    default:
      return <CellsTab name={vc.name} admin={admin} over={search.over} />;
  }
}

function Crumb() {
  return (
    <>
      <Link to="/virtual-clusters" className={css.up}>
        Virtual clusters
      </Link>
      <span className={css.slash}>/</span>
    </>
  );
}

function noteOf({ description, role }: VirtualCluster): string {
  const about = [role && `you are a ${role}`, description].filter(Boolean);
  return about.join(" · ");
}
