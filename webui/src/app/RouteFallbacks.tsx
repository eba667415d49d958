import { Button, Loader } from "@mantine/core";
import { useRouter, type ErrorComponentProps } from "@tanstack/react-router";
import { errorMessage } from "@/api/errors";
import { EmptyState } from "@/ui/EmptyState";
import { LinkButton } from "@/ui/LinkButton";

/** Stands for the whole page, without the frame: the landmark is its own. */
export function NotFound() {
  return (
    <main>
      <EmptyState
        page
        title="There is no such page"
        action={
          <LinkButton to="/jobs" variant="default">
            Go to the jobs
          </LinkButton>
        }
      >
        The address may be mistyped, or from an older version.
      </EmptyState>
    </main>
  );
}

export function PageError({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const retry = () => {
    reset();
    void router.invalidate();
  };
  return (
    <EmptyState
      tone="bad"
      page
      title="This page broke"
      action={
        <Button variant="default" onClick={retry}>
          Try again
        </Button>
      }
    >
      {errorMessage(error)}
    </EmptyState>
  );
}

export function PagePending() {
  return <EmptyState title="One moment" action={<Loader size="sm" type="dots" />} />;
}
