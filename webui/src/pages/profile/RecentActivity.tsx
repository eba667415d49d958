import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { auditEntries } from "@/api/audit";
import { AuditTable } from "@/features/audit/AuditTable";
import { EmptyState } from "@/ui/EmptyState";
import { QueryState } from "@/ui/QueryState";
import css from "./SettingsPage.module.css";

const SHOWN = 10;

/** What the user did of late, logins included, so that a stranger's use of the account is seen. */
export function RecentActivity({ username }: { username: string }) {
  const list = useQuery(auditEntries({ actor: username, limit: SHOWN }));
  return (
    <>
      <h2 className={css.title}>Recent activity</h2>
      <QueryState query={list} what="recent activity" rows={4}>
        {({ results, next }) =>
          results.length === 0 ? (
            <EmptyState title="Nothing is recorded yet" />
          ) : (
            <>
              <AuditTable label="Recent activity" entries={results} hide="actor" />
              {next ? (
                <Link to="/audit" search={{ actor: username }} className="link">
                  Show all of it
                </Link>
              ) : null}
            </>
          )
        }
      </QueryState>
    </>
  );
}
