import type { Me } from "@/api/types";
import { EmptyState } from "@/ui/EmptyState";

/** Whether a user has nowhere to submit to. */
export function hasNoVirtualCluster(user: Me): boolean {
  return !user.is_admin && user.virtual_clusters.length === 0;
}

/** What such a user reads where others are invited to submit. */
export function NoVirtualCluster({ user }: { user: Me }) {
  const whom = user.admins.length > 0 ? user.admins.join(" or ") : "an administrator";
  return (
    <EmptyState title="You are in no virtual cluster yet">
      Jobs run in virtual clusters. Ask {whom} to add you ({user.username}) to one.
    </EmptyState>
  );
}
