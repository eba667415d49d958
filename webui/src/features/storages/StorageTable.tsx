import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Storage } from "@/api/types";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";

interface Props {
  rows: Storage[];
  /** Shows what its jobs may do; without it, which virtual clusters may use each storage. */
  virtualCluster?: string;
  extraColumns?: Column<Storage>[];
}

export function StorageTable({ rows, virtualCluster, extraColumns }: Props) {
  const columns = useMemo(
    () => [...storageColumns(virtualCluster), ...(extraColumns ?? [])],
    [virtualCluster, extraColumns],
  );
  return (
    <DataTable
      label="Storages"
      columns={columns}
      rows={rows}
      rowId={(storage) => storage.name}
      file={virtualCluster ? { rows: `storages-of-${virtualCluster}` } : "page"}
      minWidth={760}
    />
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
      exportValue: mountOf,
    },
    {
      id: "access",
      header: "Access",
      width: "minmax(150px, 1.2fr)",
      cell: (storage) => accessOf(storage, virtualCluster),
      exportValue: (storage) => accessOf(storage, virtualCluster),
    },
    {
      id: "description",
      header: "Description",
      width: "minmax(140px, 1.5fr)",
      cell: (storage) => <span className="dim">{storage.description}</span>,
      exportValue: (storage) => storage.description,
    },
  ];
  if (virtualCluster !== undefined) return columns;
  return [
    ...columns,
    {
      id: "grants",
      header: "Granted to",
      width: "minmax(120px, 1fr)",
      cell: (storage) =>
        [
          ...storage.grants.map((grant) => grantText(grant.virtual_cluster, grant.read_only)),
          ...storage.group_grants.map((grant) =>
            grantText(`group ${grant.group}`, grant.read_only),
          ),
        ].join(", ") || "no one",
    },
  ];
}

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
  return words.join(", ");
}
