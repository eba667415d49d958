import { useQuery } from "@tanstack/react-query";
import { storages } from "@/api/storages";
import { StorageTable } from "@/features/storages/StorageTable";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { SkeletonRows } from "@/ui/Skeleton";

/** The storages that jobs of one virtual cluster can mount. */
export function StoragesTab({ name }: { name: string }) {
  const list = useQuery(storages);
  if (list.isPending) return <SkeletonRows rows={3} />;
  if (!list.data) return <ErrorState error={list.error} what="list of storages" />;
  const granted = list.data.filter((storage) =>
    storage.grants.some((grant) => grant.virtual_cluster === name),
  );
  if (granted.length === 0) {
    return (
      <EmptyState title="No storages yet">
        An administrator adds storages and grants them to virtual clusters.
      </EmptyState>
    );
  }
  return <StorageTable rows={granted} vc={name} />;
}
