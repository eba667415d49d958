import { useBlocker } from "@tanstack/react-router";
import { count } from "@/format/size";
import { Confirm } from "@/ui/ConfirmButton";

/** Asks before changes are left behind, by a link or with the tab. */
export function LeaveGuard({ changes }: { changes: number }) {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: ({ current, next }) => changes > 0 && current.pathname !== next.pathname,
    enableBeforeUnload: () => changes > 0,
    withResolver: true,
  });
  return (
    <Confirm
      open={status === "blocked"}
      question="Leave without saving?"
      explanation={`${count(changes, "change")} of what virtual clusters own would be lost.`}
      verb="Leave"
      onConfirm={() => proceed?.()}
      onClose={() => reset?.()}
    />
  );
}
