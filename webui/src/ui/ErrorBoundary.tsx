import { Button } from "@mantine/core";
import { CatchBoundary } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { errorMessage } from "@/api/errors";
import { EmptyState } from "./EmptyState";

interface Props {
  /** What breaks if it breaks: "This tab". */
  what: string;
  /** Another key tries again, as when the user opens another tab. */
  resetKey: string;
  children: ReactNode;
}

/** Shows the error of a part of a page in place of that part; the rest of the page stays. */
export function ErrorBoundary({ what, resetKey, children }: Props) {
  return (
    <CatchBoundary
      getResetKey={() => resetKey}
      errorComponent={({ error, reset }) => (
        <EmptyState
          tone="bad"
          title={`${what} broke`}
          action={
            <Button variant="default" onClick={reset}>
              Try again
            </Button>
          }
        >
          {errorMessage(error)}
        </EmptyState>
      )}
    >
      {children}
    </CatchBoundary>
  );
}
