import { Button } from "@mantine/core";
import { useState } from "react";
import { errorMessage, isApiError } from "@/api/errors";
import { Icon } from "./Icon";
import { StaleNote } from "./StaleNote";
import css from "./StaleNote.module.css";

interface Props {
  /** What is used here of the result of `useQuery`. */
  query: React.ComponentProps<typeof StaleNote>["query"] & { errorUpdateCount: number };
  what: string;
  /** The part is as wide as the page. */
  wide?: boolean;
}

/** Whether nothing was read yet because the read failed; also while it is tried again. */
export function isUnread(query: { data: unknown; errorUpdateCount: number }): boolean {
  return query.data === undefined && query.errorUpdateCount > 0;
}

/** The same as the error of a field that offers what was read. */
export function unreadText(
  query: { data: unknown; errorUpdateCount: number; error: unknown },
  what: string,
): string | null {
  if (!isUnread(query)) return null;
  return `The ${what} could not be read${query.error ? `: ${errorMessage(query.error)}` : "."}`;
}

/** For a part of a page that shows nothing while it is read, or where there is nothing: says in a
 * line that the read failed, with a way to try again, since several such parts may stand below each
 * other. It stays while the part is read again, and so does the focus on its button. */
export function ReadNote({ query, what, wide = false }: Props) {
  const { error, isFetching, refetch } = query;
  const [latest, setLatest] = useState(error);
  if (error && error !== latest) setLatest(error);
  if (!isUnread(query)) return <StaleNote query={query} what={what} part={!wide} />;
  // The login is asked for over the page.
  if (isApiError(latest, 401)) return null;
  return (
    <div className={css.note} data-part={!wide || undefined} role="alert">
      <Icon name="warning" size={16} />
      <p>
        The {what} could not be read{latest ? `: ${errorMessage(latest)}` : "."}
        {/* Not announced: a part that is polled is tried again every few seconds. */}
        {isFetching ? <span aria-hidden> Trying again…</span> : null}
      </p>
      <Button size="xs" variant="default" onClick={() => void refetch()}>
        Try again
      </Button>
    </div>
  );
}
