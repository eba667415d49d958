import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { endOtherSessions, endSession, ownSessions } from "@/api/session";
import type { BrowserSession } from "@/api/types";
import { ConfirmButton, DeleteIcon } from "@/ui/ConfirmButton";
import { Icon } from "@/ui/Icon";
import { QueryState } from "@/ui/QueryState";
import { RelativeTime } from "@/ui/Time";
import { notifyError } from "@/ui/notify";
import css from "./ApiTokens.module.css";
import { programOf } from "./programOf";

/** Where the user is logged in by a browser; a session that is not known is ended. */
export function Sessions() {
  const list = useQuery(ownSessions);
  const queries = useQueryClient();
  const ending = useMutation({
    mutationFn: endOtherSessions,
    onError: (error) => notifyError(error, "The sessions were not ended"),
    onSettled: () => queries.invalidateQueries({ queryKey: ownSessions.queryKey }),
  });
  const others = list.data?.filter((row) => !row.current).length ?? 0;
  return (
    <>
      <header className={css.head}>
        <div>
          <h2 className={css.title}>Sessions</h2>
          <p className="dim">
            Browsers in which you are logged in. Do you not know one of them? End it, and change
            your password.
          </p>
        </div>
        {others > 0 ? (
          <ConfirmButton
            question="End all other sessions?"
            explanation="Whoever uses them has to log in again. API tokens go on."
            verb="End them"
            busy={ending.isPending}
            onConfirm={() => ending.mutate()}
          >
            End all others
          </ConfirmButton>
        ) : null}
      </header>
      <QueryState query={list} what="list of sessions" rows={2}>
        {(rows) => (
          <ul>
            {rows.map((row) => (
              <SessionRow key={row.id} row={row} />
            ))}
          </ul>
        )}
      </QueryState>
    </>
  );
}

function SessionRow({ row }: { row: BrowserSession }) {
  const queries = useQueryClient();
  const ending = useMutation({
    mutationFn: () => endSession(row.id),
    onError: (error) => notifyError(error, "The session was not ended"),
    onSettled: () => queries.invalidateQueries({ queryKey: ownSessions.queryKey }),
  });
  const program = programOf(row.user_agent);
  return (
    <li className={css.row} title={row.user_agent}>
      <Icon name="screen" size={14} />
      <b className={css.name}>{program}</b>
      <span className="dim">
        {row.address} ·{" "}
        {row.current ? (
          "this session"
        ) : (
          <>
            seen <RelativeTime at={row.last_seen_at} />
          </>
        )}
      </span>
      <span className={css.end} />
      {row.current ? null : (
        <DeleteIcon
          label={`End the session of ${program} at ${row.address}`}
          busy={ending.isPending}
          question="End this session?"
          explanation={`${program} at ${row.address} has to log in again.`}
          verb="End"
          onConfirm={() => ending.mutate()}
        />
      )}
    </li>
  );
}
