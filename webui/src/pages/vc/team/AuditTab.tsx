import { useNavigate, useSearch } from "@tanstack/react-router";
import { AuditLog } from "@/features/audit/AuditLog";
import { auditSearch } from "@/features/audit/search";

/** What was changed in this virtual cluster, for its VC admins. */
export function AuditTab({ name }: { name: string }) {
  const search = useSearch({ from: "/shell/virtual-clusters/$name" });
  const navigate = useNavigate({ from: "/virtual-clusters/$name" });
  return (
    <AuditLog
      search={auditSearch({ ...search })}
      virtualCluster={name}
      onSearch={(next) =>
        void navigate({ search: { tab: "audit", ...next }, replace: next.cursor === search.cursor })
      }
    />
  );
}
