import { Button, NumberInput, Popover, UnstyledButton } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { job as jobQuery, setPriority } from "@/api/jobs";
import type { Job } from "@/api/types";
import { Icon } from "@/ui/Icon";
import { tellError } from "@/ui/notify";
import { isOver } from "./words";
import css from "./JobFacts.module.css";

/** The rank of a job in its virtual cluster, changed in place by managers. */
export function Priority({ job }: { job: Job }) {
  const queries = useQueryClient();
  const [draft, setDraft] = useState<number | null>(null);
  const change = useMutation({
    mutationFn: (priority: number) => setPriority(job.id, priority),
    onSuccess: (changed) => {
      setDraft(null);
      queries.setQueryData(jobQuery(job.id).queryKey, changed);
    },
    onError: (error) => tellError(error),
  });
  const words = (
    <>
      {job.priority_class} <span className="dim num">{job.priority}</span>
    </>
  );
  if (!job.may_prioritise || job.priority < 0 || isOver(job.state)) return words;

  function submit(event: FormEvent) {
    event.preventDefault();
    if (draft !== null) change.mutate(draft);
  }
  return (
    <Popover opened={draft !== null} onChange={(open) => !open && setDraft(null)} trapFocus>
      <Popover.Target>
        <UnstyledButton
          className={css.choice}
          aria-label="Change the priority"
          onClick={() => setDraft(job.priority)}
        >
          {words} <Icon name="down" size={11} />
        </UnstyledButton>
      </Popover.Target>
      <Popover.Dropdown>
        <form onSubmit={submit} className={css.rank}>
          <NumberInput
            label="Priority"
            description="0 to 1000: higher ones start first"
            min={0}
            max={1000}
            allowDecimal={false}
            value={draft ?? job.priority}
            onChange={(value) => setDraft(Number(value) || 0)}
          />
          <Button type="submit" loading={change.isPending}>
            Set
          </Button>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
