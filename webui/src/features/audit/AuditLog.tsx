import { Button, Menu, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type ReactNode, useMemo } from "react";
import { auditActions, auditEntries, exportAddress } from "@/api/audit";
import { virtualClusters } from "@/api/virtualClusters";
import { DayInput } from "@/ui/DayInput";
import { EmptyPage, EmptyState } from "@/ui/EmptyState";
import { FilterInput } from "@/ui/FilterInput";
import { Icon } from "@/ui/Icon";
import { Pagination } from "@/ui/Pagination";
import { QueryState } from "@/ui/QueryState";
import { unreadText } from "@/ui/ReadNote";
import { AuditTable } from "./AuditTable";
import { type AuditSearch, isFiltered, toFilter } from "./search";
import css from "./AuditLog.module.css";

interface Props {
  search: AuditSearch;
  onSearch: (change: AuditSearch) => void;
  /** Only what concerns this one; without it there is a filter for it. */
  virtualCluster?: string;
}

/** The audit log with its filters and pages. What is chosen stands in the address. */
export function AuditLog({ search, onSearch, virtualCluster }: Props) {
  const asked = { ...search, vc: virtualCluster ?? search.vc };
  const list = useQuery(auditEntries(toFilter(asked)));
  /** A changed filter begins at its first page. */
  const change = (part: AuditSearch) => onSearch({ ...search, cursor: undefined, ...part });
  const onFirstPage = search.cursor ? () => change({}) : undefined;
  const filtered = isFiltered(virtualCluster ? { ...search, vc: undefined } : search);
  return (
    <>
      <Filters search={search} onChange={change} withVc={!virtualCluster}>
        {virtualCluster ? (
          <span className={css.export}>
            <ExportMenu search={search} virtualCluster={virtualCluster} />
          </span>
        ) : null}
      </Filters>
      <QueryState query={list} what="audit log" rows={14} onFirstPage={onFirstPage}>
        {(page) =>
          page.results.length === 0 && onFirstPage ? (
            <EmptyPage onFirstPage={onFirstPage} />
          ) : page.results.length === 0 ? (
            <EmptyState title={filtered ? "No entry matches" : "Nothing is recorded yet"}>
              {filtered
                ? "No change, login or refused attempt that you may see has all of this."
                : "Changes, logins and refused attempts are listed here."}
            </EmptyState>
          ) : (
            <div className={css.list} data-stale={list.isPlaceholderData || undefined}>
              <AuditTable
                label="Audit log"
                entries={page.results}
                hide={virtualCluster ? "vc" : undefined}
                sorting={[{ id: "at", desc: search.order !== "at" }]}
                onSortingChange={([first]) => change({ order: first?.desc ? undefined : "at" })}
              />
            </div>
          )
        }
      </QueryState>
      {list.data ? (
        <Pagination page={list.data} onGo={(cursor) => onSearch({ ...search, cursor })} />
      ) : null}
    </>
  );
}

const OUTCOMES = [
  { value: "done", label: "Done" },
  { value: "refused", label: "Refused" },
];

interface FiltersProps {
  search: AuditSearch;
  onChange: (part: AuditSearch) => void;
  withVc: boolean;
  children: ReactNode;
}

function Filters({ search, onChange, withVc, children }: FiltersProps) {
  const actions = useQuery(auditActions);
  const vcs = useQuery({ ...virtualClusters, enabled: withVc });
  const choices = useMemo(
    () => actionChoices(actions.data?.map(({ name }) => name) ?? []),
    [actions.data],
  );
  return (
    <search className={css.bar} aria-label="Filter the audit log">
      <FilterInput
        label="Name of the target"
        placeholder="Search targets  ( / )"
        icon="search"
        value={search.target ?? ""}
        onChange={(target) => onChange({ target: target || undefined })}
        className={css.search}
      />
      <FilterInput
        label="Who did it, a user name"
        placeholder="Who"
        icon="user"
        value={search.actor ?? ""}
        onChange={(actor) => onChange({ actor: actor || undefined })}
        className={css.short}
      />
      <Select
        aria-label="Action"
        placeholder="Any action"
        data={choices}
        nothingFoundMessage={unreadText(actions, "list of actions") ?? "No such action"}
        value={search.action ?? null}
        onChange={(action) => onChange({ action: action ?? undefined })}
        clearable
        searchable
        w={168}
      />
      <Select
        aria-label="Outcome"
        placeholder="Any outcome"
        data={OUTCOMES}
        value={search.outcome ?? null}
        onChange={(outcome) =>
          onChange({ outcome: (outcome ?? undefined) as AuditSearch["outcome"] })
        }
        clearable
        w={118}
      />
      {withVc ? (
        <Select
          aria-label="Virtual cluster"
          placeholder="Any virtual cluster"
          data={(vcs.data ?? []).map((vc) => vc.name)}
          nothingFoundMessage={unreadText(vcs, "list of virtual clusters") ?? "None"}
          value={search.vc ?? null}
          onChange={(vc) => onChange({ vc: vc ?? undefined })}
          clearable
          searchable
          w={146}
        />
      ) : null}
      <FilterInput
        label="Address of the client"
        placeholder="Address"
        icon="pin"
        value={search.address ?? ""}
        onChange={(address) => onChange({ address: address || undefined })}
        className={css.short}
      />
      <span className={css.days}>
        <DayInput
          aria-label="From this day"
          value={search.from}
          onChange={(from) => onChange({ from })}
          className={css.day}
        />
        <span aria-hidden="true">–</span>
        <DayInput
          aria-label="To this day"
          value={search.to}
          onChange={(to) => onChange({ to })}
          className={css.day}
        />
      </span>
      {children}
    </search>
  );
}

/** Every action, below a choice of all that begin with the same word. */
function actionChoices(
  names: string[],
): { group: string; items: { value: string; label: string }[] }[] {
  const kinds = new Map<string, string[]>();
  for (const name of names) {
    const [kind = name] = name.split(".");
    kinds.set(kind, [...(kinds.get(kind) ?? []), name]);
  }
  return [...kinds].map(([kind, all]) => ({
    group: kind,
    items: [
      ...(all.length > 1 ? [{ value: kind, label: `${kind}: all` }] : []),
      ...all.map((name) => ({ value: name, label: name })),
    ],
  }));
}

/** Downloads what the list has, all pages of it. */
export function ExportMenu({ search, virtualCluster }: Omit<Props, "onSearch">) {
  const filter = toFilter({ ...search, vc: virtualCluster ?? search.vc });
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button variant="default" leftSection={<Icon name="download" size={14} />}>
          Export
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component="a" href={exportAddress(filter, "csv")} download>
          CSV, for spreadsheets
        </Menu.Item>
        <Menu.Item component="a" href={exportAddress(filter, "jsonl")} download>
          JSON lines, for programs
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
