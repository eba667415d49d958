import { ActionIcon } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { deleteStorage, storages } from "@/api/storages";
import type { Storage } from "@/api/types";
import { DeleteIcon } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { notifyError } from "@/ui/notify";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import css from "./storages.module.css";

interface Props {
  rows: Storage[];
  vc: string;
  /** Called for one of those that the user may change. */
  onEdit: (storage: Storage) => void;
}

/** The storages that jobs of a virtual cluster may mount, and what they may do there. */
export function StorageTable({ rows, vc, onEdit }: Props) {
  const columns = useStorageColumns(rows, onEdit, vc);
  return (
    <DataTable
      label="Storages"
      columns={columns}
      rows={rows}
      rowId={(storage) => storage.name}
      file={{ rows: `storages-of-${vc}` }}
      minWidth={760}
    />
  );
}

/** With a virtual cluster, what its jobs may do; without one, to whom each storage is granted. The
 * last column has what the user may do with those that are theirs to change. */
export function useStorageColumns(
  rows: Storage[],
  onEdit: (storage: Storage) => void,
  vc?: string,
): Column<Storage>[] {
  const changeable = rows.some((storage) => storage.may_change);
  return useMemo(
    () => [...storageColumns(vc), ...(changeable ? [actionColumn(onEdit)] : [])],
    [vc, changeable, onEdit],
  );
}

function storageColumns(virtualCluster?: string): Column<Storage>[] {
  const columns: Column<Storage>[] = [
    {
      id: "name",
      header: "Name",
      width: "minmax(120px, 1fr)",
      cell: (storage) => (
        <Link to="/storages/$name" params={{ name: storage.name }}>
          <b>{storage.name}</b>
        </Link>
      ),
      sortValue: (storage) => storage.name,
    },
    {
      id: "mount",
      header: "Mounted at",
      width: "minmax(140px, 1fr)",
      cell: (storage) => <code>{mountOf(storage)}</code>,
      sortValue: mountOf,
    },
    {
      id: "access",
      header: "Access",
      width: "minmax(180px, 1.3fr)",
      cell: (storage) => <Wrapped text={accessOf(storage, virtualCluster)} />,
      sortValue: (storage) => accessOf(storage, virtualCluster),
    },
    {
      id: "description",
      header: "Description",
      width: "minmax(140px, 1.5fr)",
      cell: (storage) => <Wrapped text={storage.description} dim />,
      sortValue: (storage) => storage.description,
    },
  ];
  if (virtualCluster !== undefined) return columns;
  return [
    ...columns,
    {
      id: "grants",
      header: "Granted to",
      width: "minmax(120px, 1fr)",
      cell: (storage) => <Wrapped text={holdersOf(storage)} />,
      sortValue: holdersOf,
    },
  ];
}

/** A text that takes as many lines as it needs. */
function Wrapped({ text, dim }: { text: string; dim?: boolean }) {
  return <span className={`${css.wrapped} ${dim ? "dim" : ""}`}>{text}</span>;
}

const holdersOf = (storage: Storage) =>
  [
    ...storage.grants.map((grant) => grantText(grant.virtual_cluster, grant.read_only)),
    ...storage.group_grants.map((grant) => grantText(`group ${grant.group}`, grant.read_only)),
  ].join(", ") || "no one";

const mountOf = (storage: Storage) => (storage.home ? "/home/USER" : `/mnt/${storage.name}`);

const grantText = (holder: string, readOnly: boolean) =>
  readOnly ? `${holder} (read only)` : holder;

function accessOf(storage: Storage, virtualCluster?: string): string {
  const grant = storage.grants.find((each) => each.virtual_cluster === virtualCluster);
  const readOnly = storage.read_only || (grant?.read_only ?? false);
  const words = [readOnly ? "read only" : "read and write"];
  if (storage.per_user) words.push(`a ${storage.home ? "home" : "folder"} for each user`);
  if (storage.type === "s3") words.push("a copy for each task");
  if (storage.default) words.push("default");
  if (storage.managed_by) words.push(`managed by ${storage.managed_by}`);
  return words.join(", ");
}

function actionColumn(onEdit: (storage: Storage) => void): Column<Storage> {
  return {
    id: "actions",
    header: "Change",
    hiddenHeader: true,
    width: "68px",
    align: "end",
    cell: (storage) =>
      storage.may_change ? (
        <StorageActions storage={storage} onEdit={() => onEdit(storage)} />
      ) : null,
  };
}

function StorageActions({ storage, onEdit }: { storage: Storage; onEdit: () => void }) {
  const queries = useQueryClient();
  const deletion = useMutation({
    mutationFn: () => deleteStorage(storage.name),
    onSuccess: () => queries.invalidateQueries({ queryKey: storages.queryKey }),
    onError: (error) => notifyError(error, "The storage was not removed"),
  });
  return (
    <span className={css.actions}>
      <ActionIcon size="sm" aria-label={`Edit ${storage.name}`} onClick={onEdit}>
        <Icon name="edit" size={14} />
      </ActionIcon>
      <DeleteIcon
        size="sm"
        label={`Remove ${storage.name}`}
        question={`Remove ${storage.name}?`}
        explanation="Jobs that start from then on cannot mount it. What lies in it stays where it is."
        verb="Remove"
        onConfirm={() => deletion.mutate()}
      />
    </span>
  );
}
