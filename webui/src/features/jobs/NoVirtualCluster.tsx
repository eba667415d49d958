import type { Me } from "@/api/types";
import { EmptyState } from "@/ui/EmptyState";

/** Whether a user has nowhere to submit to. */
export function hasNoVirtualCluster(user: Me): boolean {
  return !user.is_admin && user.virtual_clusters.length === 0;
}

/** Whether a user may submit jobs anywhere: viewers only read. */
export function maySubmit(user: Me): boolean {
  return user.is_admin || user.virtual_clusters.some(({ role }) => role !== "viewer");
}

/** What a user reads where others are invited to submit. */
export function NoVirtualCluster({ user }: { user: Me }) {
  if (!hasNoVirtualCluster(user)) {
    return (
      <EmptyState title="You are a viewer">
        You see what runs in {user.virtual_clusters.map(({ name }) => name).join(", ")}. To run
        jobs, ask a VC admin there to make you ({user.username}) a member.
      </EmptyState>
    );
  }
  const whom = user.admins.length > 0 ? user.admins.join(" or ") : "an administrator";
  return (
    <EmptyState title="You are in no virtual cluster yet">
      Jobs run in virtual clusters. Ask {whom} to add you ({user.username}) to one.
    </EmptyState>
  );
}
