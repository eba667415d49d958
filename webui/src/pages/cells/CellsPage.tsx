import { useQuery } from "@tanstack/react-query";
import { assignment, cells } from "@/api/cells";
import { me } from "@/api/session";
import { usePoll } from "@/live/live";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { PageHeader } from "@/ui/PageHeader";
import { SkeletonRows } from "@/ui/Skeleton";
import { AssignmentEditor } from "./AssignmentEditor";

/** What each virtual cluster owns, in cells, to be changed by administrators. */
export function CellsPage() {
  const { data: user } = useQuery(me);
  const admin = user?.is_admin ?? false;
  const poll = usePoll();
  const shapes = useQuery({ ...cells, enabled: admin, refetchInterval: poll });
  const owned = useQuery({ ...assignment, enabled: admin, refetchInterval: poll });
  if (user && !admin) {
    return (
      <EmptyState page title="For administrators only">
        They say which cells a team owns.
      </EmptyState>
    );
  }
  if (shapes.data && owned.data)
    return <AssignmentEditor cells={shapes.data} assignment={owned.data} />;
  const error = shapes.error ?? owned.error;
  const retry = () => void Promise.all([shapes.refetch(), owned.refetch()]);
  return (
    <>
      <PageHeader title="Cells" />
      {error ? <ErrorState error={error} what="cells" retry={retry} /> : <SkeletonRows />}
    </>
  );
}
