import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { me } from "@/api/session";
import { AuditLog, ExportMenu } from "@/features/audit/AuditLog";
import { PageHeader } from "@/ui/PageHeader";

/** Who did what: all of it for admins, else what one did oneself and in the own virtual clusters. */
export function AuditPage() {
  const search = useSearch({ from: "/shell/audit" });
  const navigate = useNavigate({ from: "/audit" });
  const { data: user } = useQuery(me);
  const note = user?.is_admin
    ? "Who changed what, from where"
    : "What you did, and what happened in the virtual clusters that you administer";
  return (
    <>
      <PageHeader title="Audit" note={note}>
        <ExportMenu search={search} />
      </PageHeader>
      <AuditLog
        search={search}
        onSearch={(next) => void navigate({ search: next, replace: next.cursor === search.cursor })}
      />
    </>
  );
}
