import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { me } from "@/api/session";
import { storages } from "@/api/storages";
import type { Storage } from "@/api/types";
import { StorageForm } from "@/features/storages/StorageForm";
import { useStorageColumns } from "@/features/storages/StorageTable";
import { EmptyState } from "@/ui/EmptyState";
import { ExportButton } from "@/ui/ExportButton";
import { Icon } from "@/ui/Icon";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { PageTable } from "@/ui/table/PageTable";

const NONE: Storage[] = [];

export function StoragesPage() {
  const { data: user } = useQuery(me);
  const list = useQuery(storages);
  const [editing, setEditing] = useState<Storage | "new" | null>(null);
  const admin = user?.is_admin ?? false;
  const columns = useStorageColumns(list.data ?? NONE, setEditing);
  return (
    <>
      <PageHeader title="Storages" note="Folders that jobs mount by name">
        <ExportButton list="storages" />
        {admin ? (
          <Button
            variant="default"
            leftSection={<Icon name="plus" size={14} />}
            onClick={() => setEditing("new")}
          >
            Add a storage
          </Button>
        ) : null}
      </PageHeader>
      <QueryState query={list} what="list of storages">
        {(data) =>
          data.length === 0 ? (
            <EmptyState title="No storages yet">
              {admin
                ? "Add an NFS export, a folder that every node has or a bucket of S3, and grant it to virtual clusters."
                : "An administrator adds storages and grants them to virtual clusters."}
            </EmptyState>
          ) : (
            <PageTable
              filterLabel="Filter storages"
              label="Storages"
              columns={columns}
              rows={data}
              rowId={(storage) => storage.name}
              minWidth={860}
            />
          )
        }
      </QueryState>
      {editing ? (
        <StorageForm
          key={editing === "new" ? "" : editing.name}
          storage={editing === "new" ? null : editing}
          {...(admin || editing === "new" ? {} : { managedBy: editing.managed_by })}
          onClose={() => setEditing(null)}
        />
      ) : null}
    </>
  );
}
