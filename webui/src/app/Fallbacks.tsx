import { Button, Loader } from "@mantine/core";
import { useRouter, type ErrorComponentProps } from "@tanstack/react-router";
import { explain } from "@/api/errors";
import { Blank } from "@/ui/Blank";
import { LinkButton } from "@/ui/LinkButton";

/** Stands for the whole page, without the frame: the landmark is its own. */
export function Lost() {
  return (
    <main>
      <Blank
        title="There is no such page"
        action={
          <LinkButton to="/jobs" variant="default">
            Go to the jobs
          </LinkButton>
        }
      >
        The address may be mistyped, or from an older version.
      </Blank>
    </main>
  );
}

export function Crash({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  const retry = () => {
    reset();
    void router.invalidate();
  };
  return (
    <Blank
      tone="bad"
      title="This page broke"
      action={
        <Button variant="default" onClick={retry}>
          Try again
        </Button>
      }
    >
      {explain(error)}
    </Blank>
  );
}

export function Waiting() {
  return <Blank title="One moment" action={<Loader size="sm" type="dots" />} />;
}
