import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { storages } from "@/api/storages";
import type { Storage } from "@/api/types";
import { StorageForm } from "@/features/storages/StorageForm";
import { StorageTable } from "@/features/storages/StorageTable";
import css from "@/features/storages/storages.module.css";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { Icon } from "@/ui/Icon";
import { SkeletonRows } from "@/ui/Skeleton";

interface Props {
  name: string;
  /** VC admins, and admins. */
  manages: boolean;
}

/** The storages that jobs of one virtual cluster can mount, and the buckets that it manages. */
export function StoragesTab({ name, manages }: Props) {
  const list = useQuery(storages);
  const [editing, setEditing] = useState<Storage | "new" | null>(null);
  if (list.isPending) return <SkeletonRows rows={3} />;
  if (!list.data) return <ErrorState error={list.error} what="list of storages" />;
  const shown = list.data.filter(
    (storage) =>
      storage.managed_by === name || storage.grants.some((grant) => grant.virtual_cluster === name),
  );
  const managedBy = editing === "new" ? name : editing?.managed_by;
  return (
    <>
      {manages ? (
        <div className={css.add}>
          <Button
            variant="default"
            leftSection={<Icon name="plus" size={14} />}
            onClick={() => setEditing("new")}
          >
            Add a bucket
          </Button>
        </div>
      ) : null}
      {shown.length === 0 ? (
        <EmptyState title="No storages yet">
          {manages
            ? "Add a bucket of your team. An administrator grants exports and folders of the nodes."
            : "Administrators and VC admins add storages."}
        </EmptyState>
      ) : (
        <StorageTable rows={shown} vc={name} onEdit={setEditing} />
      )}
      {editing ? (
        <StorageForm
          key={editing === "new" ? "" : editing.name}
          storage={editing === "new" ? null : editing}
          {...(managedBy ? { managedBy } : {})}
          onClose={() => setEditing(null)}
        />
      ) : null}
    </>
  );
}
