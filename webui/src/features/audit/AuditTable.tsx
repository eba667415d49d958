import { ActionIcon } from "@mantine/core";
import type { SortingState } from "@tanstack/react-table";
import { useMemo, useState } from "react";
import type { AuditEntry } from "@/api/types";
import { DescriptionItem, DescriptionList } from "@/ui/DescriptionList";
import { Icon } from "@/ui/Icon";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { actorOf, changesOf, shown, summaryOf, targetOf, timestamp } from "./labels";
import css from "./AuditTable.module.css";

interface Props {
  label: string;
  entries: AuditEntry[];
  /** Of one user or of one virtual cluster: what is the same in every row is left out. */
  hide?: "actor" | "vc";
  sorting?: SortingState;
  onSortingChange?: (sorting: SortingState) => void;
}

/** Audit entries in rows; each opens to what changed, and from where it was done. */
export function AuditTable({ label, entries, hide, sorting, onSortingChange }: Props) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const columns = useMemo(() => {
    const toggle = (id: string) =>
      setOpen((old) => {
        const next = new Set(old);
        if (!next.delete(id)) next.add(id);
        return next;
      });
    return auditColumns(open, toggle, sorting !== undefined).filter(({ id }) => id !== hide);
  }, [open, hide, sorting]);
  return (
    <DataTable
      label={label}
      columns={columns}
      rows={entries}
      rowId={(entry) => entry.id}
      file="page"
      minWidth={760}
      sorting={sorting}
      onSortingChange={onSortingChange}
      detailOf={(entry) => (open.has(entry.id) ? <Details entry={entry} /> : null)}
    />
  );
}

function auditColumns(
  open: ReadonlySet<string>,
  toggle: (id: string) => void,
  sortable: boolean,
): Column<AuditEntry>[] {
  return [
    {
      id: "open",
      header: "Details",
      hiddenHeader: true,
      width: "24px",
      cell: (entry) => (
        <ActionIcon
          size="sm"
          aria-expanded={open.has(entry.id)}
          aria-label={`Details of ${entry.action} at ${timestamp(entry.at)}`}
          onClick={() => toggle(entry.id)}
        >
          <Icon name={open.has(entry.id) ? "down" : "right"} size={14} />
        </ActionIcon>
      ),
    },
    {
      id: "at",
      header: "Time",
      width: "152px",
      cell: (entry) => (
        <time dateTime={entry.at}>
          {timestamp(entry.at).slice(0, 10)}{" "}
          <span className="num">{timestamp(entry.at).slice(11)}</span>
        </time>
      ),
      sortValue: sortable ? (entry) => entry.at : undefined,
    },
    {
      id: "actor",
      header: "Who",
      width: "minmax(60px, 1fr)",
      cell: (entry) => <ActorName entry={entry} />,
    },
    {
      id: "action",
      header: "Action",
      width: "minmax(100px, 1.4fr)",
      cell: (entry) => (
        <span className={css.action}>
          {entry.action}
          {entry.outcome === "refused" ? <span className={css.refused}>refused</span> : null}
        </span>
      ),
    },
    {
      id: "target",
      header: "Target",
      width: "minmax(120px, 1.2fr)",
      optional: "phone",
      cell: (entry) => <span title={targetOf(entry)}>{targetOf(entry)}</span>,
    },
    {
      id: "vc",
      header: "Virtual cluster",
      width: "minmax(90px, 0.8fr)",
      optional: "phone",
      cell: (entry) => entry.virtual_cluster || <span className="dim">–</span>,
    },
    {
      id: "change",
      header: "Change",
      width: "minmax(120px, 2fr)",
      optional: "phone",
      cell: (entry) => (
        <span className="dim" title={summaryOf(entry)}>
          {summaryOf(entry)}
        </span>
      ),
    },
  ];
}

function ActorName({ entry }: { entry: AuditEntry }) {
  const name = actorOf(entry);
  return entry.actor.name ? (
    <b className={css.actor}>{name}</b>
  ) : (
    <span className="dim">{name}</span>
  );
}

function Details({ entry }: { entry: AuditEntry }) {
  const changes = changesOf(entry);
  return (
    <div className={css.details}>
      {changes.length > 0 ? (
        <table className={css.diff}>
          <caption className="sr-only">What changed</caption>
          <thead>
            <tr>
              <th scope="col">Field</th>
              <th scope="col">Before</th>
              <th scope="col">After</th>
            </tr>
          </thead>
          <tbody>
            {changes.map(({ name, before, after }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{before === undefined ? "–" : <del>{shown(before)}</del>}</td>
                <td>{after === undefined ? "–" : <ins>{shown(after)}</ins>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      <DescriptionList>
        <DescriptionItem name="Target">
          {targetOf(entry)}
          {entry.target.id && entry.target.id !== entry.target.name ? (
            <code className={css.id}>{entry.target.id}</code>
          ) : null}
        </DescriptionItem>
        <DescriptionItem name="Address">{entry.address || "–"}</DescriptionItem>
        <DescriptionItem name="Credential">{credentialOf(entry)}</DescriptionItem>
        <DescriptionItem name="Program">{entry.user_agent || "–"}</DescriptionItem>
        <DescriptionItem name="Request">
          {entry.request_id ? <code>{entry.request_id}</code> : "–"}
        </DescriptionItem>
        {Object.entries(entry.facts).map(([name, value]) => (
          <DescriptionItem key={name} name={name}>
            {shown(value)}
          </DescriptionItem>
        ))}
      </DescriptionList>
    </div>
  );
}

function credentialOf({ token, actor }: AuditEntry): string {
  if (token) return `token ${token.name} (${token.scope})`;
  return actor.kind === "user" ? "session" : "–";
}
