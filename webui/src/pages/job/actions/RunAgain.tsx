import { Button, NumberInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { runAgain } from "@/api/jobs";
import { useRepeatTokens } from "@/api/repeating";
import type { Job } from "@/api/types";
import { FormDialog } from "@/ui/FormDialog";
import { notifyError, notifySuccess } from "@/ui/notify";

/** What its owner can do about a failure: with more memory where that was the cause, or elsewhere. */
export function RunAgainButtons({ job }: { job: Job }) {
  if (job.state !== "FAILED" || !job.may_clone) return null;
  return (
    <>
      {job.more_memory ? <MoreMemory job={job} more={job.more_memory} /> : null}
      <Elsewhere job={job} />
    </>
  );
}

function MoreMemory({ job, more }: { job: Job; more: NonNullable<Job["more_memory"]> }) {
  const [open, setOpen] = useState(false);
  const [memory, setMemory] = useState<number | string>(more.suggested_mb);
  const submission = useRunAgain(job);
  return (
    <>
      <Button size="compact-sm" onClick={() => setOpen(true)}>
        Run again with more memory
      </Button>
      <FormDialog
        open={open}
        title={`Run ${job.name} again with more memory`}
        verb="Run again"
        mutation={{ ...submission, mutate: () => submission.mutate({ memory_mb: Number(memory) }) }}
        onClose={() => setOpen(false)}
      >
        <NumberInput
          label={`Memory of each task of ${more.role} in MiB`}
          description={`It asked for ${more.memory_mb.toLocaleString("en")} MiB.`}
          min={1}
          allowDecimal={false}
          allowNegative={false}
          value={memory}
          onChange={setMemory}
          required
          withAsterisk={false}
          data-autofocus
        />
        <p className="dim">
          A new job with the same secrets and working files; this one stays as it is.
        </p>
      </FormDialog>
    </>
  );
}

function Elsewhere({ job }: { job: Job }) {
  const submission = useRunAgain(job);
  return (
    <Button
      size="compact-sm"
      variant="default"
      title="A new job that prefers other nodes than those where it failed, for a day"
      loading={submission.isPending}
      onClick={() =>
        submission.mutate({ elsewhere: true }, { onError: (error) => notifyError(error) })
      }
    >
      Run again elsewhere
    </Button>
  );
}

function useRunAgain(job: Job) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const tokens = useRepeatTokens();
  return useMutation({
    mutationFn: (changes: Parameters<typeof runAgain>[1]) =>
      tokens.send(JSON.stringify(changes), (token) => runAgain(job.id, changes, token)),
    onSuccess: async (made) => {
      queries.setQueryData(["job", made.id], made);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      notifySuccess(`${made.name} is submitted`);
      await navigate({ to: "/jobs/$id", params: { id: made.id } });
    },
  });
}
