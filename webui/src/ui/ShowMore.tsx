import { Button } from "@mantine/core";
import { errorMessage } from "@/api/errors";
import css from "./ShowMore.module.css";

interface Props {
  /** What is used here of the result of `useInfiniteQuery`. */
  list: {
    hasNextPage: boolean;
    isFetchingNextPage: boolean;
    isFetchNextPageError: boolean;
    error: unknown;
    fetchNextPage: () => unknown;
  };
  className: string | undefined;
}

/** Below a list in pages, reads the next one; where that failed, it says why. */
export function ShowMore({ list, className }: Props) {
  if (!list.hasNextPage) return null;
  return (
    <div className={`${css.more} ${className}`}>
      <Button
        variant="default"
        loading={list.isFetchingNextPage}
        onClick={() => void list.fetchNextPage()}
      >
        Show more
      </Button>
      {list.isFetchNextPageError ? (
        <p className={css.error} role="alert">
          {errorMessage(list.error)}
        </p>
      ) : null}
    </div>
  );
}
