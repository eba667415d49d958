import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { me } from "@/api/session";
import type { VirtualCluster } from "@/api/types";
import { virtualCluster } from "@/api/virtualClusters";
import { Breadcrumb } from "@/ui/Breadcrumb";
import { ErrorState } from "@/ui/EmptyState";
import { ErrorBoundary } from "@/ui/ErrorBoundary";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { StaleNote } from "@/ui/StaleNote";
import { TabCount, tabProps, Tabs } from "@/ui/Tabs";
import { CellsTab } from "./cells/CellsTab";
import { HistoryTab } from "./history/HistoryTab";
import { QueueTab } from "./queue/QueueTab";
import { type Tab, TABS, type VcSearch } from "./searchParams";
import { AuditTab } from "./team/AuditTab";
import { MembersTab } from "./team/MembersTab";
import { SettingsTab } from "./team/SettingsTab";
import { StoragesTab } from "./team/StoragesTab";
import { UsageTab } from "./usage/UsageTab";
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
    return (
      <ErrorState error={vc.error} what="virtual cluster" retry={() => void vc.refetch()} page />
    );
  }
  const { tab = "cells" } = search;
  const shown = MANAGED.has(tab) && !vc.data.may_manage ? "cells" : tab;
  return (
    <>
      <PageHeader
        above={
          <Breadcrumb>
            <Link to="/virtual-clusters">Virtual clusters</Link>
          </Breadcrumb>
        }
        title={name}
        note={<span className={css.note}>{noteOf(vc.data)}</span>}
      >
        <LinkButton
          to="/jobs"
          search={{ vc: name }}
          variant="default"
          leftSection={<Icon name="jobs" size={14} />}
        >
          Jobs
        </LinkButton>
      </PageHeader>
      <StaleNote query={vc} what="virtual cluster" />
      <VcTabs vc={vc.data} tab={shown} />
      <section className={css.tab} aria-label={shown} key={name}>
        <ErrorBoundary what="This tab" resetKey={`${vc.data.name} ${shown}`}>
          <Content vc={vc.data} admin={admin} search={{ ...search, tab: shown }} />
        </ErrorBoundary>
      </section>
    </>
  );
}

/** For those who manage the virtual cluster. */
const MANAGED: ReadonlySet<Tab> = new Set(["settings", "audit"]);

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
    case "usage":
      return <UsageTab vc={vc} admin={admin} month={search.month} />;
    case "members":
      return (
        <div className={css.form}>
          <MembersTab name={vc.name} admin={admin} manages={vc.may_manage} />
        </div>
      );
    case "storages":
      return <StoragesTab name={vc.name} manages={vc.may_manage} />;
    case "audit":
      return <AuditTab name={vc.name} />;
    case "settings":
      return <SettingsTab key={vc.name} vc={vc} admin={admin} />;
    default:
      return <CellsTab name={vc.name} admin={admin} over={search.over} />;
  }
}

function noteOf({ description, role }: VirtualCluster): string {
  const about = [
    role && `you are ${role === "admin" ? "an admin" : `a ${role}`}`,
    description,
  ].filter(Boolean);
  return about.join(" · ");
}

const LABELS: Record<Tab, string> = {
  cells: "Cells",
  queue: "Queue",
  history: "History",
  usage: "Usage",
  members: "Members",
  storages: "Storages",
  settings: "Settings",
  audit: "Audit",
};

interface Props {
  vc: VirtualCluster;
  tab: Tab;
}

function VcTabs({ vc, tab }: Props) {
  return (
    <Tabs label="About this virtual cluster" active={tab}>
      {TABS.filter((each) => vc.may_manage || !MANAGED.has(each)).map((each) => (
        <Link
          key={each}
          to="/virtual-clusters/$name"
          params={{ name: vc.name }}
          search={{ tab: each }}
          {...tabProps(each === tab)}
        >
          {LABELS[each]}
          {each === "members" ? <TabCount value={vc.members} /> : null}
        </Link>
      ))}
    </Tabs>
  );
}
