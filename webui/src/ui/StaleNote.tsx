import { Button } from "@mantine/core";
import { useConnection } from "@/api/connection";
import { errorMessage, isApiError, isConnectionError } from "@/api/errors";
import { formatClock } from "@/format/time";
import { Icon } from "./Icon";
import css from "./StaleNote.module.css";

interface Props {
  /** What is used here of the result of `useQuery`. */
  query: {
    data: unknown;
    /** Of `data`, in ms since the epoch. */
    dataUpdatedAt: number;
    error: unknown;
    isFetching: boolean;
    /** Of a list in pages: the latest failure was that of one more page. */
    isFetchNextPageError?: boolean;
    refetch: () => unknown;
  };
  what: string;
  /** It stands in a part of the page, and not across all of it. */
  part?: boolean;
}

/** Says above data that were read before that the latest read failed, why, and how old they are.
 * Not where the page says so itself: without a connection (also while what failed for that is read
 * again), when the session has ended, and when only one more page was not read. */
export function StaleNote({ query, what, part }: Props) {
  const { lost } = useConnection();
  const { data, dataUpdatedAt, error, isFetching, isFetchNextPageError, refetch } = query;
  if (!error || data === undefined || lost || isApiError(error, 401)) return null;
  if (isFetchNextPageError || (isFetching && isConnectionError(error))) return null;
  return (
    <div className={css.note} data-part={part || undefined} role="status">
      <Icon name="warning" size={16} />
      <p>
        The {what} could not be read again: {errorMessage(error)} What you see is from{" "}
        {formatClock(dataUpdatedAt)}.
      </p>
      <Button size="xs" variant="default" onClick={() => void refetch()}>
        Try again
      </Button>
    </div>
  );
}
