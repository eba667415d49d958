import { Button, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { users } from "@/api/admin";
import { errorMessage, isApiError } from "@/api/errors";
import { groups, importUsers } from "@/api/groups";
import type { ImportedUser } from "@/api/types";
import { pluralize } from "@/format/numbers";
import { Dialog } from "@/ui/Dialog";
import { CopyableCode } from "@/ui/CopyableCode";
import { FilePicker } from "@/ui/FilePicker";
import css from "./admin.module.css";

const EXAMPLE = `username,email,groups,virtual_clusters
mei,mei@example.org,research,vision:admin;nlp`;

/** What is wrong with a line of the file. */
interface Problem {
  line: number;
  column: string;
  message: string;
}

/** Users from a CSV file: it is checked as soon as it is chosen, and taken whole or not at all. */
export function ImportUsersDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const check = useMutation({ mutationFn: (csv: string) => importUsers(csv, true) });
  const run = useMutation({
    mutationFn: () => importUsers(text, false),
    onSettled: async () => {
      await queries.invalidateQueries({ queryKey: users.queryKey });
      await queries.invalidateQueries({ queryKey: groups.queryKey });
    },
  });
  function take(csv: string) {
    setText(csv);
    run.reset();
    if (csv.trim()) check.mutate(csv);
    else check.reset();
  }
  function close() {
    take("");
    onClose();
  }
  const checked = check.data?.users;
  return (
    <Dialog opened={open} onClose={close} title="Import users" size={640}>
      {run.data ? (
        <Links users={run.data.users} />
      ) : (
        <>
          <FilePicker onText={take} accept=".csv,text/csv">
            A CSV file with the columns username, email, groups (a;b) and virtual_clusters
            (vc:role;vc)
          </FilePicker>
          <Textarea
            aria-label="CSV"
            placeholder={EXAMPLE}
            value={text}
            onChange={(event) => take(event.currentTarget.value)}
            rows={6}
            mt={10}
          />
          <Problems error={check.error ?? run.error} />
          {checked ? <p className="dim">{summary(checked)}</p> : null}
          <div className={css.buttons}>
            <Button variant="default" onClick={close}>
              Cancel
            </Button>
            <Button
              disabled={!checked || check.isPending}
              loading={run.isPending}
              onClick={() => run.mutate()}
            >
              Import
            </Button>
          </div>
        </>
      )}
    </Dialog>
  );
}

function summary(found: ImportedUser[]): string {
  const created = found.filter((user) => user.is_new).length;
  return `${pluralize(created, "user")} will be created, ${found.length - created} known.`;
}

function Problems({ error }: { error: unknown }) {
  if (!error) return null;
  const problems = isApiError(error) ? ((error.details["problems"] as Problem[]) ?? []) : [];
  return (
    <div role="alert" className={css.problems}>
      <p>{errorMessage(error)}</p>
      <ul>
        {problems.slice(0, 20).map(({ line, column, message }) => (
          <li key={`${line}${column}${message}`}>
            Line {line}
            {column ? `, ${column}` : ""}: {message}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** The links by which new users set their passwords, shown this once. */
function Links({ users: found }: { users: ImportedUser[] }) {
  const created = found.filter((user) => user.reset_url);
  const text = created.map((user) => `${user.username},${user.reset_url}`).join("\n");
  return (
    <>
      <p>
        {pluralize(created.length, "user")} created, {found.length - created.length} known.
        {created.length > 0
          ? " Send each new user their link: it sets a password, once and within a day."
          : ""}
      </p>
      {created.length > 0 ? <CopyableCode text={text} label="Links" /> : null}
    </>
  );
}
